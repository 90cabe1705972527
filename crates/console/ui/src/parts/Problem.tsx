// Refusals and failures: what happened, why, what to do, and the id by which the request is found in the server's
// log.
import { CircleAlert, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { Refusal, UNREACHABLE } from "../api/client";
import { t } from "../words";

/** What an error says to a person. */
export function explain(error: unknown): { title: string; detail: string; advice: string; requestId: string | null } {
  if (!(error instanceof Refusal)) {
    return { title: t("Something went wrong in the console"), detail: String(error), advice: t("Reload the page."), requestId: null };
  }
  const { status, title, detail, requestId } = error;
  if (status === UNREACHABLE) {
    return { title: t("The server does not answer"), detail: t("Nothing was lost; it is asked again by itself."), advice: t("Look whether it runs and can be reached."), requestId };
  }
  const advice =
    status === 401 ? t("Sign in again.")
    : status === 403 ? t("Your token does not allow this; ask an admin for another role.")
    : status === 404 ? t("It may have been deleted, or dropped with its day.")
    : status === 409 ? t("Look at its present state, and try again if it still makes sense.")
    : status === 412 ? t("Somebody else changed it; read it again.")
    : status === 429 ? t("Wait a moment, then try again.")
    : status >= 500 ? t("Try again; if it stays so, look for the request in the server's log.")
    : "";
  return { title, detail, advice, requestId };
}

export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  if (!error) return null;
  const said = explain(error);
  const fields = error instanceof Refusal ? error.errors : [];
  return (
    <div className="notice" data-tone="bad" role="alert">
      <CircleAlert aria-hidden="true" />
      <div>
        <div className="strong told">{said.title}</div>
        {said.detail && fields.length < 2 ? <div className="told">{said.detail}</div> : null}
        {fields.length > 1 ? (
          <ul className="told">{fields.map((one) => <li key={one.pointer + one.detail}><code>{one.pointer}</code> {one.detail}</li>)}</ul>
        ) : null}
        {said.advice ? <div>{said.advice}</div> : null}
        {said.requestId ? <div className="request">{t("Request")} <code>{said.requestId}</code></div> : null}
      </div>
      {retry ? <button type="button" className="button is-small" onClick={retry}>{t("Try again")}</button> : null}
    </div>
  );
}

export function Warning({ children }: { children: ReactNode }) {
  return (
    <div className="notice" data-tone="warn">
      <TriangleAlert aria-hidden="true" />
      <div className="told">{children}</div>
    </div>
  );
}
