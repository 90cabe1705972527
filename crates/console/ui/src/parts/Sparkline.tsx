// The last runs of a job as bars: how each ended by colour and by height, the newest on the right.
import type { Ended, Run } from "../api/types";
import { length } from "../time/words";
import { many, t } from "../words";
import { stateName, tone } from "./State";

const BARS = 20;
const STEP = 7;
const HEIGHT = 18;

/** A failure is full height, a success half, what did not run a dot: the shape alone tells them apart. */
const HEIGHTS: Record<string, number> = { good: 10, bad: 18, odd: 18, warn: 14, busy: 14, idle: 3 };

export function Sparkline({ recent }: { recent: Ended[] }) {
  const shown = recent.slice(-BARS);
  const failed = shown.filter((run) => tone(run.state) === "bad" || run.state === "lost").length;
  const label = shown.length === 0 ? t("No runs yet") : `${many(shown.length, "Last run", "Last {n} runs")}: ${many(failed, "{n} failed", "{n} failed")}`;
  return (
    <svg className="spark" viewBox={`0 0 ${BARS * STEP} ${HEIGHT}`} preserveAspectRatio="xMinYMid meet" role="img" aria-label={label}>
      {Array.from({ length: BARS - shown.length }, (_, index) => (
        <rect key={index} x={index * STEP} y={HEIGHT - 3} width={STEP - 2} height="2" className="fill-none" />
      ))}
      {shown.map((run, index) => {
        const kind = tone(run.state);
        const height = HEIGHTS[kind] ?? 6;
        return (
          <rect key={run.run} x={(BARS - shown.length + index) * STEP} y={HEIGHT - height} width={STEP - 2} height={height} rx="1" className={`fill-${kind}`}>
            <title>{`${stateName(run.state)} · ${run.at}${run.duration_ms === null ? "" : ` · ${length(run.duration_ms)}`}`}</title>
          </rect>
        );
      })}
    </svg>
  );
}

/** How long the last attempt of a run took, in milliseconds. */
export function took(run: Run): number | null {
  const last = run.attempts[run.attempts.length - 1];
  return last?.ended_at ? Date.parse(last.ended_at) - Date.parse(last.started_at) : null;
}
