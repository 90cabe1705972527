// What screens ask for, by name. A key begins with what live events say has changed: "job", "run", "list", "stats".
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Refusal, change, get, query } from "./client";
import { few } from "./few";
import { setServerTime } from "../time/now";
import type {
  App, Executor, GlueVersion, Job, JobStats, NodeInfo, Page, Preview, Revision, Run, Schedule, Setting, ShardInfo, Stats,
  Storage, Token, Why,
} from "./types";

export interface JobFilter {
  q?: string;
  app?: string;
  tag?: string;
  enabled?: string;
  failing?: string;
  stopped?: string;
}

export interface RunFilter {
  job?: string;
  app?: string;
  state?: string;
  from?: string;
  to?: string;
  key?: string;
}

const PAGE = 100;

export function useStats() {
  return useQuery({
    queryKey: ["stats"],
    queryFn: async ({ signal }) => {
      const stats = await get<Stats>("/stats", signal);
      setServerTime(stats.now);
      return stats;
    },
    refetchInterval: 15_000,
  });
}

export function useJobs(filter: JobFilter, limit = PAGE) {
  return useInfiniteQuery({
    queryKey: ["list", "jobs", filter, limit],
    queryFn: ({ pageParam, signal }) =>
      get<Page<Job>>(`/jobs${query({ ...filter, limit, cursor: pageParam })}`, signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: keepPreviousData,
    maxPages: 2_000,
  });
}

/** How many jobs a filter names, and the first of them. */
export function useFirstJobs(filter: JobFilter, limit: number) {
  return useQuery({
    queryKey: ["list", "first-jobs", filter, limit],
    queryFn: ({ signal }) => get<Page<Job>>(`/jobs${query({ ...filter, limit, count: true })}`, signal),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });
}

/** Jobs that fail now, and those that the server stopped: what a person should look at. */
export const useFailingJobs = (limit: number) => useFirstJobs({ failing: "true" }, limit);
export const useStoppedJobs = (limit: number) => useFirstJobs({ stopped: "true" }, limit);

/** The jobs that fire next, the soonest first. */
export function useNextJobs(limit: number) {
  return useQuery({
    queryKey: ["list", "next-jobs", limit],
    queryFn: ({ signal }) => get<Page<Job>>(`/jobs${query({ sort: "next_fire_time", limit })}`, signal),
    refetchInterval: 10_000,
  });
}

export function useJob(id: number | null) {
  return useQuery({
    queryKey: ["job", id],
    queryFn: ({ signal }) => few(() => get<Job>(`/jobs/${id}`, signal)),
    enabled: id !== null,
    staleTime: 30_000,
  });
}

export function useJobRuns(id: number, limit: number) {
  return useQuery({
    queryKey: ["job", id, "runs", limit],
    queryFn: ({ signal }) => few(() => get<Page<Run>>(`/jobs/${id}/runs${query({ limit })}`, signal)),
    staleTime: 15_000,
  });
}

export function useJobStats(id: number) {
  return useQuery({ queryKey: ["job", id, "stats"], queryFn: ({ signal }) => get<JobStats>(`/jobs/${id}/stats`, signal) });
}

export function useNext(id: number, count: number) {
  return useQuery({
    queryKey: ["job", id, "next", count],
    queryFn: ({ signal }) => get<{ fire_times: string[] }>(`/jobs/${id}/next${query({ count })}`, signal),
  });
}

export function useRevisions(id: number) {
  return useQuery({
    queryKey: ["job", id, "revisions"],
    queryFn: ({ signal }) => get<{ items: Revision[] }>(`/jobs/${id}/revisions`, signal),
  });
}

export function useGlue(id: number, isWanted: boolean) {
  return useQuery({
    queryKey: ["job", id, "glue"],
    queryFn: ({ signal }) => get<{ items: GlueVersion[] }>(`/jobs/${id}/glue`, signal),
    enabled: isWanted,
  });
}

/** What a schedule means. The words never change, so they are kept for as long as the tab lives. */
export function useWords(schedule: Schedule | undefined) {
  return useQuery({
    queryKey: ["words", JSON.stringify(schedule)],
    queryFn: () => few(() => preview(schedule as Schedule, 1)),
    enabled: schedule !== undefined,
    staleTime: Infinity,
    gcTime: Infinity,
  });
}

export function preview(schedule: Schedule, count: number, after?: string): Promise<Preview> {
  return change<Preview>("POST", "/schedules/preview", { schedule, count, ...(after ? { after } : {}) });
}

/** Runs of several filters, one after the other; a page says which of them it belongs to. */
export function useRuns(filters: RunFilter[], limit = PAGE) {
  return useInfiniteQuery({
    queryKey: ["list", "runs", filters, limit],
    queryFn: async ({ pageParam: { index, cursor }, signal }) => {
      const page = await get<Page<Run>>(`/runs${query({ ...filters[index], limit, cursor })}`, signal);
      return { ...page, index };
    },
    initialPageParam: { index: 0, cursor: "" },
    getNextPageParam: ({ next_cursor, index }) =>
      next_cursor ? { index, cursor: next_cursor } : index + 1 < filters.length ? { index: index + 1, cursor: "" } : undefined,
    placeholderData: keepPreviousData,
    retry: once,
  });
}

export function useRun(id: number) {
  return useQuery({
    queryKey: ["run", id],
    queryFn: ({ signal }) => get<Run>(`/runs/${id}`, signal),
    retry: once,
    // Not everything about a run that has not ended is told by events.
    refetchInterval: (query) => (isOpen(query.state.data) ? OPEN_MS : false),
  });
}

const OPEN_MS = 2_000;

export function isOpen(run: Run | undefined): boolean {
  return run !== undefined && ["pending", "running", "retrying"].includes(run.state);
}

export function useWhy(run: Run) {
  return useQuery({
    queryKey: ["run", run.id, "why"],
    queryFn: ({ signal }) => get<Why>(`/runs/${run.id}/why`, signal),
    refetchInterval: isOpen(run) ? OPEN_MS : false,
  });
}

export function useApps() {
  return useQuery({
    queryKey: ["apps"],
    queryFn: ({ signal }) => get<{ items: App[] }>("/apps", signal),
    refetchInterval: 15_000,
  });
}

export function useExecutors(app: string) {
  return useQuery({
    queryKey: ["apps", app, "executors"],
    queryFn: ({ signal }) => few(() => get<{ items: Executor[] }>(`/apps/${encodeURIComponent(app)}/executors`, signal)),
    refetchInterval: 10_000,
  });
}

export function useNodes(isWanted = true) {
  return useQuery({
    queryKey: ["nodes"],
    queryFn: ({ signal }) => get<{ items: NodeInfo[] }>("/nodes", signal),
    refetchInterval: 15_000,
    enabled: isWanted,
    retry: once,
  });
}

export function useShards(isWanted = true) {
  return useQuery({
    queryKey: ["nodes", "shards"],
    queryFn: ({ signal }) => get<{ items: ShardInfo[] }>("/shards", signal),
    refetchInterval: 15_000,
    enabled: isWanted,
    retry: once,
  });
}

export function useStorage(isWanted = true) {
  return useQuery({
    queryKey: ["storage"],
    queryFn: ({ signal }) => get<Storage>("/storage", signal),
    refetchInterval: 60_000,
    enabled: isWanted,
    retry: once,
  });
}

export function useSettings(isWanted: boolean) {
  return useQuery({
    queryKey: ["settings"],
    queryFn: ({ signal }) => get<{ items: Setting[] }>("/config", signal),
    enabled: isWanted,
    staleTime: 60_000,
  });
}

export function useTokens(isWanted: boolean) {
  return useQuery({
    queryKey: ["tokens"],
    queryFn: ({ signal }) => get<{ items: Token[] }>("/tokens", signal),
    enabled: isWanted,
  });
}

/** A refusal says the same when it is asked again; only silence is worth another try. */
export function once(failures: number, error: Error): boolean {
  return failures < 2 && !(error instanceof Refusal && error.status > 0 && error.status < 500);
}
