// How a job has been doing: hour by hour as a heat map, and run by run as lengths.
import { Link } from "wouter";
import type { Run } from "../../api/types";
import { took } from "../../parts/Sparkline";
import { tone } from "../../parts/State";
import { useWidth } from "../../parts/width";
import { length, percentile, span } from "../../time/words";
import { myZone, wall } from "../../time/zone";
import { many, t } from "../../words";

interface Cell {
  good: number;
  bad: number;
  other: number;
}

/** Runs by day and hour in a zone, the newest day first. */
export function byHour(runs: Run[], zone: string): [string, Cell[]][] {
  const days = new Map<string, Cell[]>();
  for (const run of runs) {
    const { date, time } = wall(Date.parse(run.fire_time), zone);
    const cells = days.get(date) ?? Array.from({ length: 24 }, () => ({ good: 0, bad: 0, other: 0 }));
    days.set(date, cells);
    const cell = cells[Number(time.slice(0, 2))];
    if (!cell) continue;
    if (run.state === "succeeded") cell.good += 1;
    else if (tone(run.state) === "bad" || run.state === "lost") cell.bad += 1;
    else cell.other += 1;
  }
  return [...days.entries()].sort(([a], [b]) => (a < b ? 1 : -1));
}

export function HistoryHeat({ runs, zone = myZone(), job }: { runs: Run[] | undefined; zone?: string | undefined; job: number }) {
  if (!runs) return <div style={{ height: 120 }} />;
  if (runs.length === 0) return <p className="muted">{t("No runs yet")}</p>;
  const days = byHour(runs, zone).slice(0, 14);
  const most = Math.max(1, ...days.flatMap(([, cells]) => cells.map((cell) => cell.good + cell.bad + cell.other)));
  return (
    <div className="heat-scroll" tabIndex={0} role="group" aria-label={t("History by hour")}>
      <div className="heat" data-tone="good" style={{ "--cells": 24, minWidth: 480 } as React.CSSProperties}>
        {days.map(([date, cells]) => (
          <div key={date} className="heat-row">
            <span>{date.slice(5)}</span>
            {cells.map((cell, hour) => {
              const all = cell.good + cell.bad + cell.other;
              const label = `${date} ${String(hour).padStart(2, "0")}:00 ${zone} · ${many(all, "{n} run", "{n} runs")} · ${many(cell.bad, "{n} failed", "{n} failed")}`;
              const level = all === 0 ? 0 : Math.max(1, Math.ceil((4 * all) / most));
              if (all === 0) return <span key={hour} className="heat-cell is-plain" title={label} />;
              return <Link key={hour} href={`/runs?job=${job}${cell.bad > 0 ? "&state=failed" : ""}`} className="heat-cell" data-level={level} data-tone={cell.bad > 0 ? "bad" : undefined} title={label} aria-label={label} />;
            })}
          </div>
        ))}
        <div className="heat-row" aria-hidden="true"><span />{Array.from({ length: 24 }, (_, hour) => <span key={hour}>{hour % 6 === 0 ? String(hour).padStart(2, "0") : ""}</span>)}</div>
      </div>
    </div>
  );
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
