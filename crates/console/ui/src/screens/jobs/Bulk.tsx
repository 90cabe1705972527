// Actions over many jobs: first their number and some of their names, then the doing, which the server goes on with by
// itself.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { JobAction } from "../../api/actions";
import { Refusal, change, get } from "../../api/client";
import { type JobFilter, once } from "../../api/queries";
import { useMay } from "../../api/session";
import type { Bulk, BulkCount } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Problem, Warning } from "../../parts/Problem";
import { type Phrase, many, number, t } from "../../words";

export interface Selection {
  ids: Set<number>;
  /** Whether everything that the filter names is meant, also what was not loaded. */
  isAll: boolean;
}

export const noSelection: Selection = { ids: new Set(), isAll: false };

const SAMPLE = 6;
const ASK_MS = 300;

const NAMES: Record<JobAction, Phrase> = { start: "Start", stop: "Stop", run: "Run now", delete: "Delete" };

export function BulkBar(props: { selection: Selection; setSelection: (next: Selection) => void; filter: JobFilter; hasMore: boolean }) {
  const { selection, setSelection } = props;
  const [action, setAction] = useState<JobAction | null>(null);
  const mayEdit = useMay("editor");
  if (selection.ids.size === 0 && !selection.isAll) return null;
  const offered: JobAction[] = mayEdit ? ["start", "stop", "run", "delete"] : ["start", "stop", "run"];
  return (
    <div className="bulk" role="region" aria-label={t("Selected jobs")}>
      <span className="strong">{selection.isAll ? t("All that match") : many(selection.ids.size, "{n} job selected", "{n} jobs selected")}</span>
      {props.hasMore && !selection.isAll ? (
        <button type="button" className="button is-small" onClick={() => setSelection({ ...selection, isAll: true })}>{t("Select all that match")}</button>
      ) : null}
      {offered.map((one) => (
        <button key={one} type="button" className={one === "delete" ? "button is-small is-danger" : "button is-small"} onClick={() => setAction(one)}>{t(NAMES[one])}</button>
      ))}
      <button type="button" className="button is-small is-plain" onClick={() => setSelection(noSelection)}>{t("Clear")}</button>
      {action ? <BulkDialog action={action} selection={selection} filter={props.filter} onClose={() => setAction(null)} onDone={() => setSelection(noSelection)} /> : null}
    </div>
  );
}

/** What the server is asked to act on. */
export function meant(selection: Selection, filter: JobFilter): object {
  if (!selection.isAll) return { ids: [...selection.ids] };
  const isFlag = (name: string) => name === "enabled" || name === "failing" || name === "stopped";
  const said = Object.entries(filter).filter(([, value]) => value);
  return { filter: Object.fromEntries(said.map(([name, value]) => [name, isFlag(name) ? value === "true" : value])) };
}

function BulkDialog(props: { action: JobAction; selection: Selection; filter: JobFilter; onClose: () => void; onDone: () => void }) {
  const { action, selection } = props;
  // Fixed when the dialog opens: what is confirmed is what was counted.
  const [wanted] = useState(() => ({ action, ...meant(selection, props.filter) }));
  const [count, setCount] = useState<BulkCount | null>(null);
  const [typed, setTyped] = useState("");
  const [begun, setBegun] = useState<Bulk | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [hasChanged, setChanged] = useState(false);
  const ask = () => change<BulkCount>("POST", "/jobs/bulk", { ...wanted, dry_run: true }).then(setCount, setError);
  useEffect(() => void ask(), []);
  const go = async () => {
    try {
      setBegun(await change<Bulk>("POST", "/jobs/bulk", { ...wanted, expect: count?.matched }));
    } catch (caught) {
      const isOther = caught instanceof Refusal && caught.status === 409;
      setChanged(isOther);
      if (isOther) await ask();
      else setError(caught);
    }
  };
  const close = () => {
    if (begun) props.onDone();
    props.onClose();
  };
  const isWeighty = action === "delete" && (count?.matched ?? 0) > 1;
  const isReady = count !== null && count.matched > 0 && (!isWeighty || typed.trim() === String(count.matched));
  const jobs = many(count?.matched ?? 0, "{n} job", "{n} jobs");
  const title = `${t(NAMES[action])}: ${count ? jobs : t("counting")}`;
  if (begun) return <Doing title={title} begun={begun} onClose={close} />;
  return (
    <Dialog
      title={title} onClose={close}
      foot={
        <>
          <button type="button" className="button" onClick={close}>{t("Cancel")}</button>
          <button type="button" className={action === "delete" ? "button is-main is-danger" : "button is-main"} disabled={!isReady} onClick={() => void go()}>{t(NAMES[action])} · {jobs}</button>
        </>
      }
    >
      <Problem error={error} />
      {hasChanged ? <Warning>{t("Meanwhile the selection names another number of jobs. Look again.")}</Warning> : null}
      {count ? <Sample count={count} /> : null}
      {action === "delete" ? <p className="warn">{t("Their pending runs are cancelled. What ran stays in the history for a while.")}</p> : null}
      {isWeighty ? (
        <div className="field">
          <label htmlFor="bulk-count">{t("Write the number of jobs to go on")}</label>
          <input id="bulk-count" className="input" value={typed} onChange={(event) => setTyped(event.target.value)} inputMode="numeric" />
        </div>
      ) : null}
    </Dialog>
  );
}

function Sample({ count }: { count: BulkCount }) {
  return (
    <>
      <p role="status">{t("This is what the selection names:")}</p>
      <ul className="small">
        {count.sample.slice(0, SAMPLE).map((job) => <li key={job.id} className="cut">{job.app} / {job.name}</li>)}
        {count.matched > SAMPLE ? <li className="muted">{t("and {n} more", { n: number(count.matched - SAMPLE) })}</li> : null}
      </ul>
    </>
  );
}

function Doing({ title, begun, onClose }: { title: string; begun: Bulk; onClose: () => void }) {
  const queries = useQueryClient();
  const asked = useQuery({
    queryKey: ["bulk", begun.id],
    queryFn: ({ signal }) => get<Bulk>(`/jobs/bulk/${encodeURIComponent(begun.id)}`, signal),
    initialData: begun, retry: once,
    refetchInterval: (query) => (query.state.data?.state === "running" ? ASK_MS : false),
  });
  const bulk = asked.data;
  const isOver = bulk.state !== "running";
  useEffect(() => {
    if (isOver) void queries.invalidateQueries({ predicate: (query) => query.queryKey[0] !== "bulk" });
  }, [isOver, queries]);
  const stop = () => void change("POST", `/jobs/bulk/${encodeURIComponent(bulk.id)}/stop`).then(() => asked.refetch());
  return (
    <Dialog
      title={title} onClose={onClose}
      foot={isOver ? <button type="button" className="button is-main" onClick={onClose}>{t("Close")}</button> : <button type="button" className="button" onClick={stop}>{t("Stop here")}</button>}
    >
      <Problem error={asked.error} />
      <div className="progress" role="progressbar" aria-label={t("Progress")} aria-valuemin={0} aria-valuemax={bulk.matched} aria-valuenow={bulk.done}><i style={{ width: `${bulk.matched === 0 ? 100 : (100 * bulk.done) / bulk.matched}%` }} /></div>
      <p role="status">{t("{done} of {total} done", { done: number(bulk.done), total: number(bulk.matched) })}{bulk.refused_count > 0 ? ` · ${many(bulk.refused_count, "{n} refused", "{n} refused")}` : ""}</p>
      {bulk.state === "stopped" ? <p className="muted">{t("Stopped before its end.")}</p> : null}
      {!isOver ? <p className="muted">{t("The server goes on with it when this is closed.")}</p> : null}
      {bulk.refused.length > 0 ? (
        <ul className="small">{bulk.refused.slice(0, 10).map((one) => <li key={one.job} className="told"><span className="strong">{one.name}</span> {one.reason}</li>)}</ul>
      ) : null}
    </Dialog>
  );
}
