// One field of a form: its name, its place to write, and what is wrong with it.
import { type ReactNode, useId } from "react";

export interface Fault {
  pointer: string;
  detail: string;
}

export function Field(props: { label: string; hint?: string; fault?: string | undefined; children: (given: { id: string; "aria-invalid": boolean; "aria-describedby": string }) => ReactNode }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{props.label}</label>
      {props.children({ id, "aria-invalid": !!props.fault, "aria-describedby": `${id}-about` })}
      <div id={`${id}-about`}>
        {props.fault ? <div className="fault told">{props.fault}</div> : props.hint ? <div className="hint">{props.hint}</div> : null}
      </div>
    </div>
  );
}

export function TextField(props: { label: string; value: string; onChange: (value: string) => void; hint?: string; fault?: string | undefined; isMono?: boolean; list?: string; placeholder?: string; required?: boolean; disabled?: boolean }) {
  return (
    <Field label={props.label} hint={props.hint ?? ""} fault={props.fault}>
      {(given) => (
        <input
          {...given} className={props.isMono ? "input mono" : "input"} value={props.value} spellCheck={false} list={props.list} placeholder={props.placeholder} required={props.required} disabled={props.disabled}
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

export function Choice(props: { label: string; value: string; options: [string, string][]; onChange: (value: string) => void; hint?: string; fault?: string | undefined }) {
  return (
    <Field label={props.label} hint={props.hint ?? ""} fault={props.fault}>
      {(given) => (
        <select {...given} className="select" value={props.value} onChange={(event) => props.onChange(event.target.value)}>
          {props.options.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
        </select>
      )}
    </Field>
  );
}
