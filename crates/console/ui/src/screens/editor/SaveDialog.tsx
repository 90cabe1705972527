// The last look before saving: what changes in the job, and what that does to its next runs.
import { useQuery } from "@tanstack/react-query";
import { change } from "../../api/client";
import { once, preview } from "../../api/queries";
import type { JobDraft, JobPlan } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Diff } from "../../parts/Diff";
import { isEqual, mergePatch } from "../../parts/merge";
import { Problem, Warning } from "../../parts/Problem";
import { iso, myZone } from "../../time/zone";
import { t } from "../../words";
import { zoneOf } from "../job/schedule";
import { mergeTimes } from "./times";

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

/** The next runs before and after, merged: what goes is struck out, what comes is marked. */
function Moved({ before, after }: { before: JobDraft; after: JobDraft }) {
  const found = useQuery({
    queryKey: ["moved", JSON.stringify([before.schedule, after.schedule])],
    queryFn: () => Promise.all([preview(before.schedule, COUNT), preview(after.schedule, COUNT)]),
    retry: once, gcTime: 0,
  });
  if (!found.data) return <p className="muted">…</p>;
  const zone = zoneOf(after) ?? myZone();
  return (
    <ul className="small mono next-list" style={{ gridTemplateColumns: "auto 1fr" }}>
      {mergeTimes(found.data[0].fire_times, found.data[1].fire_times, COUNT).map(([time, kind]) => (
        <li key={time} style={{ display: "contents" }}>
          <span className={kind === "gone" ? "is-gone" : kind === "new" ? "is-new" : ""}>{iso(Date.parse(time), zone)}</span>
          <span className="muted">{kind === "gone" ? t("no longer") : kind === "new" ? t("new") : ""}</span>
        </li>
      ))}
    </ul>
  );
}
