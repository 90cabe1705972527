// The last runs of a job as bars: how each ended by colour and by height, the newest on the right.
import type { Run } from "../api/types";
import { length } from "../time/words";
import { many, t } from "../words";
import { stateName, tone } from "./State";

const BARS = 40;
const HEIGHT = 18;

/** A failure is full height, a success half, what did not run a dot: the shape alone tells them apart. */
const HEIGHTS: Record<string, number> = { good: 10, bad: 18, odd: 18, warn: 14, busy: 14, idle: 3 };

export function Sparkline({ runs }: { runs: Run[] | undefined }) {
  if (!runs) return <div className="spark" />;
  const shown = runs.slice(0, BARS).reverse();
  const failed = shown.filter((run) => tone(run.state) === "bad" || run.state === "lost").length;
  const label = shown.length === 0 ? t("No runs yet") : `${many(shown.length, "Last run", "Last {n} runs")}: ${many(failed, "{n} failed", "{n} failed")}`;
  return (
    <svg className="spark" viewBox={`0 0 ${BARS * 4} ${HEIGHT}`} preserveAspectRatio="xMaxYMid meet" role="img" aria-label={label}>
      {Array.from({ length: BARS - shown.length }, (_, index) => (
        <rect key={index} x={index * 4} y={HEIGHT - 3} width="3" height="2" className="fill-none" />
      ))}
      {shown.map((run, index) => {
        const kind = tone(run.state);
        const height = HEIGHTS[kind] ?? 6;
        return (
          <rect key={run.id} x={(BARS - shown.length + index) * 4} y={HEIGHT - height} width="3" height={height} className={`fill-${kind}`}>
            <title>{`${stateName(run.state)} · ${run.fire_time}${took(run) === null ? "" : ` · ${length(took(run) ?? 0)}`}`}</title>
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

/** The lengths of successful runs, sorted. */
export function lengths(runs: Run[]): number[] {
  const ended = runs.filter((run) => run.state === "succeeded").map(took);
  return ended.filter((one): one is number => one !== null).sort((a, b) => a - b);
}
