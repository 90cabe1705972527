// Lengths of time, said and read.
import { expect, test } from "vitest";
import { brief, bytes, left, length, percentile, span } from "./words";

test("a length has its two greatest units", () => {
  expect([0, 420, 1_500, 59_600, 65_000, 3_660_000, 90_000_000].map(length)).toEqual(["0ms", "420ms", "1.5s", "60s", "1m 05s", "1h 01m", "1d 1h"]);
});

test("a brief one has one, and a countdown whole seconds", () => {
  expect([999, 59_999, 3_599_999, 90_000_000, 200_000_000].map(brief)).toEqual(["999ms", "59s", "59m", "25h", "2d"]);
  expect([1_999, 61_000].map(left)).toEqual(["1s", "1m 01s"]);
});

test("a span is read as the API writes it", () => {
  expect(["90s", "1h30m", "10ms", "1.5s", "2d"].map(span)).toEqual([90_000, 5_400_000, 10, 1_500, 172_800_000]);
  expect(["", "5", "5x", "s5", "1h 30m", "5m5"].map(span)).toEqual([null, null, null, null, null, null]);
});

test("bytes and percentiles", () => {
  expect([0, 1_023, 1_536, 10_485_760].map(bytes)).toEqual(["0 B", "1023 B", "1.5 KB", "10 MB"]);
  expect([0.5, 0.95, 1].map((share) => percentile([1, 2, 3, 4], share))).toEqual([2, 4, 4]);
  expect(percentile([], 0.5)).toBe(null);
});
