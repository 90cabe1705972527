// Runs by hour, and how bad each hour was.
import type { Run } from "../../api/types";
import { tone } from "../../parts/State";
import { wall } from "../../time/zone";

export interface Hour {
  good: number;
  bad: number;
  other: number;
}

/** Runs by day and hour in a zone, the newest day first. */
export function byHour(runs: Run[], zone: string): [string, Hour[]][] {
  const days = new Map<string, Hour[]>();
  for (const run of runs) {
    const { date, time } = wall(Date.parse(run.fire_time), zone);
    const cells = days.get(date) ?? Array.from({ length: 24 }, () => ({ good: 0, bad: 0, other: 0 }));
    days.set(date, cells);
    const cell = cells[Number(time.slice(0, 2))];
    if (!cell) continue;
    if (run.state === "succeeded") cell.good += 1;
    else if (tone(run.state) === "bad" || run.state === "lost") cell.bad += 1;
    else cell.other += 1;
  }
  return [...days.entries()].sort(([a], [b]) => (a < b ? 1 : -1));
}

/** How bad an hour was, by the share of its runs that failed. */
export type Badness = "empty" | "idle" | "none" | "few" | "some" | "most" | "all";

export const BADNESSES: Badness[] = ["none", "few", "some", "most", "all", "idle"];

/** Of those that ran: skipped and cancelled runs neither failed nor succeeded. */
export function badness({ good, bad, other }: Hour): Badness {
  const ran = good + bad;
  if (ran === 0) return other > 0 ? "idle" : "empty";
  if (bad === 0) return "none";
  if (good === 0) return "all";
  const share = bad / ran;
  return share <= 0.1 ? "few" : share <= 0.5 ? "some" : "most";
}
