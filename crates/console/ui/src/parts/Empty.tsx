// What is shown where there is nothing: one sentence, one command, one button.
import { Check, Copy, Inbox } from "lucide-react";
import { type ReactNode, useState } from "react";
import { t } from "../words";

export function Empty(props: { title: string; children?: ReactNode; command?: string; action?: ReactNode; icon?: ReactNode }) {
  return (
    <div className="empty">
      {props.icon ?? <Inbox aria-hidden="true" />}
      <h2>{props.title}</h2>
      {props.children ? <p>{props.children}</p> : null}
      {props.command ? <div className="command"><code tabIndex={0}>{props.command}</code><CopyButton text={props.command} /></div> : null}
      {props.action}
    </div>
  );
}

export function CopyButton({ text, label }: { text: string; label?: string }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    setDone(true);
    setTimeout(() => setDone(false), 1_200);
  };
  const name = label ?? t("Copy");
  return (
    <button type="button" className="button is-plain is-square is-small" onClick={copy} aria-label={name} title={name}>
      {isDone ? <Check /> : <Copy />}
    </button>
  );
}

/** Grey bars of the same size as what is to come, so that nothing moves when it comes. */
export function Bones({ rows, height = 36 }: { rows: number; height?: number }) {
  return (
    <div aria-hidden="true">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} style={{ height, display: "flex", alignItems: "center", padding: "0 14px", gap: 16 }}>
          <div className="bone" style={{ width: `${22 + ((row * 7) % 18)}%` }} />
          <div className="bone" style={{ width: `${12 + ((row * 5) % 12)}%` }} />
          <div className="bone" style={{ width: "16%", marginLeft: "auto" }} />
        </div>
      ))}
    </div>
  );
}
