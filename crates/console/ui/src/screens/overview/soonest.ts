// Jobs by when they fire next.
import type { Job } from "../../api/types";

/** Those that fire, the soonest first. Live updates change single rows of the list, so its own order does not last. */
export function soonest<J extends Pick<Job, "enabled" | "next_fire_time" | "id">>(jobs: J[]): J[] {
  const at = (job: J) => Date.parse(job.next_fire_time ?? "");
  return jobs.filter((job) => job.enabled && Number.isFinite(at(job))).sort((a, b) => at(a) - at(b) || a.id - b.id);
}
