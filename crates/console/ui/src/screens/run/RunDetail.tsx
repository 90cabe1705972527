// One run: its time from due to done, every attempt, why it is as it is, and what it wrote.
import { CircleStop, Clock, RotateCcw } from "lucide-react";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { useRunActions } from "../../api/actions";
import { isOpen as isOpenRun, useJob, useRun, useWhy } from "../../api/queries";
import { asHeard } from "../../api/live";
import { useMay } from "../../api/session";
import type { Attempt, Job, Run } from "../../api/types";
import { plain } from "../../parts/ansi";
import { Dialog } from "../../parts/Dialog";
import { Bones, CopyButton } from "../../parts/Empty";
import { Problem, Warning } from "../../parts/Problem";
import { State } from "../../parts/State";
import { Segments } from "../../parts/Tabs";
import { Screen } from "../../shell/Screen";
import { serverNow } from "../../time/now";
import { Time, Told } from "../../time/Time";
import { length } from "../../time/words";
import { t } from "../../words";
import { zoneOf } from "../job/schedule";
import { ORIGINS } from "../runs/RunTable";
import { LogView } from "./LogView";
import { Timeline } from "./Timeline";

export default function RunDetail({ id }: { id: number }) {
  const run = useRun(id);
  const crumbs = [{ name: t("Runs"), path: "/runs" }, { name: String(id) }];
  if (run.error && !run.data) return <Screen crumbs={crumbs}><Problem error={run.error} retry={() => void run.refetch()} /></Screen>;
  if (!run.data) return <Screen crumbs={crumbs}><div className="card"><Bones rows={8} /></div></Screen>;
  const heard = asHeard(run.data);
  return <Shown run={heard} isAhead={heard !== run.data} />;
}

/** `isAhead`: the stream told that it runs before the server wrote it down. */
function Shown({ run, isAhead }: { run: Run; isAhead: boolean }) {
  const job = useJob(run.job);
  const zone = zoneOf(job.data);
  const name = job.data?.name ?? `#${run.job}`;
  const [attempt, setAttempt] = useState<number | null>(null);
  const [part, setPart] = useState(0);
  const isOpen = isOpenRun(run);
  const shownPart = run.parts[part];
  const attempts = shownPart ? shownPart.attempts : run.attempts;
  return (
    <Screen
      crumbs={[{ name: t("Runs"), path: "/runs" }, { name, path: `/jobs/${run.job}` }, { name: String(run.id) }]}
      heading={<><Link href={`/jobs/${run.job}`}>{name}</Link> <span className="muted mono">{run.id}</span></>}
      actions={<Actions run={run} />}
    >
      <div className="button-row">
        <State state={run.state} />
        <span className="muted">{t(ORIGINS[run.origin])}</span>
        {run.reason ? <span className="told">{plain(run.reason)}</span> : null}
        {run.count && run.count > 1 ? <span className="chip">× {run.count}</span> : null}
      </div>
      {run.possible_duplicate ? <Warning>{t("A send of this run may have arrived twice: a node went away before it could write down what became of it.")}</Warning> : null}
      <section className="card">
        <div className="card-head"><h2>{t("From due to done")}</h2></div>
        <div className="card-body"><Timeline run={run} zone={zone} /></div>
      </section>
      <div className="columns">
        <div className="column">
          {run.parts.length > 0 ? <Parts run={run} chosen={part} onChoose={setPart} /> : null}
          <Attempts attempts={attempts} zone={zone} />
          {attempts.length > 1 ? (
            <Segments
              label={t("Attempt")} chosen={String(attempt ?? "")} onChoose={(key) => setAttempt(key === "" ? null : Number(key))}
              options={[["", t("Latest")], ...attempts.map((one): [string, string] => [String(one.number), t("Attempt {n}", { n: one.number })])]}
            />
          ) : null}
          <LogView key={`${attempt}-${part}`} run={run.id} attempt={attempt} part={run.parts.length > 0 ? part : null} isOpen={isOpen} zone={zone} />
        </div>
        <div className="column"><Why run={run} zone={zone} isAhead={isAhead} /><Facts run={run} zone={zone} />{job.data ? <Sent run={run} job={job.data} /> : null}</div>
      </div>
    </Screen>
  );
}

function Actions({ run }: { run: Run }) {
  const mayOperate = useMay("operator");
  const actions = useRunActions();
  const [, navigate] = useLocation();
  const [open, setOpen] = useState<"cancel" | "reschedule" | null>(null);
  if (!mayOperate) return null;
  const isOpen = isOpenRun(run);
  const again = async () => {
    const next = await actions.retry(run.id);
    if (next !== null) navigate(`/runs/${next}`);
  };
  return (
    <>
      {isOpen && run.origin === "one_shot" && run.attempts.length === 0 ? <button type="button" className="button" onClick={() => setOpen("reschedule")}><Clock aria-hidden="true" />{t("Reschedule")}</button> : null}
      {isOpen ? <button type="button" className="button is-danger" onClick={() => (run.state === "pending" ? void actions.cancel(run.id) : setOpen("cancel"))}><CircleStop aria-hidden="true" />{t("Stop this run")}</button> : null}
      {!isOpen ? <button type="button" className="button is-main" onClick={() => void again()}><RotateCcw aria-hidden="true" />{t("Run again")}</button> : null}
      {open === "cancel" ? (
        <Dialog
          title={t("Stop run {id}", { id: run.id })} onClose={() => setOpen(null)}
          foot={<><button type="button" className="button" onClick={() => setOpen(null)}>{t("Back")}</button><button type="button" className="button is-main is-danger" onClick={() => { setOpen(null); void actions.cancel(run.id); }}>{t("Stop this run")}</button></>}
        >
          <p>{t("An attempt is under way. Its executor is told to end it, and what it has done so far is not undone.")}</p>
        </Dialog>
      ) : null}
      {open === "reschedule" ? <Reschedule run={run} onClose={() => setOpen(null)} /> : null}
    </>
  );
}

function Reschedule({ run, onClose }: { run: Run; onClose: () => void }) {
  const actions = useRunActions();
  const [at, setAt] = useState(() => new Date(serverNow() + 3_600_000).toISOString().slice(0, 16));
  const go = async () => {
    if (await actions.reschedule(run.id, `${at}:00Z`)) onClose();
  };
  return (
    <Dialog title={t("Reschedule")} onClose={onClose} foot={<><button type="button" className="button" onClick={onClose}>{t("Cancel")}</button><button type="button" className="button is-main" onClick={() => void go()}>{t("Reschedule")}</button></>}>
      <div className="field"><label htmlFor="at">{t("At, UTC")}</label><input id="at" className="input" type="datetime-local" value={at} onChange={(event) => setAt(event.target.value)} /></div>
    </Dialog>
  );
}

function Attempts({ attempts, zone }: { attempts: Attempt[]; zone: string | undefined }) {
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Attempts")}</h2><span className="aside">{attempts.length}</span></div>
      {attempts.length === 0 ? <div className="card-body muted">{t("Nothing was sent.")}</div> : (
        <div className="table-box" tabIndex={0} role="group" aria-label={t("Attempts")}>
          <table>
            <thead><tr><th scope="col" className="number">#</th><th scope="col">{t("Outcome")}</th><th scope="col">{t("Executor")}</th><th scope="col">{t("Started")}</th><th scope="col" className="number">{t("Took")}</th><th scope="col">{t("Answer")}</th></tr></thead>
            <tbody>
              {attempts.map((one) => (
                <tr key={one.number}>
                  <td className="number">{one.number}</td>
                  <td>{one.supposed ? <span className="muted">{t("May have been sent")}</span> : <State state={one.outcome ?? "running"} />}</td>
                  <td className="mono told" style={{ minWidth: 120 }}>{one.executor || "–"}</td>
                  <td className="nowrap"><Time at={one.started_at} zone={zone} precise /></td>
                  <td className="number nowrap">{one.supposed ? "–" : one.ended_at ? length(Date.parse(one.ended_at) - Date.parse(one.started_at)) : "…"}</td>
                  <td className="told muted" style={{ minWidth: 160 }}>{plain(one.message).slice(0, 600)}{one.kill ? ` · ${t("told to end: {state}", { state: one.kill.state })} ${plain(one.kill.said)}` : ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Parts({ run, chosen, onChoose }: { run: Run; chosen: number; onChoose: (index: number) => void }) {
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Parts of the broadcast")}</h2><span className="aside">{run.parts.length}</span></div>
      <ul className="lines">
        {run.parts.map((one, index) => (
          <li key={one.run}>
            <button type="button" className="button is-small is-plain" aria-pressed={index === chosen} onClick={() => onChoose(index)}>{one.index + 1}/{one.total}</button>
            <State state={one.state} /><span className="cut mono muted">{one.executor}</span><span className="end small cut">{plain(one.reason)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Why({ run, zone, isAhead }: { run: Run; zone: string | undefined; isAhead: boolean }) {
  const why = useWhy(run);
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Why")}</h2></div>
      <div className="card-body" style={{ display: "grid", gap: 10 }}>
        {why.error ? <Problem error={why.error} /> : null}
        <p className="told strong">{isAhead ? t("It was sent and is running.") : <Told text={plain(why.data?.sentence ?? "…")} zone={zone} />}</p>
        <ul className="small muted" style={{ display: "grid", gap: 4 }}>
          {why.data?.evidence.map((one, index) => <li key={index} className="told">{one.at ? <><Time at={one.at} zone={zone} precise /> · </> : null}<Told text={plain(one.what)} zone={zone} /></li>)}
        </ul>
      </div>
    </section>
  );
}

/** What is sent: the request as the job has it now, with what the run brought. Secrets come masked from the server. */
function Sent({ run, job }: { run: Run; job: Job }) {
  const { target } = job;
  const brought = run.payload ?? (target.kind === "http" ? target.body : target.params) ?? null;
  const lines = target.kind === "http"
    ? [`${target.method} ${target.url}`, ...Object.entries(target.headers ?? {}).map(([name, value]) => `${name}: ${value}`)]
    : [`${target.handler || t("a script")} (${target.route ?? "round"})`];
  const text = [...lines, ...(brought === null ? [] : ["", typeof brought === "string" ? brought : JSON.stringify(brought, null, 2)])].join("\n");
  return (
    <section className="card">
      <div className="card-head"><h2>{t("What is sent")}</h2><span className="aside">{t("as the job is now; secrets are masked")} <CopyButton text={text} /></span></div>
      <div className="card-body"><pre className="json" tabIndex={0}>{text}</pre></div>
    </section>
  );
}

function Facts({ run, zone }: { run: Run; zone: string | undefined }) {
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Details")}</h2></div>
      <div className="card-body" style={{ display: "grid", gap: 10 }}>
        <dl className="pairs">
          <dt>{t("Fire time")}</dt><dd><Time at={run.fire_time} zone={zone} precise /></dd>
          <dt>{t("Late")}</dt><dd>{run.lag_ms === null ? "–" : length(run.lag_ms)}</dd>
          <dt>{t("Ended")}</dt><dd><Time at={run.closed_at} zone={zone} precise /></dd>
          <dt>{t("Priority")}</dt><dd>{run.priority}</dd>
          {run.timeout ? <><dt>{t("An attempt may take")}</dt><dd>{run.timeout}</dd></> : null}
          {run.retry ? <><dt>{t("Attempts")}</dt><dd>{run.retry.max_attempts}</dd></> : null}
          {run.key ? <><dt>{t("Key")}</dt><dd className="mono told">{run.key}</dd></> : null}
          {run.retry_of ? <><dt>{t("Repeats")}</dt><dd><Link className="link mono" href={`/runs/${run.retry_of}`}>{run.retry_of}</Link></dd></> : null}
          {run.parent ? <><dt>{t("After")}</dt><dd><Link className="link mono" href={`/runs/${run.parent}`}>{run.parent}</Link></dd></> : null}
          {run.part ? <><dt>{t("Part of")}</dt><dd><Link className="link mono" href={`/runs/${run.part.run}`}>{run.part.run}</Link></dd></> : null}
          {run.until ? <><dt>{t("Until")}</dt><dd><Time at={run.until} zone={zone} precise /></dd></> : null}
        </dl>
      </div>
    </section>
  );
}
