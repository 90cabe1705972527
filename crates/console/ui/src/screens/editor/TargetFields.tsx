// Where a job's work is done: an HTTP endpoint, or a handler of executors.
import { useEffect, useState } from "react";
import type { ExecutorTarget, HttpTarget, Json, Target } from "../../api/types";
import { isEqual } from "../../parts/merge";
import { t } from "../../words";
import { Choice, Field, TextField } from "./Field";
import type { Part } from "./Fields";

const ROUTES = ["round", "first", "last", "random", "consistent_hash", "least_frequently_used", "least_recently_used", "failover", "busyover", "sharding_broadcast"];

export function TargetFields({ draft, onChange, fault }: Part) {
  const { target } = draft;
  const set = (part: object) => onChange({ ...draft, target: { ...target, ...part } as Target });
  return (
    <>
      {target.kind === "http" ? <Http target={target} set={set} fault={fault} /> : <Executor target={target} set={set} fault={fault} />}
      <TextField
        label={t("Runs that meet")} value={target.block ?? ""} onChange={(block) => set({ block: block || undefined })} fault={fault("/target/block")} list="blocks"
        hint={t("empty: they run side by side; or serial, discard, cover, concurrent(n)")}
      />
      <datalist id="blocks">{["serial", "discard", "cover", "concurrent(2)"].map((one) => <option key={one} value={one} />)}</datalist>
    </>
  );
}

interface Given<T> {
  target: T;
  set: (part: object) => void;
  fault: (pointer: string) => string | undefined;
}

function Http({ target, set, fault }: Given<HttpTarget>) {
  return (
    <>
      <div className="fields" style={{ gridTemplateColumns: "110px minmax(0, 1fr)" }}>
        <Choice label={t("Method")} value={target.method ?? "POST"} onChange={(method) => set({ method })} options={["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"].map((one) => [one, one])} fault={fault("/target/method")} />
        <TextField label="URL" value={target.url} onChange={(url) => set({ url })} fault={fault("/target/url")} placeholder="https://example.com/agent" isMono required />
      </div>
      <JsonField label={t("Headers, JSON")} value={(target.headers ?? {}) as Json} onChange={(headers) => set({ headers: headers ?? {} })} fault={fault("/target/headers")} />
      <JsonField label={t("Body, JSON")} value={target.body ?? null} onChange={(body) => set({ body })} fault={fault("/target/body")} hint={t("sent when the run brings no payload")} />
      <Answering target={target} set={set} fault={fault} />
    </>
  );
}

/** What counts as an answer, and how the request is signed. */
function Answering({ target, set, fault }: Given<HttpTarget>) {
  const [codes, setCodes] = useState(() => (target.success_codes ?? []).join(", "));
  const isSet = (target.success_codes ?? []).length > 0 || target.follow_redirects || target.signing_secret;
  const write = (text: string) => {
    setCodes(text);
    const numbers = text.split(",").map((one) => Number(one.trim())).filter((one) => Number.isInteger(one) && one > 0);
    set({ success_codes: numbers.length > 0 ? numbers : undefined });
  };
  return (
    <details open={isSet ? true : undefined}>
      <summary className="label">{t("Answers and signing")}</summary>
      <div className="fields" style={{ marginTop: 8 }}>
        <TextField label={t("Answers that are a success")} value={codes} onChange={write} fault={fault("/target/success_codes")} hint={t("such as 200, 202, 409; empty: any 2xx")} isMono />
        <TextField label={t("Signing secret")} value={target.signing_secret ?? ""} onChange={(secret) => set({ signing_secret: secret || undefined })} fault={fault("/target/signing_secret")} hint={t("whsec_ and base64; requests carry a signature")} isMono />
      </div>
      <label className="button-row" style={{ marginTop: 8 }}><input type="checkbox" checked={target.follow_redirects ?? false} onChange={(event) => set({ follow_redirects: event.target.checked || undefined })} />{t("Follow up to three redirects")}</label>
    </details>
  );
}

function Executor({ target, set, fault }: Given<ExecutorTarget>) {
  return (
    <>
      <div className="fields">
        <TextField label={t("Handler")} value={target.handler ?? ""} onChange={(handler) => set({ handler })} fault={fault("/target/handler")} isMono required={!target.glue} />
        <Choice label={t("Route")} value={target.route ?? "round"} onChange={(route) => set({ route })} options={ROUTES.map((one) => [one, one])} fault={fault("/target/route")} />
      </div>
      <JsonField label={t("Parameters, JSON")} value={target.params ?? null} onChange={(params) => set({ params: params ?? undefined })} fault={fault("/target/params")} />
      {target.glue ? <p className="muted">{t("It sends a script along. The script is edited as JSON.")}</p> : null}
    </>
  );
}

function JsonField(props: { label: string; value: Json; onChange: (value: Json) => void; fault?: string | undefined; hint?: string }) {
  const shown = (value: Json) => (value === null || isEqual(value, {}) ? "" : JSON.stringify(value, null, 2));
  const [text, setText] = useState(() => shown(props.value));
  const [fault, setFault] = useState("");
  useEffect(() => {
    if (!isEqual(parsed(text)[0] ?? {}, props.value ?? {})) {
      setText(shown(props.value));
      setFault("");
    }
  }, [props.value]);
  const write = (next: string) => {
    setText(next);
    const [value, said] = parsed(next);
    setFault(said);
    if (said === "") props.onChange(value);
  };
  return (
    <Field label={props.label} hint={props.hint ?? ""} fault={fault || props.fault}>
      {(given) => <textarea {...given} className="area mono" style={{ minHeight: 52 }} rows={Math.min(10, Math.max(2, text.split("\n").length))} value={text} spellCheck={false} onChange={(event) => write(event.target.value)} />}
    </Field>
  );
}

function parsed(text: string): [Json, string] {
  if (text.trim() === "") return [null, ""];
  try {
    return [JSON.parse(text) as Json, ""];
  } catch (error) {
    return [null, error instanceof Error ? error.message : String(error)];
  }
}
