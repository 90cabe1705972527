// The last look before saving: what changes in the job, and what that does to its next runs.
import { useQuery } from "@tanstack/react-query";
import { change } from "../../api/client";
import { once, preview } from "../../api/queries";
import type { JobDraft, JobPlan, Schedule } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Diff } from "../../parts/Diff";
import { isEqual, mergePatch } from "../../parts/merge";
import { Problem, Warning } from "../../parts/Problem";
import { iso, myZone } from "../../time/zone";
import { t } from "../../words";
import { zoneOf } from "../job/schedule";
import { onlyIn } from "./times";

const COUNT = 10;

export function SaveDialog(props: { draft: JobDraft; base: JobDraft | null; id: number | null; isBusy: boolean; onClose: () => void; onSave: () => void }) {
  const { draft, base, id } = props;
  const plan = useQuery({
    queryKey: ["plan", id, JSON.stringify(draft)],
    queryFn: () => (id === null ? change<JobPlan>("POST", "/jobs?dry_run=true", draft) : change<JobPlan>("PATCH", `/jobs/${id}?dry_run=true`, mergePatch(base, draft) ?? {})),
    retry: once, gcTime: 0,
  });
  const isMoved = base !== null && !isEqual(base.schedule, draft.schedule);
  return (
    <Dialog
      wide title={id === null ? t("Create {name}", { name: draft.name }) : t("Save {name}", { name: draft.name })} onClose={props.onClose}
      foot={
        <>
          <button type="button" className="button" onClick={props.onClose}>{t("Back")}</button>
          <button type="button" className="button is-main" disabled={props.isBusy || plan.isPending || !!plan.error} onClick={props.onSave} autoFocus>{id === null ? t("Create") : t("Save")}</button>
        </>
      }
    >
      {plan.error ? <Problem error={plan.error} /> : null}
      {plan.data?.warnings?.map((warning) => <Warning key={warning}>{warning}</Warning>)}
      {base ? <><h3>{t("What changes")}</h3><Diff before={base} after={draft} /></> : null}
      <h3>{t("Next runs")}</h3>
      {isMoved && base ? <Moved before={base} after={draft} /> : <Times times={plan.data?.next_fire_times ?? []} zone={zoneOf(draft) ?? myZone()} />}
    </Dialog>
  );
}

function Times({ times, zone }: { times: string[]; zone: string }) {
  if (times.length === 0) return <p className="muted">{t("No fire time ahead")}</p>;
  return <ul className="small mono">{times.slice(0, COUNT).map((time) => <li key={time}>{iso(Date.parse(time), zone)}</li>)}</ul>;
}

/** How many times of each kind are shown. */
const SHOWN = 5;

/** Whether a schedule names just this time. */
async function names(schedule: Schedule, time: string): Promise<boolean> {
  const before = new Date(Date.parse(time) - 1).toISOString();
  const [next] = (await preview(schedule, 1, before)).fire_times;
  return next !== undefined && Date.parse(next) === Date.parse(time);
}

async function moved(before: Schedule, after: Schedule): Promise<{ gone: string[]; come: string[] }> {
  const [old, fresh] = (await Promise.all([preview(before, COUNT), preview(after, COUNT)])).map((one) => one.fire_times);
  const gone = await onlyIn(old ?? [], fresh ?? [], (time) => names(after, time), SHOWN);
  const come = await onlyIn(fresh ?? [], old ?? [], (time) => names(before, time), SHOWN);
  return { gone, come };
}

/** The first runs that go and the first that come, side by side. */
function Moved({ before, after }: { before: JobDraft; after: JobDraft }) {
  const found = useQuery({
    queryKey: ["moved", JSON.stringify([before.schedule, after.schedule])],
    queryFn: () => moved(before.schedule, after.schedule),
    retry: once, gcTime: 0,
  });
  if (found.error) return <Problem error={found.error} />;
  if (!found.data) return <p className="muted">…</p>;
  const { gone, come } = found.data;
  if (gone.length + come.length === 0) return <p className="muted">{t("Its next runs stay as they are.")}</p>;
  return (
    <div className="moved">
      <Fate name={t("no longer")} times={gone} zone={zoneOf(before) ?? myZone()} className="is-gone" />
      <Fate name={t("new")} times={come} zone={zoneOf(after) ?? myZone()} className="is-new" />
    </div>
  );
}

function Fate({ name, times, zone, className }: { name: string; times: string[]; zone: string; className: string }) {
  return (
    <section>
      <h4 className="label">{name}</h4>
      {times.length === 0 ? <p className="small muted">–</p> : <ul className="small mono">{times.map((time) => <li key={time} className={className}>{iso(Date.parse(time), zone)}</li>)}</ul>}
    </section>
  );
}
