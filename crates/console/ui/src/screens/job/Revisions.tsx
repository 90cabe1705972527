// Every version of a job, what each changed, and the way back to it.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keepJob } from "../../api/actions";
import { change } from "../../api/client";
import { useRevisions } from "../../api/queries";
import { useMay } from "../../api/session";
import type { Job, Revision } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Diff } from "../../parts/Diff";
import { mergePatch } from "../../parts/merge";
import { Bones } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { complain, say } from "../../parts/Toasts";
import { Time } from "../../time/Time";
import { t } from "../../words";
import { draftOf } from "./schedule";

export function Revisions({ job }: { job: Job }) {
  const revisions = useRevisions(job.id);
  const mayEdit = useMay("editor");
  const [chosen, setChosen] = useState<number | null>(null);
  const [back, setBack] = useState<Revision | null>(null);
  if (revisions.error) return <Problem error={revisions.error} />;
  if (!revisions.data) return <div className="card"><Bones rows={4} /></div>;
  const items = [...revisions.data.items].reverse();
  const shown = items.findIndex((one) => one.version === (chosen ?? items[0]?.version));
  const [after, before] = [items[shown], items[shown + 1]];
  return (
    <div className="columns">
      <section className="card">
        <div className="card-head"><h2>{before ? t("Version {a} against {b}", { a: after?.version ?? 0, b: before.version }) : t("Version {a}", { a: after?.version ?? 0 })}</h2></div>
        <div className="card-body">{after ? <Diff before={before?.job ?? null} after={after.job} /> : null}</div>
      </section>
      <section className="card">
        <div className="card-head"><h2>{t("Revisions")}</h2></div>
        <ul className="lines">
          {items.map((one) => (
            <li key={one.version}>
              <button type="button" className="button is-plain is-small" aria-pressed={one === after} onClick={() => setChosen(one.version)}>{t("Version {a}", { a: one.version })}</button>
              <span className="cut muted">{one.by}</span>
              <span className="end small"><Time at={one.at} /></span>
              {mayEdit && one.version !== items[0]?.version ? <button type="button" className="button is-small" onClick={() => setBack(one)}>{t("Roll back")}</button> : null}
            </li>
          ))}
        </ul>
      </section>
      {back ? <RollBack job={job} to={back} onClose={() => setBack(null)} /> : null}
    </div>
  );
}

function RollBack({ job, to, onClose }: { job: Job; to: Revision; onClose: () => void }) {
  const queries = useQueryClient();
  const go = async () => {
    try {
      const after = await change<Job>("PATCH", `/jobs/${job.id}`, mergePatch(draftOf(job), to.job) ?? {}, job.version);
      keepJob(queries, after);
      void queries.invalidateQueries({ queryKey: ["job", job.id] });
      say(t("It is as version {a} was, as version {b}", { a: to.version, b: after.version }));
    } catch (error) {
      complain(error);
    }
    onClose();
  };
  return (
    <Dialog
      wide title={t("Roll back to version {a}", { a: to.version })} onClose={onClose}
      foot={<><button type="button" className="button" onClick={onClose}>{t("Cancel")}</button><button type="button" className="button is-main" onClick={() => void go()}>{t("Roll back")}</button></>}
    >
      <p>{t("This becomes a new version; nothing is lost.")}</p>
      <Diff before={draftOf(job)} after={to.job} />
    </Dialog>
  );
}
