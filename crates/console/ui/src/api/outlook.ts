// What is ahead and what was, in figures. The server is asked for both; where it cannot say, they are made of what it can.
import { useQuery } from "@tanstack/react-query";
import { serverNow } from "../time/now";
import { span } from "../time/words";
import { Refusal, get, query } from "./client";
import { few } from "./few";
import type { Job, Page, Run } from "./types";

export interface Slot {
  at: number;
  count: number;
}

export interface Outlook {
  slots: Slot[];
  stepMs: number;
  busiest: Slot[];
  /** What it was made of, where the server did not say it itself. */
  partial: { jobs: number; of: number } | null;
}

interface ForecastBody {
  step_ms?: number;
  buckets?: { at: string; count: number }[];
  busiest?: { at: string; count: number }[];
}

const MINUTE = 60_000;
/** How many jobs are asked one by one where the server has no forecast. */
const ASKED_MAX = 60;
const ASKED_TIMES = 1_000;

const missing = new Set<string>();

/** Asks for something that older servers do not have: none if this one does not. */
async function maybe<T>(name: string, path: string, signal: AbortSignal): Promise<T | null> {
  if (missing.has(name)) return null;
  try {
    return await get<T>(path, signal);
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== 404) throw error;
    missing.add(name);
    return null;
  }
}

export function useOutlook(hours: number) {
  return useQuery({
    queryKey: ["outlook", hours],
    queryFn: async ({ signal }) => {
      const told = await maybe<ForecastBody>("forecast", `/forecast${query({ hours })}`, signal);
      return told ? asTold(told) : await asGathered(hours, signal);
    },
    staleTime: MINUTE,
    refetchInterval: 5 * MINUTE,
  });
}

function asTold(told: ForecastBody): Outlook {
  const slot = (one: { at: string; count: number }): Slot => ({ at: Date.parse(one.at), count: one.count });
  const slots = (told.buckets ?? []).map(slot);
  const step = told.step_ms ?? ((slots[1]?.at ?? 0) - (slots[0]?.at ?? 0) || MINUTE);
  return { slots, stepMs: step, busiest: (told.busiest ?? []).map(slot), partial: null };
}

async function asGathered(hours: number, signal: AbortSignal): Promise<Outlook> {
  const page = await get<Page<Job>>("/jobs?limit=1000&enabled=true", signal);
  const from = serverNow();
  const end = from + hours * 3_600_000;
  const soon = page.items.filter((job) => job.next_fire_time && Date.parse(job.next_fire_time) < end);
  const asked = soon.sort((a, b) => Date.parse(a.next_fire_time ?? "") - Date.parse(b.next_fire_time ?? "")).slice(0, ASKED_MAX);
  const lists = await Promise.all(asked.map((job) => few(() => fireTimes(job, end, signal))));
  return { ...gathered(lists.flat(), from, end), partial: { jobs: asked.length, of: page.next_cursor ? -1 : soon.length } };
}

async function fireTimes(job: Job, end: number, signal: AbortSignal): Promise<number[]> {
  const first = Date.parse(job.next_fire_time ?? "");
  const step = job.schedule.kind === "every" ? span(job.schedule.interval) : null;
  if (step) return Array.from({ length: Math.min(200_000, Math.max(0, Math.ceil((end - first) / step))) }, (_, index) => first + index * step);
  const answer = await get<{ fire_times: string[] }>(`/jobs/${job.id}/next?count=${ASKED_TIMES}`, signal);
  return answer.fire_times.map((time) => Date.parse(time)).filter((at) => at < end);
}

/** Instants by minute, and the seconds in which most of them are. */
export function gathered(times: number[], from: number, end: number): Omit<Outlook, "partial"> {
  const [minutes, seconds] = [new Map<number, number>(), new Map<number, number>()];
  for (const at of times) {
    if (at < from || at >= end) continue;
    const [minute, second] = [Math.floor(at / MINUTE) * MINUTE, Math.floor(at / 1_000) * 1_000];
    minutes.set(minute, (minutes.get(minute) ?? 0) + 1);
    seconds.set(second, (seconds.get(second) ?? 0) + 1);
  }
  const slots = [...minutes].map(([at, count]) => ({ at, count })).sort((a, b) => a.at - b.at);
  const busiest = [...seconds].map(([at, count]) => ({ at, count })).sort((a, b) => b.count - a.count || a.at - b.at).slice(0, 8);
  return { slots, stepMs: MINUTE, busiest };
}

export interface Past {
  at: number;
  succeeded: number;
  failed: number;
  notRun: number;
  late: number;
  lagP50: number | null;
  lagMax: number | null;
}

export interface Review {
  stepMs: number;
  slots: Past[];
  /** From when on it knows everything. */
  since: number;
  isPartial: boolean;
}

interface HistoryBody {
  step_ms: number;
  buckets: { at: string; succeeded: number; failed: number; not_run: number; late: number; lag_p50_ms: number | null; lag_max_ms: number | null }[];
}

const STEP = 30 * MINUTE;
export const LATE_MS = 1_000;

/** What became of runs in the last 24 hours. */
export function useReview() {
  return useQuery({
    queryKey: ["review"],
    queryFn: async ({ signal }) => {
      const told = await maybe<HistoryBody>("history", "/stats/history?hours=24", signal);
      if (told) return asReported(told);
      const page = await get<Page<Run>>("/runs?limit=1000", signal);
      return reviewed(page.items, serverNow(), page.next_cursor !== null);
    },
    refetchInterval: 15_000,
  });
}

function asReported(told: HistoryBody): Review {
  const slots = told.buckets.map((one): Past => ({
    at: Date.parse(one.at), succeeded: one.succeeded, failed: one.failed, notRun: one.not_run, late: one.late, lagP50: one.lag_p50_ms, lagMax: one.lag_max_ms,
  }));
  return { stepMs: told.step_ms, slots, since: slots[0]?.at ?? 0, isPartial: false };
}

/** The last 24 hours in half hours, from runs. */
export function reviewed(runs: Run[], now: number, isPartial: boolean): Review {
  const end = Math.ceil(now / STEP) * STEP;
  const start = end - 48 * STEP;
  const slots: Past[] = Array.from({ length: 48 }, (_, index) => ({ at: start + index * STEP, succeeded: 0, failed: 0, notRun: 0, late: 0, lagP50: null, lagMax: null }));
  const lags: number[][] = slots.map(() => []);
  let since = now;
  for (const run of runs) {
    const ended = Date.parse(run.closed_at ?? "");
    if (!Number.isFinite(ended)) continue;
    since = Math.min(since, ended);
    const index = Math.floor((ended - start) / STEP);
    const slot = slots[index];
    if (!slot) continue;
    if (run.state === "succeeded") slot.succeeded += 1;
    else if (run.state === "failed" || run.state === "lost") slot.failed += 1;
    else slot.notRun += 1;
    const isOfTime = run.lag_ms !== null && run.origin !== "backfill" && run.origin !== "retry";
    if (isOfTime) lags[index]?.push(run.lag_ms ?? 0);
    if (isOfTime && (run.lag_ms ?? 0) >= LATE_MS) slot.late += 1;
  }
  slots.forEach((slot, index) => {
    const sorted = (lags[index] ?? []).sort((a, b) => a - b);
    slot.lagP50 = sorted[Math.floor(sorted.length / 2)] ?? null;
    slot.lagMax = sorted[sorted.length - 1] ?? null;
  });
  return { stepMs: STEP, slots, since: isPartial ? since : start, isPartial };
}
