// The first screen: what is due, what runs, what fails, what was late, and which nodes do the work.
import { CircleCheck } from "lucide-react";
import { Link } from "wouter";
import { useOutlook, useReview } from "../../api/outlook";
import { useFailingJobs, useNextJobs, useNodes, useShards, useStats, useStoppedJobs } from "../../api/queries";
import { useReachesAll } from "../../api/session";
import type { Job } from "../../api/types";
import { Bones, Empty } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { StateShape } from "../../parts/State";
import { FAILING_SHOWN, useFailing } from "../../shell/failing";
import { Screen } from "../../shell/Screen";
import { Countdown, Time } from "../../time/Time";
import { serverNow } from "../../time/now";
import { left } from "../../time/words";
import { many, number, t } from "../../words";
import { NoJobs } from "../jobs/NoJobs";
import { LagChart, OutcomeChart } from "./Charts";
import { MissingNodes } from "./missing";
import { soonest } from "./soonest";

const NEXT = 12;
const DAY = 86_400_000;

export default function Overview() {
  const stats = useStats();
  if (stats.error && !stats.data) return <Screen crumbs={[{ name: t("Overview") }]}><Problem error={stats.error} retry={() => void stats.refetch()} /></Screen>;
  if (stats.data?.jobs === 0) return <Screen crumbs={[{ name: t("Overview") }]}><div className="card"><NoJobs isFiltered={false} clear={() => undefined} /></div></Screen>;
  return (
    <Screen crumbs={[{ name: t("Overview") }]}>
      <Tiles />
      <MissingNodes />
      <div className="columns">
        <div className="column">
          <Outcomes />
          <Nodes />
        </div>
        <div className="column">
          <Attention />
          <NextUp />
        </div>
      </div>
    </Screen>
  );
}

function Tiles() {
  const stats = useStats();
  const outlook = useOutlook(24);
  const review = useReview(useReachesAll());
  const until = serverNow() + 3_600_000;
  const due = outlook.data?.slots.filter((slot) => slot.at < until).reduce((sum, slot) => sum + slot.count, 0);
  const failing = useFailing();
  const late = review.data?.slots.reduce((sum, slot) => sum + slot.late, 0);
  const figure = (value: number | null | undefined) => (value === undefined || value === null ? "–" : number(value));
  return (
    <div className="tiles">
      <Link href="/forecast" className="tile"><span className="what">{t("Due next hour")}</span><span className="figure">{figure(due)}</span><span className="more">{stats.data ? t("{n} of {all} jobs are enabled", { n: number(stats.data.jobs_enabled), all: number(stats.data.jobs) }) : ""}</span></Link>
      <Waiting />
      <Link href="/runs?state=running" className="tile"><span className="what">{t("Running now")}</span><span className="figure">{figure(stats.data?.running)}</span><span className="more">{typeof stats.data?.loaded === "number" ? t("{n} in memory", { n: number(stats.data.loaded) }) : ""}</span></Link>
      <Link href="/jobs?failing=true" className={failing ? "tile is-bad" : "tile"}><span className="what">{t("Failing jobs")}</span><span className="figure">{figure(failing)}</span><span className="more">{stats.data ? t("{n} runs failed so far", { n: number(stats.data.failed) }) : ""}</span></Link>
      <Link href="/runs" className={late ? "tile is-warn" : "tile"}><span className="what">{t("Late, last 24 h")}</span><span className="figure">{figure(late)}</span><span className="more">{review.data && review.data.since > serverNow() - DAY ? <>{t("by a second or more, since")} <Time at={new Date(review.data.since).toISOString()} /></> : t("by a second or more")}</span></Link>
    </div>
  );
}

/** What is due and not started. A moment between due and sent is usual; ten seconds are not. */
const WAITED_LONG_MS = 10_000;

function Waiting() {
  const stats = useStats();
  const { due, oldest_due_ms: oldest } = stats.data ?? {};
  // Not for tokens of single apps: it is a figure of all of them.
  if (stats.data && typeof due !== "number") return null;
  const isLong = typeof oldest === "number" && oldest > WAITED_LONG_MS;
  return (
    <Link href="/runs?state=pending" className={isLong ? "tile is-warn" : "tile"}>
      <span className="what">{t("Waiting")}</span>
      <span className="figure">{typeof due === "number" ? number(due) : "–"}</span>
      <span className="more">{typeof oldest === "number" && due ? t("oldest {length}", { length: left(oldest) }) : t("due and not started")}</span>
    </Link>
  );
}

function Outcomes() {
  const isWhole = useReachesAll();
  const review = useReview(isWhole);
  if (!isWhole) return null;
  return (
    <section className="card">
      <div className="card-head">
        <h2>{t("Outcomes, last 24 hours")}</h2>
        <span className="aside legend">
          <span><svg aria-hidden="true" viewBox="0 0 10 10"><rect className="fill-good" width="10" height="10" rx="2" /></svg>{t("succeeded")}</span>
          <span><svg aria-hidden="true" viewBox="0 0 10 10"><rect fill="url(#hatch)" width="10" height="10" rx="2" /></svg>{t("failed")}</span>
          <span><svg aria-hidden="true" viewBox="0 0 10 10"><rect className="fill-idle" width="10" height="10" rx="2" opacity="0.55" /></svg>{t("did not run")}</span>
        </span>
      </div>
      <div className="card-body" style={{ display: "grid", gap: 14 }}>
        {review.error ? <Problem error={review.error} /> : null}
        <OutcomeChart review={review.data} />
        <h3>{t("How late runs began")}</h3>
        <LagChart review={review.data} />
      </div>
    </section>
  );
}

/** Those that fail and those that the server stopped; a job that ran out of fire times has done all it should. */
function needy(failing: Job[], stopped: Job[]): Job[] {
  const others = stopped.filter((job) => job.stopped_reason !== "no further fire time" && !failing.some((one) => one.id === job.id));
  return [...failing].sort((a, b) => b.consecutive_failures - a.consecutive_failures).concat(others);
}

function Attention() {
  const failing = useFailingJobs(FAILING_SHOWN);
  const stopped = useStoppedJobs(FAILING_SHOWN);
  const found = needy(failing.data?.items ?? [], stopped.data?.items ?? []);
  const more = (failing.data?.total ?? 0) - (failing.data?.items.length ?? 0);
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Needs attention")}</h2>{more > 0 ? <span className="aside"><Link href="/jobs?failing=true" className="link">{t("and {n} more", { n: number(more) })}</Link></span> : null}</div>
      {failing.error ? <div className="card-body"><Problem error={failing.error} /></div> : null}
      {!failing.data ? <Bones rows={3} /> : found.length === 0 ? <div className="card-body"><span className="all-well"><CircleCheck aria-hidden="true" />{t("Nothing fails and nothing stopped itself.")}</span></div> : (
        <ul className="lines">
          {found.slice(0, FAILING_SHOWN).map((job) => (
            <li key={job.id}>
              <StateShape state={job.enabled ? (job.last_status ?? "failed") : "stopped"} />
              <Link href={`/jobs/${job.id}`} className="cut strong">{job.name}</Link>
              <span className="faint small cut hide-small">{job.app}</span>
              <span className="end small">{job.enabled ? many(job.consecutive_failures, "{n} failure", "{n} failures in a row") : job.stopped_reason}</span>
              <Link href={`/runs?job=${job.id}&state=failed`} className="button is-small">{t("Show runs")}</Link>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function NextUp() {
  const next = useNextJobs(NEXT);
  const jobs = soonest(next.data?.items ?? []);
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Next runs")}</h2><span className="aside"><Link href="/forecast" className="link">{t("Forecast")}</Link></span></div>
      {next.error ? <div className="card-body"><Problem error={next.error} /></div> : null}
      {!next.data ? <Bones rows={NEXT} /> : jobs.length === 0 ? <Empty title={t("No fire time ahead")} /> : (
        <ul className="lines">
          {jobs.map((job) => (
            <li key={job.id}>
              <StateShape state={job.last_status ?? "pending"} />
              <Link href={`/jobs/${job.id}`} className="cut strong">{job.name}</Link>
              <span className="faint small cut">{job.app}</span>
              <span className="end" style={{ minWidth: 70 }}><Countdown at={job.next_fire_time} /></span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Nodes() {
  const isWhole = useReachesAll();
  const nodes = useNodes(isWhole);
  const shards = useShards(isWhole);
  if (!isWhole) return null;
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Nodes and shards")}</h2><span className="aside">{shards.data ? many(shards.data.items.length, "{n} shard", "{n} shards") : ""}</span></div>
      <div className="card-body nodes">
        {nodes.error ? <Problem error={nodes.error} /> : null}
        {nodes.data?.items.map((node) => (
          <div key={node.node} className="node">
            <div className="node-head">
              <StateShape state={node.state === "active" ? "healthy" : "stopped"} label={node.state} />
              <span className="strong cut">{node.name || node.node.slice(0, 8)}</span>
              {node.is_self ? <span className="chip">{t("this node")}</span> : null}
              <span className="muted small cut">{node.address}</span>
              <span className="muted small" style={{ marginLeft: "auto" }}>{many(node.shards, "{n} shard", "{n} shards")}</span>
            </div>
            <div className="shards" role="img" aria-label={many(node.shards, "{n} shard", "{n} shards")}>
              {shards.data?.items.map((shard) => (
                <i key={shard.shard} data-owner={shard.node === null ? "nobody" : shard.node === node.node ? (node.is_self ? "self" : "other") : ""} title={t("Shard {n}, epoch {epoch}", { n: shard.shard, epoch: shard.epoch })} />
              ))}
            </div>
          </div>
        ))}
        <LastBeat />
      </div>
    </section>
  );
}

function LastBeat() {
  const stats = useStats();
  return <p className="small faint">{t("The cluster's time")} <Time at={stats.data?.now} precise /></p>;
}
