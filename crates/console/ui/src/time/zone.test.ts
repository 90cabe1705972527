// Wall times in zones: the days on which clocks are changed, odd offsets, and years long past.
import { describe, expect, test } from "vitest";
import { clockChange, iso, isZone, offsetText, startOf, wall } from "./zone";

const at = (text: string) => Date.parse(text);

describe("a wall time", () => {
  test("has the offset of its day", () => {
    expect(iso(at("2026-01-15T12:00:00Z"), "Europe/Berlin")).toBe("2026-01-15T13:00:00+01:00");
    expect(iso(at("2026-07-15T12:00:00Z"), "Europe/Berlin")).toBe("2026-07-15T14:00:00+02:00");
    expect(iso(at("2026-07-15T12:00:00.250Z"), "UTC")).toBe("2026-07-15T12:00:00.250Z");
  });

  test("on either side of the spring gap is an hour apart", () => {
    expect(iso(at("2026-03-29T00:59:59Z"), "Europe/Berlin")).toBe("2026-03-29T01:59:59+01:00");
    expect(iso(at("2026-03-29T01:00:00Z"), "Europe/Berlin")).toBe("2026-03-29T03:00:00+02:00");
  });

  test("that happens twice in autumn is told apart by its offset", () => {
    expect(iso(at("2026-10-25T00:30:00Z"), "Europe/Berlin")).toBe("2026-10-25T02:30:00+02:00");
    expect(iso(at("2026-10-25T01:30:00Z"), "Europe/Berlin")).toBe("2026-10-25T02:30:00+01:00");
  });

  test("at midnight is 00, never 24", () => {
    expect(wall(at("2026-05-05T00:00:00Z"), "UTC").time).toBe("00:00:00");
  });

  test("knows offsets of quarter hours and of the west", () => {
    expect(iso(at("2026-06-01T00:00:00Z"), "Asia/Kathmandu")).toBe("2026-06-01T05:45:00+05:45");
    expect(iso(at("2026-06-01T00:00:00Z"), "America/St_Johns")).toBe("2026-05-31T21:30:00-02:30");
    expect(offsetText(-150)).toBe("-02:30");
  });

  test("of a zone that shifts by half an hour is right on both sides", () => {
    expect(clockChange(at("2026-10-03T12:00:00Z"), at("2026-10-04T12:00:00Z"), "Australia/Lord_Howe")).toBe(30);
  });
});

describe("a change of the clocks", () => {
  test("is found between two fire times", () => {
    expect(clockChange(at("2026-03-28T12:00:00Z"), at("2026-03-29T12:00:00Z"), "America/Toronto")).toBe(0);
    expect(clockChange(at("2026-03-07T12:00:00Z"), at("2026-03-08T12:00:00Z"), "America/Toronto")).toBe(60);
    expect(clockChange(at("2026-10-31T12:00:00Z"), at("2026-11-01T12:00:00Z"), "America/Toronto")).toBe(-60);
  });
});

describe("the start of a day", () => {
  test("is midnight in the zone, also on days of 23 and 25 hours", () => {
    expect(iso(startOf("day", at("2026-03-29T15:00:00Z"), "Europe/Berlin"), "Europe/Berlin")).toBe("2026-03-29T00:00:00+01:00");
    expect(iso(startOf("day", at("2026-10-25T15:00:00Z"), "Europe/Berlin"), "Europe/Berlin")).toBe("2026-10-25T00:00:00+02:00");
  });

  test("of an hour keeps the quarter hours of the zone", () => {
    expect(iso(startOf("hour", at("2026-06-01T00:20:30Z"), "Asia/Kathmandu"), "Asia/Kathmandu")).toBe("2026-06-01T06:00:00+05:45");
  });
});

test("a zone that nobody knows is not one", () => {
  expect(isZone("Europe/Berlin")).toBe(true);
  expect(isZone("Europe/Atlantis")).toBe(false);
});
