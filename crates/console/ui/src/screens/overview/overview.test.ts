// What the first screen makes of what the server says.
import { expect, test } from "vitest";
import { namesOf } from "./missing";
import { soonest } from "./soonest";

test("jobs are in the order of their next fire times, whatever came last from the server", () => {
  const job = (id: number, next_fire_time: string | null, enabled = true) => ({ id, next_fire_time, enabled });
  const jobs = [job(1, "2026-05-05T10:03:22Z"), job(2, "2026-05-05T10:01:27Z"), job(3, null), job(4, "2026-05-05T10:00:27Z", false), job(5, "2026-05-05T12:01:00+02:00"), job(6, "2026-05-05T10:01:27Z")];
  expect(soonest(jobs).map((one) => one.id)).toEqual([5, 2, 6, 1]);
});

test("a node that several answers are without is named once", () => {
  expect(namesOf(undefined, [])).toEqual([]);
  expect(namesOf(["berlin-3", "berlin-1"], ["berlin-1"])).toEqual(["berlin-1", "berlin-3"]);
});
