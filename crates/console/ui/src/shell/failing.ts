// How many jobs fail now, for the title, the icon and the navigation.
import { useEffect } from "react";
import { useSomeJobs } from "../api/queries";

export function isFailing(job: { consecutive_failures: number; enabled: boolean; stopped_reason: string | null }): boolean {
  return job.consecutive_failures > 0 && (job.enabled || job.stopped_reason !== "asked");
}

/** Failing jobs among the first thousand. */
export function useFailing(): number {
  const jobs = useSomeJobs();
  return jobs.data?.items.filter(isFailing).length ?? 0;
}

/** Lets title and icon of the tab say when something fails. */
export function useTabSign(title: string): void {
  const failing = useFailing();
  useEffect(() => {
    document.title = `${failing > 0 ? `(${failing}) ` : ""}${title} · Punctual`;
    const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    const wanted = failing > 0 ? "/favicon-failing.svg" : "/favicon.svg";
    if (icon && !icon.href.endsWith(wanted)) icon.href = wanted;
  }, [failing, title]);
}
