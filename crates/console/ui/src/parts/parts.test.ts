// The parts that need no browser: differences, colours of terminals, streams of events.
import { expect, test } from "vitest";
import { EventCutter } from "../api/stream";
import { gathered, reviewed } from "../api/outlook";
import { ansi, plain } from "./ansi";
import { applyPatch, isEqual, lineDiff, mergePatch, sortedJson } from "./merge";

test("a patch makes one value of another, by RFC 7396", () => {
  const [before, after] = [{ a: 1, b: { c: 2, d: 3 }, e: [1] }, { a: 1, b: { c: 4 }, e: [1, 2] }];
  const patch = mergePatch(before, after);
  expect(patch).toEqual({ b: { c: 4, d: null }, e: [1, 2] });
  expect(applyPatch(before, patch)).toEqual(after);
  expect(mergePatch(after, after)).toBe(undefined);
  expect(isEqual({ a: undefined, b: 1 }, { b: 1 })).toBe(true);
});

test("a difference has every line once", () => {
  const lines = lineDiff(["a", "b", "c"], ["a", "x", "c"]);
  expect(lines.map((line) => `${line.kind} ${line.text}`)).toEqual(["same a", "removed b", "added x", "same c"]);
  expect(sortedJson({ b: 1, a: { d: 1, c: [2] } })).toBe(sortedJson({ a: { c: [2], d: 1 }, b: 1 }));
});

test("colours become classes, and nothing else of a terminal's language is left", () => {
  expect(ansi("\u001b[1;31mred\u001b[0m plain")).toEqual([{ text: "red", classes: "ansi-bold ansi-31" }, { text: " plain", classes: "" }]);
  expect(ansi("\u001b[38;5;196mx\u001b[39my")).toEqual([{ text: "x", classes: "ansi-31" }, { text: "y", classes: "" }]);
  for (const hostile of ["\u001b]0;title\u0007text", "\u001b[2J\u001b[Htext", "\u001b]8;;http://evil/\u001b\\text\u001b]8;;\u001b\\", "te\u0000x\u0008t", "\u009b31mtext", "\u001bPq\u001b\\text"]) {
    expect(ansi(hostile).map((span) => span.text).join("")).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
    expect(plain(hostile)).toContain("t");
  }
  expect(ansi("<b>x</b>")).toEqual([{ text: "<b>x</b>", classes: "" }]);
});

test("events are cut out of a stream wherever it breaks", () => {
  const text = 'id: a-1\nevent: run.closed\ndata: {"run":1}\n\n:\n\nretry: 2000\n\nevent: reset\ndata: {}\n\n';
  for (let at = 0; at <= text.length; at += 1) {
    const cutter = new EventCutter();
    const events = [...cutter.feed(text.slice(0, at)), ...cutter.feed(text.slice(at))];
    expect(events).toEqual([{ id: "a-1", name: "run.closed", data: '{"run":1}' }, { id: null, name: "reset", data: "{}" }]);
  }
});

test("what is due is counted by minute, and the busiest seconds are named", () => {
  const found = gathered([1_000, 1_500, 2_000, 61_000, 999_999], 0, 120_000);
  expect(found.slots).toEqual([{ at: 0, count: 3 }, { at: 60_000, count: 1 }]);
  expect(found.busiest[0]).toEqual({ at: 1_000, count: 2 });
});

test("what was is counted by half hours, and backfilled runs are not late", () => {
  const now = Date.parse("2026-05-05T10:10:00Z");
  const base = { closed_at: "2026-05-05T10:05:00Z", lag_ms: 5_000, state: "succeeded", origin: "schedule" };
  const review = reviewed([base, { ...base, origin: "backfill" }, { ...base, state: "failed", lag_ms: 1 }, { ...base, state: "skipped", lag_ms: null }] as never, now, false);
  expect(review.slots.at(-1)).toMatchObject({ succeeded: 2, failed: 1, notRun: 1, late: 1, lagMax: 5_000 });
});
