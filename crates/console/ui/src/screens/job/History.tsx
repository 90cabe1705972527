// How a job has been doing: hour by hour as a heat map, and run by run as lengths.
import { Link } from "wouter";
import type { Run } from "../../api/types";
import { took } from "../../parts/Sparkline";
import { tone } from "../../parts/State";
import { useWidth } from "../../parts/width";
import { length, percentile, span } from "../../time/words";
import { myZone } from "../../time/zone";
import { type Phrase, many, number, t } from "../../words";
import { BADNESSES, type Badness, type Hour, badness, byHour } from "./hours";

/** What the colours of hours mean. */
const BADNESS: Record<Exclude<Badness, "empty">, Phrase> = {
  none: "none failed", few: "up to a tenth failed", some: "up to half failed", most: "more than half failed", all: "all failed", idle: "none ran",
};

export function HistoryHeat({ runs, zone = myZone(), job }: { runs: Run[] | undefined; zone?: string | undefined; job: number }) {
  if (!runs) return <div style={{ height: 120 }} />;
  if (runs.length === 0) return <p className="muted">{t("No runs yet")}</p>;
  const days = byHour(runs, zone).slice(0, 14);
  return (
    <>
      <div className="heat-scroll" tabIndex={0} role="group" aria-label={t("History by hour")}>
        <div className="heat" style={{ "--cells": 24, minWidth: 480 } as React.CSSProperties}>
          {days.map(([date, cells]) => (
            <div key={date} className="heat-row">
              <span>{date.slice(5)}</span>
              {cells.map((cell, hour) => {
                const label = `${date} ${String(hour).padStart(2, "0")}:00 ${zone} · ${told(cell)}`;
                const bad = badness(cell);
                if (bad === "empty") return <span key={hour} className="heat-cell is-plain" title={label} />;
                return <Link key={hour} href={`/runs?job=${job}${cell.bad > 0 ? "&state=failed" : ""}`} className="heat-cell" data-bad={bad} title={label} aria-label={label} />;
              })}
            </div>
          ))}
          <div className="heat-row" aria-hidden="true"><span />{Array.from({ length: 24 }, (_, hour) => <span key={hour}>{hour % 6 === 0 ? String(hour).padStart(2, "0") : ""}</span>)}</div>
        </div>
      </div>
      <p className="legend" style={{ marginTop: 8 }}>{BADNESSES.map((one) => one === "empty" ? null : <span key={one}><i className="heat-cell" data-bad={one} aria-hidden="true" />{t(BADNESS[one])}</span>)}</p>
    </>
  );
}

/** How many runs an hour had, and what became of them. */
function told({ good, bad, other }: Hour): string {
  const counts = [many(good + bad + other, "{n} run", "{n} runs"), many(bad, "{n} failed", "{n} failed")];
  return [...counts, ...(other > 0 ? [t("{n} did not run", { n: number(other) })] : [])].join(" · ");
}

const USUAL = 600;
const HEIGHT = 210;
const LEFT = 52;

export function DurationChart({ runs, timeout }: { runs: Run[] | undefined; timeout: string }) {
  const [box, full] = useWidth<HTMLElement>(USUAL);
  const shown = (runs ?? []).slice(0, 120).reverse().flatMap((run) => {
    const ms = took(run);
    return ms === null ? [] : [{ run, ms: Math.max(ms, 1) }];
  });
  if (shown.length === 0) return <figure ref={box} style={{ minHeight: HEIGHT }}><p className="muted">{runs ? t("No runs yet") : ""}</p></figure>;
  const sorted = shown.map((one) => one.ms).sort((a, b) => a - b);
  const [p50, p95] = [percentile(sorted, 0.5) ?? 1, percentile(sorted, 0.95) ?? 1];
  const most = Math.max(...sorted) * 1.15;
  const y = (ms: number) => HEIGHT - 22 - (ms / most) * (HEIGHT - 34);
  const x = (index: number) => LEFT + 6 + (index / Math.max(1, shown.length - 1)) * (full - LEFT - 14);
  const limit = span(timeout);
  const label = t("p50 {p50}, p95 {p95}", { p50: length(p50), p95: length(p95) });
  return (
    <figure ref={box}>
      <svg className="chart" viewBox={`0 0 ${full} ${HEIGHT}`} height={HEIGHT} role="img" aria-label={label}>
        {[0, most / 2, most].map((ms) => (
          <g key={ms}><line className="grid" x1={LEFT} x2={full} y1={y(ms)} y2={y(ms)} /><text x={LEFT - 8} y={y(ms) + 4} textAnchor="end">{length(ms)}</text></g>
        ))}
        {[["p50", p50], ["p95", p95]].map(([name, ms]) => (
          <line key={name} x1={LEFT} x2={full} y1={y(Number(ms))} y2={y(Number(ms))} stroke="var(--accent)" strokeDasharray={name === "p50" ? "none" : "4 4"} strokeWidth="1" />
        ))}
        {limit !== null && limit < most ? <line x1={LEFT} x2={full} y1={y(limit)} y2={y(limit)} stroke="var(--bad)" strokeDasharray="2 3" /> : null}
        {shown.map(({ run, ms }, index) => (
          run.state === "succeeded"
            ? <circle key={run.id} cx={x(index)} cy={y(ms)} r="2.6" className="fill-good"><title>{`${run.fire_time} · ${length(ms)}`}</title></circle>
            : <path key={run.id} d={`M${x(index) - 3.4} ${y(ms) - 3.4}l6.8 6.8m0-6.8-6.8 6.8`} stroke={`var(--${tone(run.state)})`} strokeWidth="1.8"><title>{`${run.fire_time} · ${run.state} · ${length(ms)}`}</title></path>
        ))}
      </svg>
      <figcaption className="legend"><span>{label}</span></figcaption>
    </figure>
  );
}
