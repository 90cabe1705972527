// What an edit does to the next runs, and how two people's edits become one.
import { describe, expect, test } from "vitest";
import { type Job, type JobDraft, READ_ONLY } from "../../api/types";
import { draftOf, policy } from "../job/schedule";
import { EMPTY, rebase, scheduleOf, targetOf } from "./draft";
import { onlyIn } from "./times";

const hours = (...list: number[]) => list.map((hour) => `2026-05-05T${String(hour).padStart(2, "0")}:00:00Z`);

describe("the next runs that an edit takes away or adds", () => {
  const never = () => Promise.resolve(false);

  test("are those of one schedule that the other does not name", async () => {
    expect(await onlyIn(hours(1, 2, 3), hours(2, 3, 4), never, 5)).toEqual(hours(1));
    expect(await onlyIn(hours(2, 3, 4), hours(1, 2, 3), never, 5)).toEqual(hours(4));
  });

  test("are found where the other schedule is not known so far ahead, by asking it", async () => {
    // Every hour becomes every night: what is known of the old one ends long before the new one's times.
    const asked: string[] = [];
    const isHourly = (time: string) => Promise.resolve(asked.push(time) > 0 && time.endsWith(":00:00Z"));
    const nights = ["2026-05-06T03:30:00Z", "2026-05-07T03:30:00Z"];
    expect(await onlyIn(nights, hours(1, 2, 3), isHourly, 5)).toEqual(nights);
    expect(await onlyIn(["2026-05-06T03:00:00Z"], hours(1, 2, 3), isHourly, 5)).toEqual([]);
    expect(asked).toEqual([...nights, "2026-05-06T03:00:00Z"]);
  });

  test("are the first few, and nothing is asked beyond them", async () => {
    const unasked = () => Promise.reject(new Error("asked in vain"));
    expect(await onlyIn(hours(1, 2, 3, 4, 9), hours(5), unasked, 3)).toEqual(hours(1, 2, 3));
    expect(await onlyIn([], [], unasked, 5)).toEqual([]);
  });
});

describe("two edits of one job", () => {
  const base: JobDraft = { ...EMPTY, name: "a", app: "b", tags: ["x"], target: { kind: "http", url: "http://a/", headers: { A: "1", B: "2" } } };

  test("of different fields fit together", () => {
    const { merged, both } = rebase(base, { ...base, description: "mine" }, { ...base, priority: 1 });
    expect([merged.description, merged.priority, both]).toEqual(["mine", 1, []]);
  });

  test("of the same field are told, and mine wins", () => {
    const { merged, both } = rebase(base, { ...base, priority: 2 }, { ...base, priority: 1 });
    expect([merged.priority, both]).toEqual([2, ["/priority"]]);
  });

  test("keep what I took away taken away", () => {
    const mine: JobDraft = { ...base, target: { kind: "http", url: "http://a/", headers: { B: "2" } } };
    const theirs: JobDraft = { ...base, target: { kind: "http", url: "http://a/", headers: { A: "1", B: "3" } } };
    expect(rebase(base, mine, theirs).merged.target).toMatchObject({ headers: { B: "3" } });
  });
});

describe("a schedule of another kind", () => {
  test("keeps its bounds and nothing that belongs to the old kind", () => {
    const next = scheduleOf("every", { kind: "cron", expression: "* * * * *", from: "2026-01-01T00:00:00Z" }, 0);
    expect(next).toEqual({ kind: "every", interval: "5m", from: "2026-01-01T00:00:00Z" });
    expect(targetOf("executor", { kind: "http", url: "x", block: "serial" })).toEqual({ kind: "executor", handler: "", route: "round", block: "serial" });
  });

  test("is told in one paragraph with the whole policy", () => {
    const job: JobDraft = { ...EMPTY, app: "a", name: "b", target: { kind: "http", method: "GET", url: "http://a/", block: "serial" }, failure_limit: 3, delivery: "at_most_once" };
    const text = policy(job, "at 09:00 every day, UTC time").join(" ");
    for (const part of ["Fires at 09:00 every day, UTC time.", "calls GET http://a/", "never repeated", "wait for each other", "After 3 failed runs"]) expect(text).toContain(part);
  });
});

test("a copy of a job has only what can be written back", () => {
  const answered = Object.fromEntries(READ_ONLY.map((name) => [name, 1]));
  expect(draftOf({ ...EMPTY, name: "a", app: "b", ...answered } as unknown as Job)).toEqual({ ...EMPTY, name: "a", app: "b" });
});
