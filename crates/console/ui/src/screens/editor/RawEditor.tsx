// The job as JSON. What can be read goes to the form at once; what cannot stays here and says why.
import { useEffect, useRef, useState } from "react";
import type { JobDraft } from "../../api/types";
import { isEqual } from "../../parts/merge";
import { CopyButton } from "../../parts/Empty";
import { t } from "../../words";

export function RawEditor({ draft, onChange, onFault }: { draft: JobDraft; onChange: (next: JobDraft) => void; onFault: (fault: string) => void }) {
  const [text, setText] = useState(() => JSON.stringify(draft, null, 2));
  const [fault, setFault] = useState("");
  const own = useRef<JobDraft>(draft);
  useEffect(() => {
    if (isEqual(own.current, draft)) return;
    own.current = draft;
    setText(JSON.stringify(draft, null, 2));
    setFault("");
    onFault("");
  }, [draft, onFault]);
  const write = (next: string) => {
    setText(next);
    const [value, said] = read(next);
    setFault(said);
    onFault(said);
    if (value) {
      own.current = value;
      onChange(value);
    }
  };
  return (
    <section className="card">
      <div className="card-head"><h2><label htmlFor="raw">{t("JSON")}</label></h2><span className="aside">{t("as the API takes it")} <CopyButton text={text} /></span></div>
      <div className="card-body" style={{ display: "grid", gap: 6 }}>
        <textarea id="raw" className="area raw" value={text} spellCheck={false} onChange={(event) => write(event.target.value)} aria-invalid={fault !== ""} aria-describedby="raw-fault" />
        <div id="raw-fault" className="fault bad small" role="alert">{fault}</div>
      </div>
    </section>
  );
}

function read(text: string): [JobDraft | null, string] {
  try {
    const value = JSON.parse(text) as Partial<JobDraft>;
    if (typeof value !== "object" || value === null || Array.isArray(value)) return [null, t("A job is an object.")];
    if (typeof value.schedule?.kind !== "string") return [null, t("schedule.kind is missing.")];
    if (typeof value.target?.kind !== "string") return [null, t("target.kind is missing.")];
    return [{ ...value, name: value.name ?? "", app: value.app ?? "" } as JobDraft, ""];
  } catch (error) {
    return [null, error instanceof Error ? error.message : String(error)];
  }
}
