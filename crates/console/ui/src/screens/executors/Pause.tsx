// Pausing an app and going on with it: its jobs stop, and what is stored for them waits.
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { change } from "../../api/client";
import { useMay } from "../../api/session";
import type { App } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { complain, say } from "../../parts/Toasts";
import { many, t } from "../../words";

/** Shows that an app is paused, with the button that changes it for people who may. */
export function Pause({ app }: { app: App }) {
  const mayOperate = useMay("operator");
  const queries = useQueryClient();
  const [isAsking, setAsking] = useState(false);
  const resume = async () => {
    try {
      const done = await change<Done>("POST", `/apps/${encodeURIComponent(app.name)}/resume`);
      say(many(done.jobs, "{name} goes on: {n} job started", "{name} goes on: {n} jobs started", { name: app.name }));
    } catch (error) {
      complain(error);
    }
    refresh(queries);
  };
  return (
    <>
      {app.paused ? <span className="chip" title={app.paused_reason ?? ""}>{t("paused")}</span> : null}
      {!mayOperate ? null : app.paused ? (
        <button type="button" className="button is-small" onClick={() => void resume()} aria-label={t("Resume {name}", { name: app.name })}>{t("Resume")}</button>
      ) : (
        <button type="button" className="button is-small" onClick={() => setAsking(true)} aria-label={t("Pause {name}", { name: app.name })}>{t("Pause")}</button>
      )}
      {isAsking ? <Ask app={app} onClose={() => setAsking(false)} /> : null}
    </>
  );
}

interface Done {
  jobs: number;
}

function Ask({ app, onClose }: { app: App; onClose: () => void }) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const go = async () => {
    try {
      const done = await change<Done>("POST", `/apps/${encodeURIComponent(app.name)}/pause`, { reason });
      say(many(done.jobs, "{name} is paused: {n} job stopped", "{name} is paused: {n} jobs stopped", { name: app.name }));
    } catch (error) {
      complain(error);
    }
    refresh(queries);
    onClose();
  };
  return (
    <Dialog title={t("Pause {name}", { name: app.name })} onClose={onClose} foot={<><button type="button" className="button" onClick={onClose}>{t("Cancel")}</button><button type="button" className="button is-main is-danger" onClick={() => void go()}>{t("Pause")}</button></>}>
      <p>{t("Every job of it stops until it is resumed. What is stored waits, and follows the misfire policy then.")}</p>
      <div className="field">
        <label htmlFor="pause-reason">{t("Why, for others who look")}</label>
        <input id="pause-reason" className="input" value={reason} maxLength={4096} onChange={(event) => setReason(event.target.value)} />
      </div>
    </Dialog>
  );
}

function refresh(queries: QueryClient): void {
  void queries.invalidateQueries({ queryKey: ["apps"] });
  void queries.invalidateQueries({ queryKey: ["list"] });
}
