// Running the fire times of a past range: first their number, then the doing.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { change } from "../../api/client";
import type { Job } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Problem } from "../../parts/Problem";
import { say } from "../../parts/Toasts";
import { serverNow } from "../../time/now";
import { many, number, t } from "../../words";

interface Backfilled {
  count: number;
  fire_times: string[];
  created: number;
}

export function Backfill({ job, onClose }: { job: Job; onClose: () => void }) {
  const queries = useQueryClient();
  const at = (ms: number) => new Date(ms).toISOString().slice(0, 16);
  const [from, setFrom] = useState(() => at(serverNow() - 86_400_000));
  const [to, setTo] = useState(() => at(serverNow()));
  const [found, setFound] = useState<Backfilled | null>(null);
  const [error, setError] = useState<unknown>(null);
  const isWrong = !(from < to);
  const ask = async (isDry: boolean) => {
    setError(null);
    try {
      const range = { from: `${from}:00Z`, to: `${to}:00Z`, dry_run: isDry };
      const answer = await change<Backfilled>("POST", `/jobs/${job.id}/backfill`, range);
      if (isDry) return setFound(answer);
      say(many(answer.created, "{n} run was made", "{n} runs were made"));
      void queries.invalidateQueries({ queryKey: ["job", job.id] });
      void queries.invalidateQueries({ queryKey: ["list"] });
      onClose();
    } catch (caught) {
      setError(caught);
    }
  };
  const edit = (set: (value: string) => void) => (event: { target: { value: string } }) => {
    set(event.target.value);
    setFound(null);
  };
  return (
    <Dialog
      title={t("Backfill {name}", { name: job.name })} onClose={onClose}
      foot={
        <>
          <button type="button" className="button" onClick={onClose}>{t("Cancel")}</button>
          {found ? <button type="button" className="button is-main" disabled={found.count === 0} onClick={() => void ask(false)}>{t("Run what is missing")}</button>
            : <button type="button" className="button is-main" disabled={isWrong} onClick={() => void ask(true)}>{t("Count")}</button>}
        </>
      }
    >
      <p className="muted">{t("Fire times of the range that have no run get one. Those that have one are left alone. Times are UTC.")}</p>
      <div className="fields">
        <div className="field"><label htmlFor="from">{t("From, UTC")}</label><input id="from" type="datetime-local" className="input" value={from} onChange={edit(setFrom)} /></div>
        <div className="field"><label htmlFor="to">{t("To, UTC")}</label><input id="to" type="datetime-local" className="input" value={to} onChange={edit(setTo)} /></div>
      </div>
      {isWrong ? <p className="bad">{t("The end must be after the beginning.")}</p> : null}
      <Problem error={error} />
      {found ? (
        <div role="status">
          <p className="strong">{many(found.count, "The range names {n} fire time.", "The range names {n} fire times.")}</p>
          <ul className="small mono">{found.fire_times.slice(0, 5).map((one) => <li key={one}>{one}</li>)}{found.count > 5 ? <li>{t("and {n} more", { n: number(found.count - 5) })}</li> : null}</ul>
        </div>
      ) : null}
    </Dialog>
  );
}
