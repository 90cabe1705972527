// One job: its policy in words, when it fires next, how it has been doing, and every version of it.
import { CopyPlus, History, Pause, Pencil, Play, Trash2 } from "lucide-react";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { useJobActions } from "../../api/actions";
import { useJob, useJobRuns, useJobStats, useWords } from "../../api/queries";
import { useMay } from "../../api/session";
import type { Job } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Bones, CopyButton } from "../../parts/Empty";
import { useFilter } from "../../parts/filter";
import { Problem, Warning } from "../../parts/Problem";
import { State, stateName } from "../../parts/State";
import { Tabs } from "../../parts/Tabs";
import { useKeys } from "../../shell/keys";
import { Screen } from "../../shell/Screen";
import { Time } from "../../time/Time";
import { number, t } from "../../words";
import { RunTable } from "../runs/RunTable";
import { Backfill } from "./Backfill";
import { DurationChart, HistoryHeat } from "./History";
import { NextRuns } from "./NextRuns";
import { Revisions } from "./Revisions";
import { RunNow } from "./RunNow";
import { Scripts } from "./Scripts";
import { policy, zoneOf } from "./schedule";

type Tab = "about" | "runs" | "revisions" | "raw" | "scripts";

export default function JobDetail({ id }: { id: number }) {
  const job = useJob(id);
  const crumbs = [{ name: t("Jobs"), path: "/jobs" }, { name: job.data?.name ?? String(id) }];
  if (job.error && !job.data) return <Screen crumbs={crumbs}><Problem error={job.error} retry={() => void job.refetch()} /></Screen>;
  if (!job.data) return <Screen crumbs={crumbs}><div className="card"><Bones rows={8} /></div></Screen>;
  return <Shown job={job.data} />;
}

function Shown({ job }: { job: Job }) {
  const [{ tab }, setFilter] = useFilter(["tab"] as const);
  const chosen = (["runs", "revisions", "raw", "scripts"].includes(tab) ? tab : "about") as Tab;
  const hasScripts = job.target.kind === "executor" && !!job.target.glue;
  return (
    <Screen
      crumbs={[{ name: t("Jobs"), path: "/jobs" }, { name: job.app, path: `/jobs?app=${encodeURIComponent(job.app)}` }, { name: job.name }]}
      heading={job.name}
      actions={<Actions job={job} />}
    >
      <div className="button-row">
        {job.enabled ? <State state={job.last_status ?? "pending"} /> : <State state="stopped" />}
        {!job.enabled && job.stopped_reason ? <span className="muted told">{job.stopped_reason}</span> : null}
        <Link href={`/jobs?app=${encodeURIComponent(job.app)}`} className="chip"><span className="cut">{job.app}</span></Link>
        {job.tags.map((tag) => <Link key={tag} href={`/jobs?tag=${encodeURIComponent(tag)}`} className="chip"><span className="cut">#{tag}</span></Link>)}
        <span className="faint small">#{job.id} · v{job.version}</span>
      </div>
      {job.description ? <p className="told muted" style={{ maxWidth: "100ch", maxHeight: 120, overflow: "auto" }}>{job.description}</p> : null}
      <Tabs<Tab>
        label={t("Parts of the job")} chosen={chosen} onChoose={(key) => setFilter("tab", key === "about" ? "" : key)}
        tabs={[["about", t("About")], ["runs", t("Runs")], ["revisions", t("Revisions")], ["raw", t("All settings")], ...(hasScripts ? [["scripts", t("Scripts")] as [Tab, string]] : [])]}
      />
      {chosen === "about" ? <About job={job} /> : null}
      {chosen === "runs" ? <RunTable filter={{ job: String(job.id) }} isOfOneJob zone={zoneOf(job)} /> : null}
      {chosen === "revisions" ? <Revisions job={job} /> : null}
      {chosen === "raw" ? <Raw job={job} /> : null}
      {chosen === "scripts" ? <Scripts job={job} /> : null}
    </Screen>
  );
}

function Actions({ job }: { job: Job }) {
  const [open, setOpen] = useState<"run" | "delete" | "backfill" | null>(null);
  const [, navigate] = useLocation();
  const mayOperate = useMay("operator");
  const mayEdit = useMay("editor");
  const actions = useJobActions();
  useKeys({
    ...(mayOperate ? { p: () => void actions.toggle(job) } : {}),
    ...(mayEdit ? { e: () => navigate(`/jobs/${job.id}/edit`) } : {}),
  });
  if (!mayOperate) return null;
  const canBackfill = job.schedule.kind === "cron" || job.schedule.kind === "every";
  return (
    <>
      <button type="button" className="button is-main" onClick={() => setOpen("run")}><Play aria-hidden="true" />{t("Run now")}</button>
      <button type="button" className="button" onClick={() => void actions.toggle(job)}>{job.enabled ? <Pause aria-hidden="true" /> : <Play aria-hidden="true" />}{job.enabled ? t("Stop") : t("Start")}</button>
      {canBackfill ? <button type="button" className="button" onClick={() => setOpen("backfill")}><History aria-hidden="true" />{t("Backfill")}</button> : null}
      {mayEdit ? <Link href={`/jobs/${job.id}/edit`} className="button"><Pencil aria-hidden="true" />{t("Edit")}</Link> : null}
      {mayEdit ? <Link href={`/jobs/new?from=${job.id}`} className="button"><CopyPlus aria-hidden="true" />{t("Duplicate")}</Link> : null}
      {mayEdit ? <button type="button" className="button is-danger" onClick={() => setOpen("delete")}><Trash2 aria-hidden="true" />{t("Delete")}</button> : null}
      {open === "run" ? <RunNow job={job} onClose={() => setOpen(null)} /> : null}
      {open === "backfill" ? <Backfill job={job} onClose={() => setOpen(null)} /> : null}
      {open === "delete" ? <Delete job={job} onClose={() => setOpen(null)} /> : null}
    </>
  );
}

function Delete({ job, onClose }: { job: Job; onClose: () => void }) {
  const actions = useJobActions();
  const [, navigate] = useLocation();
  const go = async () => {
    if (await actions.remove(job)) navigate("/jobs");
    else onClose();
  };
  return (
    <Dialog
      title={t("Delete {name}", { name: job.name })} onClose={onClose}
      foot={<><button type="button" className="button" onClick={onClose}>{t("Cancel")}</button><button type="button" className="button is-main is-danger" onClick={() => void go()}>{t("Delete")}</button></>}
    >
      <p>{t("It does not fire any more, and its pending runs are cancelled. Runs that are under way finish. Its history stays for a while.")}</p>
    </Dialog>
  );
}

function About({ job }: { job: Job }) {
  const words = useWords(job.schedule);
  const runs = useJobRuns(job.id, 500);
  const items = runs.data?.items;
  return (
    <>
      <section className="card card-body">
        <p className="sentence told">{policy(job, words.data?.in_words ?? "").join(" ")}</p>
      </section>
      {words.data?.warnings.map((warning) => <Warning key={warning}>{warning}</Warning>)}
      <Figures job={job} />
      <div className="columns is-even">
        <section className="card">
          <div className="card-head"><h2>{t("Next runs")}</h2></div>
          <div className="card-body is-flush"><NextRuns job={job} /></div>
        </section>
        <section className="card">
          <div className="card-head"><h2>{t("How long runs take")}</h2><span className="aside">{t("of the last {n} runs", { n: items?.length ?? 0 })}</span></div>
          <div className="card-body"><DurationChart runs={items} timeout={job.timeout} /></div>
        </section>
      </div>
      <section className="card">
        <div className="card-head"><h2>{t("History by hour")}</h2><span className="aside">{t("of the last {n} runs", { n: items?.length ?? 0 })}</span></div>
        <div className="card-body"><HistoryHeat runs={items} zone={zoneOf(job)} job={job.id} /></div>
      </section>
    </>
  );
}

function Figures({ job }: { job: Job }) {
  const stats = useJobStats(job.id);
  const total = (stats.data?.succeeded ?? 0) + (stats.data?.failed ?? 0);
  const rate = total === 0 ? "–" : `${(100 * (stats.data?.succeeded ?? 0) / total).toFixed(total >= 1_000 ? 2 : 1)} %`;
  return (
    <div className="tiles">
      <div className="tile"><span className="what">{t("Succeeded")}</span><span className="figure">{number(stats.data?.succeeded ?? 0)}</span><span className="more">{t("{rate} of all that ran", { rate })}</span></div>
      <div className={(stats.data?.consecutive_failures ?? 0) > 0 ? "tile is-bad" : "tile"}><span className="what">{t("Failed")}</span><span className="figure">{number(stats.data?.failed ?? 0)}</span><span className="more">{t("{n} in a row now", { n: number(stats.data?.consecutive_failures ?? 0) })}</span></div>
      <div className="tile"><span className="what">{t("Did not run")}</span><span className="figure">{number(stats.data?.not_run ?? 0)}</span><span className="more">{t("skipped or cancelled")}</span></div>
      <div className="tile"><span className="what">{t("Last")}</span><span className="figure" style={{ fontSize: 18 }}>{job.last_status ? stateName(job.last_status) : "–"}</span><span className="more">{t("last success")} <Time at={job.last_success} zone={zoneOf(job)} /></span></div>
    </div>
  );
}

function Raw({ job }: { job: Job }) {
  const text = JSON.stringify(job, null, 2);
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Every setting, defaults included")}</h2><span className="aside"><CopyButton text={text} /></span></div>
      <pre className="json" tabIndex={0} style={{ maxHeight: "70vh" }}>{text}</pre>
    </section>
  );
}
