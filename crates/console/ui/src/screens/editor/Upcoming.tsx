// What the schedule means while it is typed: in words, its next runs, and what may be not meant so.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Refusal } from "../../api/client";
import { once, preview } from "../../api/queries";
import type { JobDraft, Schedule } from "../../api/types";
import { Warning } from "../../parts/Problem";
import { useNow } from "../../time/now";
import { distance } from "../../time/Time";
import { myZone, wall } from "../../time/zone";
import { t } from "../../words";
import { changeMark, changeSign } from "../job/NextRuns";
import { policy, zoneOf } from "../job/schedule";

const COUNT = 8;
const PAUSE_MS = 200;

/** The preview of a schedule, asked for when typing pauses. */
export function usePreview(schedule: Schedule, count: number) {
  const text = JSON.stringify(schedule);
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return useQuery({
    queryKey: ["preview", settled, count],
    queryFn: () => preview(JSON.parse(settled) as Schedule, count),
    placeholderData: keepPreviousData, retry: once, staleTime: 10_000,
  });
}

export function Upcoming({ draft }: { draft: JobDraft }) {
  const found = usePreview(draft.schedule, COUNT);
  const now = useNow();
  const zone = zoneOf(draft) ?? myZone();
  const fault = found.error instanceof Refusal ? found.error.message : "";
  const times = fault ? [] : (found.data?.fire_times ?? []).map((time) => Date.parse(time));
  return (
    <section className="card">
      <div className="card-head"><h2>{t("What it will do")}</h2><span className="aside">{zone}</span></div>
      <div className="card-body" style={{ display: "grid", gap: 10 }} aria-live="polite">
        {fault ? <p className="bad told" role="alert">{fault}</p> : <p className="told">{policy(draft, found.data?.in_words ?? "").join(" ")}</p>}
        {!fault && found.data?.warnings.map((warning) => <Warning key={warning}>{warning}</Warning>)}
        {!fault ? <Often times={times} /> : null}
        <div className="next-list" style={{ minHeight: COUNT * 22 }}>
          {times.map((at, index) => {
            const shown = wall(at, zone);
            const mark = changeMark(times[index - 1], at, zone);
            return [
              <span key={`${at}d`} className="muted nowrap">{shown.weekday} {shown.date}</span>,
              <span key={`${at}t`} className="nowrap">{shown.time}{mark ? <span className="warn small" title={mark} role="img" aria-label={mark}> ⇅ {changeSign(times[index - 1], at, zone)}</span> : null}</span>,
              <span key={`${at}l`} className="muted right nowrap">{distance(at, now)}</span>,
            ];
          })}
          {!fault && found.data && times.length === 0 ? <span className="muted" style={{ gridColumn: "1 / -1" }}>{t("No fire time ahead")}</span> : null}
        </div>
      </div>
    </section>
  );
}

/** More than once a second is seldom meant. */
function Often({ times }: { times: number[] }) {
  const [first, last] = [times[0], times[times.length - 1]];
  if (first === undefined || last === undefined || times.length < 3) return null;
  const step = (last - first) / (times.length - 1);
  return step < 1_000 ? <Warning>{t("It fires more than once a second.")}</Warning> : null;
}
