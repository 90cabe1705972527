// Which runs a list begins with, and in what order they come.
import type { RunFilter } from "../../api/queries";
import type { Run } from "../../api/types";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export type When = "past" | "ahead";

/** The state that stands for all of them where only those are shown that have not ended. */
export const ANY = "any";

/** What is shown where no time is asked for: up to now, or from now on, so that what is stored for next week does not
 * stand before what happened today. Whole minutes, so that it is not another question with every second. Of what is ahead,
 * only what will run, unless a state is asked for. */
export function bounded(filter: RunFilter, when: When, now: number): RunFilter {
  const { state, ...rest } = filter;
  const wanted = state || (when === "ahead" && !filter.key ? "pending" : "");
  const named: RunFilter = wanted && wanted !== ANY ? { ...rest, state: wanted } : rest;
  if (filter.from || filter.to || filter.key) return named;
  const minute = new Date(Math.ceil(now / MINUTE) * MINUTE).toISOString();
  return when === "ahead" ? { ...named, from: new Date(Math.floor(now / MINUTE) * MINUTE).toISOString() } : { ...named, to: minute };
}

/** How far ahead each stretch reaches. */
const STRETCHES = [HOUR, DAY, 7 * DAY];

/** What is ahead, cut into stretches that are asked for one after the other: the server lists runs by number, so only
 * runs of one stretch have to be put in order. */
export function stretches(filter: RunFilter): RunFilter[] {
  const from = Date.parse(filter.from ?? "");
  if (!Number.isFinite(from) || filter.to) return [filter];
  const at = (ms: number) => new Date(from + ms).toISOString();
  const ends = STRETCHES.map((end, index) => ({ ...filter, from: at(STRETCHES[index - 1] ?? 0), to: at(end) }));
  return [...ends, { ...filter, from: at(STRETCHES[STRETCHES.length - 1] ?? 0) }];
}

/** Runs by fire time, the first first. */
export function inOrder<R extends Pick<Run, "fire_time" | "id">>(runs: R[]): R[] {
  return [...runs].sort((a, b) => Date.parse(a.fire_time) - Date.parse(b.fire_time) || a.id - b.id);
}
