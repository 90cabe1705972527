// Seconds in which much is due.
import type { Peak } from "../../api/outlook";

/** How many jobs of such a second are named. */
export const JOBS_NAMED = 4;

/** How many runs of a second belong to jobs that are not named. */
export function unnamed(slot: Peak): number {
  return slot.count - slot.jobs.slice(0, JOBS_NAMED).reduce((sum, job) => sum + job.count, 0);
}
