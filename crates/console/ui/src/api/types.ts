// The shapes of the REST API, as far as the console reads them. docs/protocol/openapi.json is the truth.

export type RunState =
  | "pending" | "running" | "retrying" | "succeeded" | "failed" | "lost" | "cancelled" | "skipped";

export const RUN_STATES: RunState[] = [
  "pending", "running", "retrying", "succeeded", "failed", "lost", "cancelled", "skipped",
];

export type Role = "viewer" | "operator" | "editor" | "admin";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Bounds {
  from?: string;
  until?: string;
}

export type Schedule = Bounds &
  (
    | { kind: "cron"; expression: string; dialect?: "unix" | "quartz"; zone?: string; gap?: string; overlap?: string }
    | { kind: "every"; interval: string; anchor?: string }
    | { kind: "delay"; delay: string }
    | { kind: "once"; at: string }
    | { kind: "manual" }
  );

export interface HttpTarget {
  kind: "http";
  method?: string;
  url: string;
  headers?: Record<string, string>;
  body?: Json;
  success_codes?: number[];
  follow_redirects?: boolean;
  signing_secret?: string;
  block?: string;
  concurrency?: number;
}

export interface ExecutorTarget {
  kind: "executor";
  handler?: string;
  params?: Json;
  route?: string;
  glue?: Json;
  block?: string;
  concurrency?: number;
}

export type Target = HttpTarget | ExecutorTarget;

export interface Window {
  days?: string;
  hours?: string;
  days_of_week?: number[];
  hours_of_day?: number[];
  zone?: string;
  outside?: string;
}

export interface JobDraft {
  name: string;
  app: string;
  description?: string;
  tags?: string[];
  enabled?: boolean;
  schedule: Schedule;
  target: Target;
  misfire?: { policy?: "skip" | "fire_once" | "fire_all"; threshold?: string };
  retry?: { max_attempts?: number; initial_delay?: string; multiplier?: number; max_delay?: string };
  timeout?: string;
  delivery?: "at_least_once" | "at_most_once";
  priority?: number;
  class?: string | null;
  lane?: string | null;
  windows?: Window[];
  calendar?: string | null;
  jitter?: string;
  after?: { job: string | number; when?: "succeeded" | "failed" | "ended" }[];
  failure_limit?: number;
}

export interface Job extends Required<Omit<JobDraft, "class" | "lane" | "calendar">> {
  id: number;
  version: number;
  class: string | null;
  lane: string | null;
  calendar: string | null;
  next_fire_time: string | null;
  stopped_reason: string | null;
  failure_count: number;
  consecutive_failures: number;
  last_status: string | null;
  last_success: string | null;
  /** The schedule, told. */
  in_words?: string;
  /** The last runs that ended, oldest first, and how long the successful ones of them took. */
  recent?: Ended[];
  duration_p50_ms?: number | null;
  duration_p95_ms?: number | null;
}

/** A run that ended, as a job remembers it. */
export interface Ended {
  run: number;
  state: RunState;
  duration_ms: number | null;
  at: string;
}

/** The fields of a job that only an answer has. */
export const READ_ONLY = [
  "id", "version", "next_fire_time", "stopped_reason", "failure_count", "consecutive_failures", "last_status",
  "last_success", "in_words", "recent", "duration_p50_ms", "duration_p95_ms", "next_fire_times", "warnings",
] as const;

export interface JobPlan extends Job {
  next_fire_times: string[];
  warnings: string[];
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
  /** How many there are, where that was asked for. */
  total?: number;
}

export interface Attempt {
  number: number;
  executor: string;
  started_at: string;
  ended_at: string | null;
  outcome: "succeeded" | "failed" | "timed_out" | "refused" | "lost" | "cancelled" | null;
  message: string;
  possible_duplicate: boolean;
  /** Whether no node knows that it was sent. */
  supposed?: boolean;
  kill?: { state: "requested" | "confirmed" | "refused"; at: string; said: string };
}

export interface RunPart {
  index: number;
  total: number;
  run: number;
  executor: string;
  state: RunState;
  reason: string;
  attempts: Attempt[];
}

export interface Run {
  id: number;
  job: number;
  job_name?: string | null;
  app?: string | null;
  fire_time: string;
  origin: "schedule" | "manual" | "one_shot" | "backfill" | "retry" | "parent" | "part";
  state: RunState;
  reason: string;
  lag_ms: number | null;
  possible_duplicate: boolean;
  key: string | null;
  payload: Json;
  priority: number;
  timeout?: string;
  retry?: { max_attempts: number; initial_delay: string; multiplier: number; max_delay: string };
  retry_of: number | null;
  parent: number | null;
  ready_at: string | null;
  closed_at: string | null;
  count: number | null;
  until: string | null;
  attempts: Attempt[];
  parts: RunPart[];
  part?: { run: number; index: number; total: number; executor: string };
}

export interface Why {
  sentence: string;
  evidence: { at: string | null; what: string }[];
}

export interface LogPiece {
  text: string;
  next: number;
  end: boolean;
  attempt?: number;
}

export interface Preview {
  fire_times: string[];
  in_words: string;
  warnings: string[];
}

export interface Revision {
  version: number;
  at: string;
  by: string;
  job: JobDraft;
}

export interface JobStats {
  succeeded: number;
  failed: number;
  not_run: number;
  consecutive_failures: number;
  last_status: string | null;
  last_success: string | null;
}

export interface Stats {
  jobs: number;
  jobs_enabled: number;
  succeeded: number;
  failed: number;
  not_run: number;
  /** These are the figures of all nodes that answered, and not for tokens of single apps. */
  loaded: number | null;
  running: number | null;
  shards: number | null;
  /** Runs that are due and not started, and for how long the oldest of them has been due. */
  due?: number | null;
  oldest_due_ms?: number | null;
  /** The nodes that did not answer. */
  missing?: string[];
  now: string;
}

export interface App {
  name: string;
  title: string;
  addresses: "auto" | string[];
  access_token: string | null;
  paused: boolean;
  paused_since: string | null;
  paused_by: string | null;
  paused_reason: string | null;
  executors: number;
  routable: number;
  version: number;
}

export interface Executor {
  address: string;
  dialect: "classic" | "trigger" | "orth" | "native";
  last_beat: string | null;
  routable: boolean;
  suspect: boolean;
  in_flight: number;
}

export interface NodeInfo {
  node: string;
  name: string;
  address: string;
  shards: number;
  is_self: boolean;
  state: string;
}

export interface ShardInfo {
  shard: number;
  node: string | null;
  epoch: number;
}

export interface Bucket {
  day: string;
  runs: number;
  closed: number;
  bytes: number;
  age_days: number;
}

export interface Storage {
  buckets: Bucket[];
  runs: number;
  closed: number;
  bytes: number;
  /** How long what ended is kept, as text. */
  retention?: { runs: string; keys: string };
}

/** One setting of the node, and where its value comes from. */
export interface Setting {
  section: string;
  key: string;
  value: unknown;
  origin: "default" | "file" | "environment" | "flag";
  is_secret: boolean;
}

/** An action over many jobs. */
export interface Bulk {
  id: string;
  action: string;
  matched: number;
  done: number;
  refused: { job: number; app: string; name: string; reason: string }[];
  refused_count: number;
  state: "running" | "done" | "stopped" | "failed";
}

export interface BulkCount {
  matched: number;
  sample: { id: number; app: string; name: string }[];
}

export interface Token {
  id: number;
  name: string;
  role: Role;
  apps: string[];
  created_at: string;
  expires_at: string | null;
}

export interface GlueVersion {
  version: number;
  at: string;
  by?: string;
  kind?: string;
  remark?: string;
  source?: string;
}

export interface FieldError {
  pointer: string;
  detail: string;
}

export interface ProblemBody {
  type?: string;
  title: string;
  status: number;
  detail: string;
  errors?: FieldError[];
  request_id?: string;
}

/** Who is signed in. */
export interface Session {
  name?: string;
  role: Role;
  apps: string[];
}
