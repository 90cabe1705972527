// When a job is allowed to run at all: days and hours, and what becomes of what falls outside.
import { Plus, X } from "lucide-react";
import type { Window } from "../../api/types";
import { type Phrase, t } from "../../words";
import { DAYS, type Day, daysOf, daysText } from "./days";
import { Choice, Field, TextField } from "./Field";
import type { Part } from "./Fields";

const NAMES: Record<Day, Phrase> = { mon: "Mon", tue: "Tue", wed: "Wed", thu: "Thu", fri: "Fri", sat: "Sat", sun: "Sun" };
const OFFICE: Window = { days: "mon-fri", hours: "09:00-17:00", outside: "skip" };

export function WindowFields({ draft, onChange, fault }: Part) {
  const windows = draft.windows ?? [];
  const set = (next: Window[]) => onChange({ ...draft, windows: next });
  return (
    <>
      {windows.length === 0 ? <p className="muted">{t("It may run at any time.")}</p> : null}
      {windows.map((window, index) => (
        <OneWindow
          key={index} window={window} number={index + 1} fault={(name) => fault(`/windows/${index}${name}`)}
          onChange={(next) => set(windows.map((one, at) => (at === index ? next : one)))}
          onRemove={() => set(windows.filter((_, at) => at !== index))}
        />
      ))}
      <div><button type="button" className="button is-small" onClick={() => set([...windows, OFFICE])}><Plus aria-hidden="true" />{t("Add a window")}</button></div>
    </>
  );
}

function OneWindow(props: { window: Window; number: number; fault: (name: string) => string | undefined; onChange: (next: Window) => void; onRemove: () => void }) {
  const { window, fault } = props;
  const { days_of_week, hours_of_day, ...plain } = window;
  void [days_of_week, hours_of_day];
  const set = (part: Partial<Window>) => props.onChange({ ...plain, ...part });
  const name = t("Window {n}", { n: props.number });
  return (
    <div className="repeated" role="group" aria-label={name}>
      <div className="repeated-fields">
        <Days days={window.days ?? "*"} onChange={(days) => set({ days })} fault={fault("/days") ?? fault("")} />
        <div className="fields">
          <TextField label={t("Hours")} value={window.hours ?? "00:00-24:00"} onChange={(hours) => set({ hours })} fault={fault("/hours")} isMono hint={t("such as 09:00-17:00, or 22:00-02:00 over midnight")} />
          <TextField label={t("Zone")} value={window.zone ?? ""} onChange={(zone) => set({ zone: zone || undefined })} fault={fault("/zone")} list="zones" hint={t("empty: that of the schedule")} />
          <Choice label={t("What falls outside")} value={window.outside ?? "skip"} onChange={(outside) => set({ outside })} options={[["skip", t("does not run")], ["defer", t("runs when the window opens")]]} fault={fault("/outside")} />
        </div>
      </div>
      <button type="button" className="button is-plain is-square is-small" onClick={props.onRemove} aria-label={t("Remove {name}", { name })} title={t("Remove")}><X /></button>
    </div>
  );
}

function Days({ days, onChange, fault }: { days: string; onChange: (days: string) => void; fault: string | undefined }) {
  const chosen = daysOf(days);
  if (!chosen) return <TextField label={t("Days")} value={days} onChange={onChange} fault={fault} isMono />;
  const turn = (day: Day) => {
    const next = chosen.includes(day) ? chosen.filter((one) => one !== day) : [...chosen, day];
    // A window without days would never open.
    if (next.length > 0) onChange(daysText(next));
  };
  return (
    <Field label={t("Days")} fault={fault}>
      {(given) => (
        <div id={given.id} className="segments" role="group" aria-label={t("Days")}>
          {DAYS.map((day) => <button key={day} type="button" aria-pressed={chosen.includes(day)} onClick={() => turn(day)}>{t(NAMES[day])}</button>)}
        </div>
      )}
    </Field>
  );
}
