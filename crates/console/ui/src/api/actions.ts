// What people do to jobs and runs. Each action tells its outcome, and lets what is on the screen be asked for again.
import { type InfiniteData, type QueryClient, useQueryClient } from "@tanstack/react-query";
import { complain, say } from "../parts/Toasts";
import { t } from "../words";
import { change } from "./client";
import type { Job, JobDraft, Json, Page } from "./types";

export type JobAction = "start" | "stop" | "run" | "delete";

export function actOnJob(action: JobAction, id: number, body?: { payload?: Json; executor?: string }): Promise<Job | { run: number } | undefined> {
  if (action === "delete") return change("DELETE", `/jobs/${id}`);
  return change("POST", `/jobs/${id}/${action}`, action === "run" ? (body ?? {}) : undefined);
}

export function createJob(draft: JobDraft): Promise<Job> {
  return change("POST", "/jobs", draft);
}

/** Puts a job that the server just told into every list that shows it. */
export function keepJob(queries: QueryClient, job: Job): void {
  queries.setQueryData(["job", job.id], job);
  queries.setQueriesData<InfiniteData<Page<Job>> | Page<Job>>({ queryKey: ["list"] }, (known) => {
    const swap = (page: Page<Job>) => ({ ...page, items: page.items.map((one) => (isSame(one, job) ? job : one)) });
    if (known && "pages" in known) return { ...known, pages: known.pages.map(swap) };
    return known && "items" in known ? swap(known) : known;
  });
}

/** Lists of runs are kept under the same name; a run has no schedule. */
function isSame(one: Job, job: Job): boolean {
  return one.id === job.id && "schedule" in one;
}

export function useJobActions() {
  const queries = useQueryClient();
  return {
    async toggle(job: Job): Promise<void> {
      try {
        const after = await actOnJob(job.enabled ? "stop" : "start", job.id);
        if (after && "name" in after) keepJob(queries, after);
        say(job.enabled ? t("{name} is stopped", { name: job.name }) : t("{name} fires by itself again", { name: job.name }));
      } catch (error) {
        complain(error);
      }
    },
    async run(job: Job, payload?: Json, executor?: string): Promise<number | null> {
      try {
        const body = { ...(payload === undefined ? {} : { payload }), ...(executor ? { executor } : {}) };
        const made = (await actOnJob("run", job.id, body)) as { run: number };
        say(t("{name} runs now", { name: job.name }));
        void queries.invalidateQueries({ queryKey: ["job", job.id] });
        void queries.invalidateQueries({ queryKey: ["list"] });
        return made.run;
      } catch (error) {
        complain(error);
        return null;
      }
    },
    async remove(job: Job): Promise<boolean> {
      try {
        await actOnJob("delete", job.id);
        say(t("{name} is deleted", { name: job.name }));
        void queries.invalidateQueries({ queryKey: ["list"] });
        void queries.invalidateQueries({ queryKey: ["stats"] });
        return true;
      } catch (error) {
        complain(error);
        return false;
      }
    },
  };
}

export function useRunActions() {
  const queries = useQueryClient();
  const again = (run: number) => {
    void queries.invalidateQueries({ queryKey: ["run", run] });
    void queries.invalidateQueries({ queryKey: ["list"] });
  };
  return {
    async cancel(run: number): Promise<void> {
      try {
        const done = await change<{ result: string }>("POST", `/runs/${run}/cancel`);
        say(done.result);
      } catch (error) {
        complain(error);
      }
      again(run);
    },
    async retry(run: number): Promise<number | null> {
      try {
        const made = await change<{ run: number }>("POST", `/runs/${run}/retry`);
        say(t("Runs again as run {id}", { id: made.run }));
        again(run);
        return made.run;
      } catch (error) {
        complain(error);
        return null;
      }
    },
    async reschedule(run: number, at: string): Promise<boolean> {
      try {
        await change("POST", `/runs/${run}/reschedule`, { at });
        say(t("It waits for its new time"));
        again(run);
        return true;
      } catch (error) {
        complain(error);
        return false;
      }
    },
  };
}
