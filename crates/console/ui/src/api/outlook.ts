// What is ahead and what was, in figures that the server keeps: nothing is counted here.
import { useQuery } from "@tanstack/react-query";
import { get, query } from "./client";
import { once } from "./queries";

export interface Slot {
  at: number;
  count: number;
}

/** A second in which much is due, and the jobs that are due in it. */
export interface Peak extends Slot {
  jobs: { id: number; app: string; name: string; count: number }[];
}

export interface Outlook {
  slots: Slot[];
  stepMs: number;
  busiest: Peak[];
  jobs: number;
  isPartial: boolean;
  /** One-shots that are stored for later days. */
  waiting: { day: string; count: number }[];
}

interface Told {
  at: string;
  count: number;
}

interface ForecastBody {
  step_ms: number;
  jobs: number;
  is_partial: boolean;
  buckets: Told[];
  busiest: (Told & { jobs?: Peak["jobs"] })[];
  waiting?: Outlook["waiting"];
}

const MINUTE = 60_000;

export function useOutlook(hours: number) {
  return useQuery({
    queryKey: ["outlook", hours],
    queryFn: async ({ signal }) => asTold(await get<ForecastBody>(`/forecast${query({ hours })}`, signal)),
    staleTime: MINUTE,
    refetchInterval: MINUTE,
    retry: once,
  });
}

function asTold(told: ForecastBody): Outlook {
  const slot = (one: Told): Slot => ({ at: Date.parse(one.at), count: one.count });
  const busiest = told.busiest.map((one) => ({ ...slot(one), jobs: one.jobs ?? [] }));
  return { slots: told.buckets.map(slot), stepMs: told.step_ms, busiest, jobs: told.jobs, isPartial: told.is_partial, waiting: told.waiting ?? [] };
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
  /** From when on it knows everything: when the youngest of the nodes was started. */
  since: number;
  /** The nodes that did not answer. */
  missing: string[];
}

interface HistoryBody {
  step_ms: number;
  since: string;
  missing?: string[];
  buckets: { at: string; succeeded: number; failed: number; not_run: number; late: number; lag_p50_ms: number | null; lag_max_ms: number | null }[];
}

/** What became of runs in the last 24 hours. */
export function useReview(isWanted = true) {
  return useQuery({
    queryKey: ["review"],
    queryFn: async ({ signal }) => asReported(await get<HistoryBody>("/stats/history?hours=24", signal)),
    refetchInterval: 5_000,
    enabled: isWanted,
    retry: once,
  });
}

function asReported(told: HistoryBody): Review {
  const slots = told.buckets.map((one): Past => ({
    at: Date.parse(one.at), succeeded: one.succeeded, failed: one.failed, notRun: one.not_run, late: one.late, lagP50: one.lag_p50_ms, lagMax: one.lag_max_ms,
  }));
  return { stepMs: told.step_ms, slots, since: Date.parse(told.since), missing: told.missing ?? [] };
}
