// The versions of a job's script, and the way back to one.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { change } from "../../api/client";
import { useGlue } from "../../api/queries";
import { useMay } from "../../api/session";
import type { Job } from "../../api/types";
import { Bones } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { complain, say } from "../../parts/Toasts";
import { Time } from "../../time/Time";
import { t } from "../../words";

export function Scripts({ job }: { job: Job }) {
  const scripts = useGlue(job.id, true);
  const queries = useQueryClient();
  const mayEdit = useMay("editor");
  const [chosen, setChosen] = useState<number | null>(null);
  if (scripts.error) return <Problem error={scripts.error} />;
  if (!scripts.data) return <div className="card"><Bones rows={4} /></div>;
  const items = scripts.data.items;
  const shown = items.find((one) => one.version === chosen) ?? items[0];
  const back = async (version: number) => {
    try {
      await change("POST", `/jobs/${job.id}/glue/rollback`, { version });
      say(t("The script is as it was with version {a}", { a: version }));
      void queries.invalidateQueries({ queryKey: ["job", job.id] });
    } catch (error) {
      complain(error);
    }
  };
  return (
    <div className="columns">
      <section className="card"><div className="card-head"><h2>{shown?.kind}</h2></div><pre className="json" tabIndex={0} style={{ maxHeight: "70vh" }}>{shown?.source}</pre></section>
      <section className="card">
        <div className="card-head"><h2>{t("Scripts")}</h2></div>
        <ul className="lines">
          {items.map((one, index) => (
            <li key={one.version}>
              <button type="button" className="button is-plain is-small" aria-pressed={one === shown} onClick={() => setChosen(one.version)}>{t("Version {a}", { a: one.version })}</button>
              <span className="cut muted">{one.remark || one.by}</span><span className="end small"><Time at={one.at} /></span>
              {mayEdit && index > 0 ? <button type="button" className="button is-small" onClick={() => void back(one.version)}>{t("Roll back")}</button> : null}
            </li>
          ))}
        </ul>
      </section>
    </div>
  );
}
