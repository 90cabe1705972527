// The form of a job, part by part.
import type { ReactNode } from "react";
import { useApps } from "../../api/queries";
import type { JobDraft, Schedule, Target } from "../../api/types";
import { serverNow } from "../../time/now";
import { t } from "../../words";
import { Choice, type Fault, Field, TextField } from "./Field";
import { AfterFields } from "./AfterFields";
import { ScheduleFields, ZONES } from "./ScheduleFields";
import { TargetFields } from "./TargetFields";
import { WindowFields } from "./WindowFields";
import { scheduleOf, targetOf } from "./draft";
import { Segments } from "../../parts/Tabs";

export interface Part {
  draft: JobDraft;
  onChange: (next: JobDraft) => void;
  fault: (pointer: string) => string | undefined;
}

export function Fields({ draft, onChange, faults, isNew }: { draft: JobDraft; onChange: (next: JobDraft) => void; faults: Fault[]; isNew: boolean }) {
  const fault = (pointer: string) => faults.find((one) => one.pointer === pointer)?.detail;
  const part: Part = { draft, onChange, fault };
  const kinds: [Schedule["kind"], string][] = [["cron", "Cron"], ["every", t("Every")], ["delay", t("Delay")], ["once", t("Once")], ["manual", t("Manual")]];
  const targets: [Target["kind"], string][] = [["http", "HTTP"], ["executor", t("Executor")]];
  return (
    <>
      <datalist id="zones">{ZONES.map((zone) => <option key={zone} value={zone} />)}</datalist>
      <Group title={t("Job")}><Naming {...part} isNew={isNew} /></Group>
      <Group
        title={t("When")}
        aside={<Segments label={t("Kind of schedule")} options={kinds} chosen={draft.schedule.kind} onChoose={(kind) => onChange({ ...draft, schedule: scheduleOf(kind, draft.schedule, serverNow()) })} />}
      >
        <ScheduleFields {...part} />
      </Group>
      <Group
        title={t("Where")}
        aside={<Segments label={t("Kind of target")} options={targets} chosen={draft.target.kind} onChoose={(kind) => onChange({ ...draft, target: targetOf(kind, draft.target) })} />}
      >
        <TargetFields {...part} />
      </Group>
      <Group title={t("If it fails or is late")}><Policies {...part} /></Group>
      <Group title={t("Only at these times")}><WindowFields {...part} /></Group>
      <Group title={t("After other jobs")}><AfterFields {...part} /></Group>
    </>
  );
}

function Group({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }) {
  return (
    <section className="card">
      <div className="card-head"><h2>{title}</h2>{aside ? <span className="aside">{aside}</span> : null}</div>
      <div className="card-body"><fieldset><legend className="unseen">{title}</legend>{children}</fieldset></div>
    </section>
  );
}

function Naming({ draft, onChange, fault, isNew }: Part & { isNew: boolean }) {
  const apps = useApps();
  return (
    <>
      <div className="fields">
        <TextField label={t("App")} value={draft.app} onChange={(app) => onChange({ ...draft, app })} fault={fault("/app")} list="apps" required hint={t("The group it belongs to; a new name makes a new one")} />
        <TextField label={t("Name")} value={draft.name} onChange={(name) => onChange({ ...draft, name })} fault={fault("/name")} required hint={isNew ? t("Unique in its app") : ""} />
        <datalist id="apps">{apps.data?.items.map((app) => <option key={app.name} value={app.name} />)}</datalist>
      </div>
      <Field label={t("Description")} fault={fault("/description")}>
        {(given) => <textarea {...given} className="area" style={{ minHeight: 46 }} value={draft.description ?? ""} onChange={(event) => onChange({ ...draft, description: event.target.value })} />}
      </Field>
      <TextField
        label={t("Tags")} value={(draft.tags ?? []).join(", ")} fault={fault("/tags")} hint={t("with commas between them")}
        onChange={(text) => onChange({ ...draft, tags: text.split(",").map((tag) => tag.trimStart()).filter((tag, index, all) => tag !== "" || index === all.length - 1 && index > 0) })}
      />
      <label className="button-row"><input type="checkbox" checked={draft.enabled ?? true} onChange={(event) => onChange({ ...draft, enabled: event.target.checked })} />{t("It fires by itself")}</label>
    </>
  );
}

function Policies({ draft, onChange, fault }: Part) {
  const retry = draft.retry ?? {};
  const misfire = draft.misfire ?? {};
  const setRetry = (part: Partial<NonNullable<JobDraft["retry"]>>) => onChange({ ...draft, retry: { ...retry, ...part } });
  return (
    <>
      <div className="fields">
        <NumberField label={t("Attempts")} value={retry.max_attempts ?? 3} onChange={(max_attempts) => setRetry({ max_attempts })} fault={fault("/retry/max_attempts")} hint={t("the first included")} />
        <TextField label={t("First retry after")} value={retry.initial_delay ?? "1s"} onChange={(initial_delay) => setRetry({ initial_delay })} fault={fault("/retry/initial_delay")} />
        <NumberField label={t("Then times")} value={retry.multiplier ?? 2} onChange={(multiplier) => setRetry({ multiplier })} fault={fault("/retry/multiplier")} />
        <TextField label={t("At most")} value={retry.max_delay ?? "30s"} onChange={(max_delay) => setRetry({ max_delay })} fault={fault("/retry/max_delay")} />
      </div>
      <div className="fields">
        <Choice
          label={t("Missed fire times")} value={misfire.policy ?? "fire_once"} fault={fault("/misfire/policy")}
          options={[["fire_once", t("run the latest")], ["fire_all", t("run all of them")], ["skip", t("run none of them")]]}
          onChange={(policy) => onChange({ ...draft, misfire: { ...misfire, policy: policy as "skip" } })}
        />
        <TextField label={t("Missed means later than")} value={misfire.threshold ?? "5s"} onChange={(threshold) => onChange({ ...draft, misfire: { ...misfire, threshold } })} fault={fault("/misfire/threshold")} />
        <Choice
          label={t("If a send's fate is unknown")} value={draft.delivery ?? "at_least_once"} fault={fault("/delivery")}
          options={[["at_least_once", t("send again")], ["at_most_once", t("never send again")]]}
          onChange={(delivery) => onChange({ ...draft, delivery: delivery as "at_least_once" })}
        />
      </div>
      <div className="fields">
        <TextField label={t("An attempt may take")} value={draft.timeout ?? "30s"} onChange={(timeout) => onChange({ ...draft, timeout })} fault={fault("/timeout")} />
        <NumberField label={t("Priority")} value={draft.priority ?? 5} onChange={(priority) => onChange({ ...draft, priority })} fault={fault("/priority")} hint={t("0 first, 9 last")} />
        <NumberField label={t("Stop after failed runs")} value={draft.failure_limit ?? 0} onChange={(failure_limit) => onChange({ ...draft, failure_limit })} fault={fault("/failure_limit")} hint={t("in a row; 0 is never")} />
      </div>
    </>
  );
}

function NumberField(props: { label: string; value: number; onChange: (value: number) => void; fault?: string | undefined; hint?: string }) {
  return (
    <Field label={props.label} hint={props.hint ?? ""} fault={props.fault}>
      {(given) => <input {...given} className="input" type="number" step="any" value={props.value} onChange={(event) => props.onChange(Number(event.target.value))} />}
    </Field>
  );
}
