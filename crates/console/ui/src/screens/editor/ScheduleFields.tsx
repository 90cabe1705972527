// When a job fires, by kind of schedule.
import type { Schedule } from "../../api/types";
import { t } from "../../words";
import { Choice, TextField } from "./Field";
import type { Part } from "./Fields";

export const ZONES: string[] = ["UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? [])];

export function ScheduleFields({ draft, onChange, fault }: Part) {
  const { schedule } = draft;
  const set = (part: object) => onChange({ ...draft, schedule: { ...schedule, ...part } as Schedule });
  const at = (name: string) => fault(`/schedule/${name}`) ?? (name === "expression" ? fault("/schedule") : undefined);
  return (
    <>
      {schedule.kind === "cron" ? <CronFields schedule={schedule} set={set} at={at} /> : null}
      {schedule.kind === "every" ? (
        <div className="fields">
          <TextField label={t("Interval")} value={schedule.interval} onChange={(interval) => set({ interval })} fault={at("interval")} hint={t("such as 30s, 5m, 1h30m; at least 10ms")} isMono />
          <TextField label={t("Counted from")} value={schedule.anchor ?? ""} onChange={(anchor) => set({ anchor: anchor || undefined })} fault={at("anchor")} hint={t("empty: when the job was made")} isMono />
        </div>
      ) : null}
      {schedule.kind === "delay" ? <TextField label={t("After the end of the last run")} value={schedule.delay} onChange={(delay) => set({ delay })} fault={at("delay")} isMono /> : null}
      {schedule.kind === "once" ? <TextField label={t("At")} value={schedule.at} onChange={(value) => set({ at: value })} fault={at("at")} hint={t("RFC 3339, such as 2030-01-31T09:00:00Z")} isMono /> : null}
      {schedule.kind === "manual" ? <p className="muted">{t("It runs when a person presses Run now, when a program hands over a run, or after another job.")}</p> : (
        <details>
          <summary className="label">{t("Not before, not after")}</summary>
          <div className="fields" style={{ marginTop: 8 }}>
            <TextField label={t("From")} value={schedule.from ?? ""} onChange={(from) => set({ from: from || undefined })} fault={at("from")} isMono />
            <TextField label={t("Until")} value={schedule.until ?? ""} onChange={(until) => set({ until: until || undefined })} fault={at("until")} isMono />
          </div>
        </details>
      )}
    </>
  );
}

function CronFields(props: { schedule: Extract<Schedule, { kind: "cron" }>; set: (part: object) => void; at: (name: string) => string | undefined }) {
  const { schedule, set, at } = props;
  return (
    <>
      <div className="fields">
        <TextField label={t("Cron expression")} value={schedule.expression} onChange={(expression) => set({ expression })} fault={at("expression")} isMono required hint={t("minute hour day month weekday, or six fields with seconds first")} />
        <TextField label={t("Zone")} value={schedule.zone ?? "UTC"} onChange={(zone) => set({ zone })} fault={at("zone")} list="zones" />
      </div>
      <div className="fields">
        <Choice label={t("Dialect")} value={schedule.dialect ?? "unix"} onChange={(dialect) => set({ dialect })} options={[["unix", t("unix: 1 is Monday")], ["quartz", t("quartz: 1 is Sunday")]]} />
        <Choice label={t("When clocks jump over it")} value={schedule.gap ?? "default"} onChange={(gap) => set({ gap })} options={[["default", t("as it suits the expression")], ["skip", t("skip")], ["shift", t("run when the gap ends")]]} />
        <Choice label={t("When it happens twice")} value={schedule.overlap ?? "default"} onChange={(overlap) => set({ overlap })} options={[["default", t("as it suits the expression")], ["first", t("the first time")], ["last", t("the second time")], ["both", t("both times")]]} />
      </div>
    </>
  );
}
