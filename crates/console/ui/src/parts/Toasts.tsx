// Short news at the edge of the screen. A refusal stays until it is put away: an action that was lost is never only a flash.
import { CircleAlert, CircleCheck, X } from "lucide-react";
import { useSyncExternalStore } from "react";
import { t } from "../words";
import { explain } from "./Problem";

interface Toast {
  id: number;
  tone: "good" | "bad";
  title: string;
  detail: string;
  requestId: string | null;
}

let toasts: Toast[] = [];
let last = 0;
const listeners = new Set<() => void>();

function become(next: Toast[]): void {
  toasts = next.slice(-4);
  for (const listener of listeners) listener();
}

function drop(id: number): void {
  become(toasts.filter((toast) => toast.id !== id));
}

export function say(title: string): void {
  const id = ++last;
  become([...toasts, { id, tone: "good", title, detail: "", requestId: null }]);
  setTimeout(() => drop(id), 4_000);
}

export function complain(error: unknown): void {
  const { title, detail, advice, requestId } = explain(error);
  become([...toasts, { id: ++last, tone: "bad", title, detail: [detail, advice].filter(Boolean).join(" "), requestId }]);
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((toast) => (
        <div key={toast.id} className="notice" data-tone={toast.tone}>
          {toast.tone === "good" ? <CircleCheck className="good" aria-hidden="true" /> : <CircleAlert aria-hidden="true" />}
          <div>
            <div className="strong told">{toast.title}</div>
            {toast.detail ? <div className="told">{toast.detail}</div> : null}
            {toast.requestId ? <div className="request">{t("Request")} <code>{toast.requestId}</code></div> : null}
          </div>
          <button type="button" className="button is-plain is-square is-small" onClick={() => drop(toast.id)} aria-label={t("Put away")}><X /></button>
        </div>
      ))}
    </div>
  );
}
