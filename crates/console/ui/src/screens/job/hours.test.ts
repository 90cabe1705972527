// How hours are judged.
import { expect, test } from "vitest";
import type { Run, RunState } from "../../api/types";
import { badness, byHour } from "./hours";

const hour = (good: number, bad: number, other = 0) => badness({ good, bad, other });

test("an hour is as bad as the share of its runs that failed, however many there were", () => {
  expect([hour(1, 0), hour(6_000, 0)]).toEqual(["none", "none"]);
  expect([hour(59, 1), hour(9, 1), hour(89, 11), hour(1, 1), hour(1, 2), hour(1, 999)]).toEqual(["few", "few", "some", "some", "most", "most"]);
  expect([hour(0, 1), hour(0, 96)]).toEqual(["all", "all"]);
});

test("what did not run is no failure, and hides none", () => {
  expect([hour(0, 0), hour(0, 0, 5), hour(5, 0, 5), hour(0, 5, 5)]).toEqual(["empty", "idle", "none", "all"]);
});

test("runs are laid into the hours of the job's zone", () => {
  const run = (fire_time: string, state: RunState) => ({ fire_time, state }) as Run;
  const days = byHour([run("2026-05-05T23:30:00Z", "failed"), run("2026-05-05T21:10:00Z", "lost"), run("2026-05-05T21:20:00Z", "succeeded")], "Europe/Berlin");
  expect(days.map(([date]) => date)).toEqual(["2026-05-06", "2026-05-05"]);
  expect(days[0]?.[1][1]).toEqual({ good: 0, bad: 1, other: 0 });
  expect(days[1]?.[1][23]).toEqual({ good: 1, bad: 1, other: 0 });
});
