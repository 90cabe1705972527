// What is being written: kept in the tab as it is typed, so that neither a reload nor a lost session loses it.
import type { Json, JobDraft, Schedule, Target } from "../../api/types";
import { applyPatch, clashes, mergePatch } from "../../parts/merge";

export interface Kept {
  draft: JobDraft;
  /** The job that the writing began with; none for a new one. */
  base: JobDraft | null;
  version: number | null;
}

export const EMPTY: JobDraft = {
  name: "", app: "", description: "", tags: [], enabled: true,
  schedule: { kind: "cron", expression: "0 9 * * *", dialect: "unix", zone: "UTC" },
  target: { kind: "http", method: "POST", url: "", headers: {}, body: null },
  misfire: { policy: "fire_once", threshold: "5s" },
  retry: { max_attempts: 3, initial_delay: "1s", multiplier: 2, max_delay: "30s" },
  timeout: "30s", delivery: "at_least_once", priority: 5, windows: [], after: [], failure_limit: 0,
};

/** A schedule of another kind, with what can be kept of the old one. */
export function scheduleOf(kind: Schedule["kind"], old: Schedule, now: number): Schedule {
  const bounds = { ...(old.from ? { from: old.from } : {}), ...(old.until ? { until: old.until } : {}) };
  switch (kind) {
    case "cron": return { kind, expression: "0 9 * * *", dialect: "unix", zone: "UTC", ...bounds };
    case "every": return { kind, interval: "5m", ...bounds };
    case "delay": return { kind, delay: "30s", ...bounds };
    case "once": return { kind, at: new Date(Math.ceil(now / 3_600_000) * 3_600_000).toISOString().replace(".000", ""), ...bounds };
    case "manual": return { kind, ...bounds };
  }
}

export function targetOf(kind: Target["kind"], old: Target): Target {
  const block = old.block ? { block: old.block } : {};
  if (kind === "http") return { kind, method: "POST", url: "", headers: {}, body: null, ...block };
  return { kind, handler: "", route: "round", ...block };
}

/** My changes on top of theirs: the merged job, and the fields where both changed something. */
export function rebase(base: JobDraft, mine: JobDraft, theirs: JobDraft): { merged: JobDraft; both: string[] } {
  const patch = mergePatch(base, mine);
  const merged = applyPatch(theirs as unknown as Json, patch) as unknown as JobDraft;
  return { merged, both: clashes(base, mine, theirs) };
}

function place(id: number | null): string {
  return `punctual.draft.${id ?? "new"}`;
}

export function keep(id: number | null, kept: Kept): void {
  try {
    sessionStorage.setItem(place(id), JSON.stringify(kept));
  } catch {
    // The tab's store is full or closed; then the draft lives as long as the page.
  }
}

export function kept(id: number | null): Kept | null {
  try {
    return JSON.parse(sessionStorage.getItem(place(id)) ?? "null");
  } catch {
    return null;
  }
}

export function forget(id: number | null): void {
  sessionStorage.removeItem(place(id));
}
