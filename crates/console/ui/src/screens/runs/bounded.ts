// Which runs a list begins with.
import type { RunFilter } from "../../api/queries";

const MINUTE = 60_000;

export type When = "past" | "ahead";

/** What is shown where no time is asked for: up to now, or from now on, so that what is stored for next week does not
 * stand before what happened today. Whole minutes, so that it is not another question with every second. */
export function bounded(filter: RunFilter, when: When, now: number): RunFilter {
  if (filter.from || filter.to || filter.key) return filter;
  const minute = new Date(Math.ceil(now / MINUTE) * MINUTE).toISOString();
  return when === "ahead" ? { ...filter, from: new Date(Math.floor(now / MINUTE) * MINUTE).toISOString() } : { ...filter, to: minute };
}
