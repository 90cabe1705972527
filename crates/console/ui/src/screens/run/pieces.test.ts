// The time of a run: every piece has a name, they touch each other, and none is lost.
import { describe, expect, test } from "vitest";
import type { Attempt, Run } from "../../api/types";
import { shares, timeline } from "./pieces";

const FIRE = Date.parse("2026-05-05T10:00:00Z");
const at = (ms: number) => new Date(FIRE + ms).toISOString();

function attempt(number: number, from: number, to: number | null, outcome: Attempt["outcome"] = "succeeded"): Attempt {
  return { number, executor: "", started_at: at(from), ended_at: to === null ? null : at(to), outcome: to === null ? null : outcome, message: "", possible_duplicate: false };
}

function run(part: Partial<Run>): Run {
  return {
    id: 1, job: 1, fire_time: at(0), origin: "schedule", state: "succeeded", reason: "", lag_ms: null, possible_duplicate: false, key: null, payload: null,
    priority: 5, retry_of: null, parent: null, ready_at: null, closed_at: null, count: null, until: null, attempts: [], parts: [], ...part,
  };
}

const told = (one: Run, now = 0) => timeline(one, FIRE + now).map((piece) => `${piece.kind} ${piece.name} ${piece.to - piece.from}`);

describe("the pieces of a run", () => {
  test("are the way, the attempt, and the writing down", () => {
    expect(told(run({ attempts: [attempt(1, 4, 104)], closed_at: at(110) }))).toEqual(["wait On its way 4", "good Attempt 1 100", "settle Written down 6"]);
  });

  test("name lateness, failed attempts and the pause between them", () => {
    const failed = run({ state: "failed", attempts: [attempt(1, 2_000, 2_100, "failed"), attempt(2, 3_100, 3_150, "failed")], closed_at: at(3_150) });
    expect(told(failed)).toEqual(["late Late 2000", "bad Attempt 1 100", "pause Pause before attempt 2 1000", "bad Attempt 2 50"]);
  });

  test("leave out what may have been sent or not: until the certain send the run is late", () => {
    const repeated = run({ attempts: [{ ...attempt(1, 0, 4_000, "lost"), supposed: true }, attempt(2, 4_000, 4_100)], closed_at: at(4_100) });
    expect(told(repeated)).toEqual(["late Late 4000", "good Attempt 2 100"]);
  });

  test("go on to now while an attempt is under way", () => {
    const pieces = timeline(run({ state: "running", attempts: [attempt(1, 1, null)] }), FIRE + 5_001);
    expect(pieces.at(-1)).toMatchObject({ kind: "busy", isOpen: true, to: FIRE + 5_001 });
  });

  test("say what a run waits for before it is sent", () => {
    expect(told(run({ state: "pending" }), -5_000)).toEqual(["wait Not due yet 0"]);
    expect(told(run({ state: "pending" }), 3_000)).toEqual(["wait Waits 3000"]);
    expect(told(run({ state: "retrying", attempts: [attempt(1, 0, 10, "failed")] }), 510)).toEqual(["bad Attempt 1 10", "pause Pause before the next attempt 500"]);
    expect(told(run({ state: "skipped", closed_at: at(7_000) }))).toEqual(["wait Waited, and did not run 7000"]);
  });

  test("call the past of a backfilled run what it is", () => {
    expect(told(run({ origin: "backfill", attempts: [attempt(1, 3_600_000, 3_600_050)], closed_at: at(3_600_050) }))[0]).toBe("wait Before it was asked for 3600000");
  });

  test("part what was put off from what was late", () => {
    expect(told(run({ ready_at: at(60_000), attempts: [attempt(1, 60_200, 60_300)], closed_at: at(60_300) }))).toEqual(["wait Put off 60000", "late Late 200", "good Attempt 1 100"]);
  });

  test("touch each other and are never negative, whatever clocks said", () => {
    const odd = run({ attempts: [attempt(1, -50, -20, "failed"), attempt(2, -30, 40)], closed_at: at(20) });
    const pieces = timeline(odd, FIRE + 100);
    for (const [index, piece] of pieces.entries()) {
      expect(piece.to).toBeGreaterThanOrEqual(piece.from);
      if (index > 0) expect(piece.from).toBe(pieces[index - 1]?.to);
    }
  });
});

describe("the shares of the bar", () => {
  test("fill it, and cut a wait that dwarfs the work", () => {
    const pieces = shares(timeline(run({ origin: "backfill", attempts: [attempt(1, 3_600_000, 3_600_100)], closed_at: at(3_600_100) }), FIRE));
    expect(pieces.reduce((sum, piece) => sum + piece.share, 0)).toBeCloseTo(1);
    expect(pieces.map((piece) => piece.isCut)).toEqual([true, false]);
    expect(pieces[1]?.share).toBeGreaterThan(0.5);
  });

  test("are true to scale otherwise", () => {
    const pieces = shares(timeline(run({ attempts: [attempt(1, 100, 400)], closed_at: at(500) }), FIRE));
    expect(pieces.map((piece) => Math.round(piece.share * 10))).toEqual([2, 6, 2]);
  });
});
