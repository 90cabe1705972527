// Actions over many jobs: first their number and some of their names, then the doing, with its progress.
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { type JobAction, actOnJob } from "../../api/actions";
import { Refusal, get, query } from "../../api/client";
import type { JobFilter } from "../../api/queries";
import { useMay } from "../../api/session";
import type { Job, Page } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Problem } from "../../parts/Problem";
import { type Phrase, many, number, t } from "../../words";

export interface Selection {
  ids: Set<number>;
  /** Whether everything that the filter names is meant, also what was not loaded. */
  isAll: boolean;
}

export const noSelection: Selection = { ids: new Set(), isAll: false };

const AT_ONCE = 6;
const SAMPLE = 6;

const NAMES: Record<JobAction, Phrase> = { start: "Start", stop: "Stop", run: "Run now", delete: "Delete" };

export function BulkBar(props: { selection: Selection; setSelection: (next: Selection) => void; filter: JobFilter; shown: Job[]; hasMore: boolean }) {
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
      {action ? <BulkDialog {...props} action={action} onClose={() => setAction(null)} onDone={() => setSelection(noSelection)} /> : null}
    </div>
  );
}

type Target = Pick<Job, "id" | "name" | "app">;

function BulkDialog(props: { action: JobAction; selection: Selection; filter: JobFilter; shown: Job[]; onClose: () => void; onDone: () => void }) {
  const { action, selection } = props;
  const queries = useQueryClient();
  const { jobs, isCounted, error } = useTargets(selection, props.filter, props.shown);
  const [typed, setTyped] = useState("");
  const [done, setDone] = useState<{ count: number; refusals: [Target, string][]; isOver: boolean } | null>(null);
  const stop = useRef(false);
  const isWeighty = action === "delete" && jobs.length > 1;
  const go = async () => {
    const refusals: [Target, string][] = [];
    let [next, count] = [0, 0];
    stop.current = false;
    setDone({ count, refusals, isOver: false });
    const walk = async () => {
      for (let job = jobs[next++]; job && !stop.current; job = jobs[next++]) {
        try {
          await actOnJob(action, job.id);
        } catch (caught) {
          refusals.push([job, caught instanceof Refusal ? caught.message || t("The server does not answer") : String(caught)]);
        }
        count += 1;
        if (count % 20 === 0) setDone({ count, refusals, isOver: false });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, walk));
    setDone({ count, refusals: [...refusals], isOver: true });
    void queries.invalidateQueries();
  };
  const close = () => {
    stop.current = true;
    if (done) props.onDone();
    props.onClose();
  };
  const isReady = isCounted && jobs.length > 0 && (!isWeighty || typed.trim() === String(jobs.length));
  const foot = done?.isOver ? <button type="button" className="button is-main" onClick={close}>{t("Close")}</button> : done ? (
    <button type="button" className="button" onClick={() => (stop.current = true)}>{t("Stop here")}</button>
  ) : (
    <>
      <button type="button" className="button" onClick={close}>{t("Cancel")}</button>
      <button type="button" className={action === "delete" ? "button is-main is-danger" : "button is-main"} disabled={!isReady} onClick={() => void go()}>
        {t(NAMES[action])} · {many(jobs.length, "{n} job", "{n} jobs")}
      </button>
    </>
  );
  return (
    <Dialog title={`${t(NAMES[action])}: ${isCounted ? many(jobs.length, "{n} job", "{n} jobs") : t("counting")}`} onClose={close} foot={foot}>
      {error ? <Problem error={error} /> : null}
      {done ? <Progress done={done} total={jobs.length} /> : (
        <>
          <p role="status">{isCounted ? t("This is what the selection names:") : t("Counting: {n} so far", { n: number(jobs.length) })}</p>
          <ul className="small">
            {jobs.slice(0, SAMPLE).map((job) => <li key={job.id} className="cut">{job.app} / {job.name}</li>)}
            {jobs.length > SAMPLE ? <li className="muted">{t("and {n} more", { n: number(jobs.length - SAMPLE) })}</li> : null}
          </ul>
          {action === "delete" ? <p className="warn">{t("Their pending runs are cancelled. What ran stays in the history for a while.")}</p> : null}
          {isWeighty ? (
            <div className="field">
              <label htmlFor="bulk-count">{t("Write the number of jobs to go on")}</label>
              <input id="bulk-count" className="input" value={typed} onChange={(event) => setTyped(event.target.value)} inputMode="numeric" />
            </div>
          ) : null}
        </>
      )}
    </Dialog>
  );
}

function Progress({ done, total }: { done: { count: number; refusals: [Target, string][]; isOver: boolean }; total: number }) {
  return (
    <>
      <div className="progress" role="progressbar" aria-label={t("Progress")} aria-valuemin={0} aria-valuemax={total} aria-valuenow={done.count}><i style={{ width: `${total === 0 ? 100 : (100 * done.count) / total}%` }} /></div>
      <p role="status">{t("{done} of {total} done", { done: number(done.count), total: number(total) })}{done.refusals.length > 0 ? ` · ${many(done.refusals.length, "{n} refused", "{n} refused")}` : ""}</p>
      {done.refusals.length > 0 ? (
        <ul className="small">{done.refusals.slice(0, 10).map(([job, reason]) => <li key={job.id} className="told"><span className="strong">{job.name}</span> {reason}</li>)}</ul>
      ) : null}
    </>
  );
}

/** The jobs that are meant: those picked, or everything that the filter names, counted page by page. */
function useTargets(selection: Selection, filter: JobFilter, shown: Job[]) {
  const picked = shown.filter((job) => selection.ids.has(job.id));
  const [found, setFound] = useState<Target[]>([]);
  const [isCounted, setCounted] = useState(!selection.isAll);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    if (!selection.isAll) return undefined;
    const stop = new AbortController();
    const count = async () => {
      let [all, cursor]: [Target[], string | null] = [[], ""];
      while (cursor !== null) {
        const page: Page<Job> = await get(`/jobs${query({ ...filter, limit: 1_000, cursor })}`, stop.signal);
        all = [...all, ...page.items.map(({ id, name, app }) => ({ id, name, app }))];
        cursor = page.next_cursor;
        setFound(all);
      }
      setCounted(true);
    };
    count().catch((caught) => !stop.signal.aborted && setError(caught));
    return () => stop.abort();
  }, []);
  return { jobs: selection.isAll ? found : picked, isCounted, error };
}
