// Running a job by hand, perhaps with a payload and on one executor.
import { useState } from "react";
import { useLocation } from "wouter";
import { useJobActions } from "../../api/actions";
import { useExecutors } from "../../api/queries";
import type { Job, Json } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { t } from "../../words";

export function RunNow({ job, onClose }: { job: Job; onClose: () => void }) {
  const [text, setText] = useState("");
  const [executor, setExecutor] = useState("");
  const [fault, setFault] = useState("");
  const actions = useJobActions();
  const [, navigate] = useLocation();
  const go = async () => {
    let payload: Json | undefined;
    try {
      payload = text.trim() === "" ? undefined : JSON.parse(text);
    } catch (error) {
      setFault(String(error));
      return;
    }
    const run = await actions.run(job, payload, executor || undefined);
    onClose();
    if (run !== null) navigate(`/runs/${run}`);
  };
  return (
    <Dialog
      title={t("Run {name} now", { name: job.name })} onClose={onClose}
      foot={<><button type="button" className="button" onClick={onClose}>{t("Cancel")}</button><button type="button" className="button is-main" onClick={() => void go()}>{t("Run now")}</button></>}
    >
      <p className="muted">{t("It runs whether the job is stopped or not, and whatever its windows say.")}</p>
      <div className="field">
        <label htmlFor="payload">{t("Payload, JSON")}</label>
        <textarea id="payload" className="area mono" value={text} spellCheck={false} aria-invalid={fault !== ""} placeholder={t("empty: what the job itself says")} onChange={(event) => { setText(event.target.value); setFault(""); }} />
        <div className="fault" role="alert">{fault}</div>
      </div>
      {job.target.kind === "executor" ? <ExecutorChoice app={job.app} value={executor} onChange={setExecutor} /> : null}
    </Dialog>
  );
}

function ExecutorChoice({ app, value, onChange }: { app: string; value: string; onChange: (value: string) => void }) {
  const executors = useExecutors(app);
  return (
    <div className="field">
      <label htmlFor="executor">{t("Executor")}</label>
      <select id="executor" className="select" value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">{t("as the route says")}</option>
        {executors.data?.items.map((one) => <option key={one.address} value={one.address}>{one.address}</option>)}
      </select>
    </div>
  );
}
