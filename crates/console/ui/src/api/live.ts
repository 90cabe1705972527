// Live events: one stream for the whole console, paused while the page is hidden.
import type { Query, QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { send } from "./client";
import { type Sent, readEvents } from "./stream";
import { serverNow } from "../time/now";
import type { Attempt, Run, RunState } from "./types";

export type LiveState = "live" | "paused" | "reconnecting";

const PAUSED = "punctual.live-paused";
/** How often what changed is asked for again, at most. */
const BATCH_MS = 1_000;
/** Lists are dearer than rows. */
const LISTS_MS = 3_000;
const LONG_LISTS_MS = 20_000;
const PAGES_OFTEN = 3;

let state: LiveState = "reconnecting";
const listeners = new Set<() => void>();
const hearers = new Set<(events: Sent[]) => void>();
let lastId: string | null = null;
let stopper: AbortController | null = null;
let client: QueryClient | null = null;
let onReturn: () => void = () => undefined;
let isHeld = localStorage.getItem(PAUSED) === "yes";

function become(next: LiveState): void {
  if (state === next) return;
  state = next;
  for (const listener of listeners) listener();
}

export function useLive(): LiveState {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => state,
  );
}

/** Calls with everything that is told, until the answer of this is called. */
export function hear(hearer: (events: Sent[]) => void): () => void {
  hearers.add(hearer);
  return () => hearers.delete(hearer);
}

/** Pauses or goes on, by a person's wish. */
export function toggleLive(): void {
  isHeld = !isHeld;
  localStorage.setItem(PAUSED, isHeld ? "yes" : "no");
  if (isHeld) pause();
  else void listen();
}

/** Begins to listen, and gives the answer that ends it. `returned` is called when the server was away and is there again. */
export function startLive(queries: QueryClient, returned: () => void): () => void {
  client = queries;
  onReturn = returned;
  const look = () => (document.hidden ? pause() : void listen());
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    pause();
    client = null;
  };
}

function pause(): void {
  stopper?.abort();
  stopper = null;
  become("paused");
}

async function listen(): Promise<void> {
  if (stopper || isHeld || document.hidden || !client) {
    if (isHeld) become("paused");
    return;
  }
  const own = new AbortController();
  stopper = own;
  become("reconnecting");
  let wait = 500;
  let wasAway = lastId !== null;
  while (!own.signal.aborted) {
    try {
      const headers: Record<string, string> = lastId ? { "Last-Event-ID": lastId } : {};
      const response = await send("/events", { accept: "text/event-stream", signal: own.signal, headers });
      become("live");
      wait = 500;
      if (wasAway) {
        everything();
        onReturn();
      }
      wasAway = true;
      if (response.body) await readEvents(response.body, take);
    } catch {
      // Whatever it was: try again after a while. A session that ended is told by the client.
    }
    if (own.signal.aborted) return;
    become("reconnecting");
    await new Promise((wake) => setTimeout(wake, wait));
    wait = Math.min(wait * 2, 8_000);
  }
}

const changed = { jobs: new Set<number>(), runs: new Set<number>(), lists: false, executors: false, nodes: false };
let timer: ReturnType<typeof setTimeout> | null = null;
let listsAt = 0;

function take(events: Sent[]): void {
  for (const event of events) {
    if (event.id) lastId = event.id;
    if (event.name === "reset") everything();
    else note(event);
  }
  for (const hearer of hearers) hearer(events);
  timer ??= setTimeout(flush, BATCH_MS);
}

/** Runs that were sent and have not ended, as far as was heard. The server writes this down only for those that last. */
const underWay = new Map<number, { attempt: number; at: string }>();
const UNDER_WAY_MAX = 5_000;

/** The state of a run, with what was heard since it was read. */
export function stateOf(run: { id: number; state: RunState }): RunState {
  return run.state === "pending" && underWay.has(run.id) ? "running" : run.state;
}

/** A run with the attempt that was heard of and is not in what was read. */
export function asHeard(run: Run): Run {
  const heard = underWay.get(run.id);
  if (run.state !== "pending" || !heard || run.attempts.some((one) => one.number >= heard.attempt)) return run;
  const attempt: Attempt = { number: heard.attempt, executor: "", started_at: heard.at, ended_at: null, outcome: null, message: "", possible_duplicate: false };
  return { ...run, state: "running", attempts: [...run.attempts, attempt] };
}

function note(event: Sent): void {
  const data = JSON.parse(event.data) as { job?: number; run?: number; attempt?: number; at?: string };
  if (data.run !== undefined && event.name === "run.sent" && underWay.size < UNDER_WAY_MAX) {
    underWay.set(data.run, { attempt: data.attempt ?? 1, at: data.at ?? new Date(serverNow()).toISOString() });
  }
  if (data.run !== undefined && (event.name === "run.closed" || event.name === "run.retrying")) underWay.delete(data.run);
  if (typeof data.job === "number") changed.jobs.add(data.job);
  if (typeof data.run === "number") changed.runs.add(data.run);
  if (event.name.startsWith("run.") || event.name.startsWith("job.")) changed.lists = true;
  if (event.name.startsWith("executor.")) changed.executors = true;
  if (event.name.startsWith("node.")) changed.nodes = true;
}

/** Asks again for what changed, as far as it is on the screen. */
function flush(): void {
  timer = null;
  const ask = (...key: unknown[]) => void client?.invalidateQueries({ queryKey: key });
  askForSome(changed.jobs, changed.runs);
  changed.jobs = new Set();
  changed.runs = new Set();
  if (changed.executors) ask("apps");
  if (changed.nodes) ask("nodes");
  changed.executors = changed.nodes = false;
  if (!changed.lists) return;
  const now = performance.now();
  if (now - listsAt < LISTS_MS) {
    timer = setTimeout(flush, LISTS_MS - (now - listsAt));
    return;
  }
  listsAt = now;
  changed.lists = false;
  void client?.invalidateQueries({ queryKey: ["list"], predicate: isWorthAsking });
  ask("stats");
}

/** In one pass over what is shown, because ten thousand jobs may change at once. */
function askForSome(jobs: Set<number>, runs: Set<number>): void {
  const isMeant = ({ queryKey: [kind, id] }: Query) => (kind === "job" && jobs.has(id as number)) || (kind === "run" && runs.has(id as number));
  if (jobs.size + runs.size > 0) void client?.invalidateQueries({ predicate: isMeant });
}

/** A list of many pages is asked for page by page, so that is done seldom. */
function isWorthAsking(query: Query): boolean {
  const pages = (query.state.data as { pages?: unknown[] } | undefined)?.pages?.length ?? 1;
  return pages <= PAGES_OFTEN || Date.now() - query.state.dataUpdatedAt > LONG_LISTS_MS;
}

/** Some of what happened was not heard, so all that is shown is asked for again. */
function everything(): void {
  underWay.clear();
  void client?.invalidateQueries();
}
