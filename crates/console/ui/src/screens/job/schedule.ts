// A job's policy in one paragraph, made of its fields. The schedule's own words come from the server.
import { type Job, type JobDraft, READ_ONLY, type Schedule, type Window } from "../../api/types";
import { isZone } from "../../time/zone";
import { t } from "../../words";

export function zoneOf(job: { schedule: Schedule } | undefined): string | undefined {
  const zone = job?.schedule.kind === "cron" ? (job.schedule.zone ?? "UTC") : undefined;
  return zone && isZone(zone) ? zone : undefined;
}

/** A copy without what only an answer has, to be written back. */
export function draftOf(job: Job): JobDraft {
  const isOwn = ([name]: [string, unknown]) => !(READ_ONLY as readonly string[]).includes(name);
  return Object.fromEntries(Object.entries(job).filter(isOwn)) as unknown as JobDraft;
}

/** The whole policy, sentence by sentence. */
export function policy(job: JobDraft, inWords: string): string[] {
  const sentences = [when(job, inWords), where(job), failing(job), missed(job)];
  const block = job.target.block;
  if (block) sentences.push(meeting(block));
  for (const window of job.windows ?? []) sentences.push(inside(window));
  for (const one of job.after ?? []) sentences.push(t("It also runs when {job} has {how}.", { job: String(one.job), how: t(one.when === "failed" ? "failed" : one.when === "ended" ? "ended" : "succeeded") }));
  if (job.failure_limit) sentences.push(t("After {n} failed runs in a row it stops itself.", { n: job.failure_limit }));
  return sentences;
}

function when(job: JobDraft, inWords: string): string {
  if (job.schedule.kind === "manual") return t("Runs only when a person or a program asks.");
  return t("Fires {when}.", { when: inWords || "…" });
}

function where(job: JobDraft): string {
  const { target } = job;
  const limit = job.timeout ?? "30s";
  if (target.kind === "http") return t("Each run calls {method} {url} and may take {limit}.", { method: target.method ?? "POST", url: target.url, limit });
  const what = target.handler || t("a script");
  return t("Each run goes to {what} on an executor of {app} (route: {route}) and may take {limit}.", { what, app: job.app, route: target.route ?? "round", limit });
}

function failing(job: JobDraft): string {
  const retry = job.retry ?? {};
  const tries = retry.max_attempts ?? 3;
  const once = job.delivery === "at_most_once" ? ` ${t("A send whose fate is unknown is never repeated.")}` : "";
  if (tries <= 1) return t("What fails is not tried again.") + once;
  return t("What fails is tried up to {n} times, first after {first}, then {factor} times as long each, at most {most}.", {
    n: tries, first: retry.initial_delay ?? "1s", factor: retry.multiplier ?? 2, most: retry.max_delay ?? "30s",
  }) + once;
}

function missed(job: JobDraft): string {
  const late = job.misfire?.threshold ?? "5s";
  const kind = job.misfire?.policy ?? "fire_once";
  if (kind === "skip") return t("What is more than {late} late does not run.", { late });
  if (kind === "fire_all") return t("What is more than {late} late still runs, every missed time of it.", { late });
  return t("Of what is more than {late} late, only the latest runs.", { late });
}

function meeting(block: string): string {
  if (block === "serial") return t("Runs that meet wait for each other.");
  if (block === "discard") return t("A run that meets an earlier one is skipped.");
  if (block === "cover") return t("A run that meets an earlier one ends it.");
  return t("Runs that meet: {block}.", { block });
}

function inside(window: Window): string {
  const days = window.days ?? window.days_of_week?.join(",") ?? t("every day");
  const hours = window.hours ?? window.hours_of_day?.join(",") ?? "00:00-24:00";
  const zone = window.zone ? ` ${window.zone}` : "";
  const outside = window.outside === "defer" ? t("is put off") : t("is skipped");
  return t("Only {days}, {hours}{zone}; what is outside {outside}.", { days, hours, zone, outside });
}
