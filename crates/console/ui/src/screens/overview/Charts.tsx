// The charts of the last 24 hours: how runs ended, and how late they began.
import type { Past, Review } from "../../api/outlook";
import { useWidth } from "../../parts/width";
import { length } from "../../time/words";
import { myZone, wall } from "../../time/zone";
import { number, t } from "../../words";

const USUAL = 760;
const LEFT = 44;
const BOTTOM = 18;

function Axis({ slots, height, width }: { slots: Past[]; height: number; width: number }) {
  const x = (index: number) => LEFT + (index / slots.length) * (width - LEFT);
  const every = width < 480 ? 8 : 4;
  return (
    <>
      {slots.map((slot, index) => {
        const { time } = wall(slot.at, myZone());
        return Number(time.slice(0, 2)) % every === 0 && time.slice(3, 5) === "00" && index < slots.length - 2 ? <text key={slot.at} x={x(index)} y={height - 3}>{time.slice(0, 5)}</text> : null;
      })}
    </>
  );
}

/** A round number that is not smaller. */
export function ceiling(value: number): number {
  const size = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return [1, 2, 4, 5, 10].map((step) => step * size).find((step) => step >= value) ?? value;
}

export function OutcomeChart({ review }: { review: Review | undefined }) {
  const height = 170;
  const [box, full] = useWidth<HTMLDivElement>(USUAL);
  const slots = review?.slots ?? [];
  const most = ceiling(Math.max(4, ...slots.map((slot) => slot.succeeded + slot.failed + slot.notRun)));
  const y = (count: number) => (count / most) * (height - BOTTOM - 8);
  const step = (full - LEFT) / Math.max(1, slots.length);
  const base = height - BOTTOM;
  const total = (key: "succeeded" | "failed" | "notRun") => slots.reduce((sum, slot) => sum + slot[key], 0);
  const label = t("{good} succeeded, {bad} failed, {none} did not run", { good: number(total("succeeded")), bad: number(total("failed")), none: number(total("notRun")) });
  return (
    <div ref={box}><svg className="chart" viewBox={`0 0 ${full} ${height}`} height={height} role="img" aria-label={label}>
      <defs>
        <pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="5" height="5" className="fill-bad" /><rect width="1.4" height="5" fill="var(--surface)" opacity="0.75" />
        </pattern>
      </defs>
      {[0, most / 2, most].map((count) => (
        <g key={count}><line className="grid" x1={LEFT} x2={full} y1={base - y(count)} y2={base - y(count)} /><text x={LEFT - 8} y={base - y(count) + 4} textAnchor="end">{number(count)}</text></g>
      ))}
      {slots.map((slot, index) => {
        const [good, bad, none] = [y(slot.succeeded), y(slot.failed), y(slot.notRun)];
        const [x, width] = [LEFT + index * step + 1, Math.max(1, step - 2)];
        return (
          <g key={slot.at}>
            <title>{`${wall(slot.at, myZone()).time.slice(0, 5)} · ${slot.succeeded} ${t("succeeded")} · ${slot.failed} ${t("failed")} · ${slot.notRun} ${t("did not run")}`}</title>
            <rect x={x} y={8} width={width} height={base - 8} fill="transparent" />
            {good > 0 ? <rect className="fill-good" x={x} y={base - good} width={width} height={good} /> : null}
            {bad > 0 ? <rect fill="url(#hatch)" x={x} y={base - good - Math.max(2, bad)} width={width} height={Math.max(2, bad)} /> : null}
            {none > 0 ? <rect className="fill-idle" opacity="0.55" x={x} y={base - good - bad - none} width={width} height={none} /> : null}
          </g>
        );
      })}
      <Axis slots={slots} height={height} width={full} />
    </svg></div>
  );
}

export function LagChart({ review }: { review: Review | undefined }) {
  const height = 110;
  const [box, full] = useWidth<HTMLDivElement>(USUAL);
  const slots = review?.slots ?? [];
  const most = Math.max(10, ...slots.map((slot) => slot.lagMax ?? 0));
  // Lateness spans five powers of ten, from a punctual millisecond to an outage.
  const y = (ms: number) => height - BOTTOM - (Math.log10(Math.max(1, ms)) / Math.log10(most * 1.2)) * (height - BOTTOM - 8);
  const x = (index: number) => LEFT + ((index + 0.5) / Math.max(1, slots.length)) * (full - LEFT);
  const lines = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000].filter((ms) => ms <= most * 1.2);
  const label = t("Greatest lateness: {ms}", { ms: length(Math.max(0, ...slots.map((slot) => slot.lagMax ?? 0))) });
  return (
    <div ref={box}><svg className="chart" viewBox={`0 0 ${full} ${height}`} height={height} role="img" aria-label={label}>
      {lines.map((ms, index) => (
        <g key={ms}><line className="grid" x1={LEFT} x2={full} y1={y(ms)} y2={y(ms)} />{lines.length < 5 || index % 2 === 0 ? <text x={LEFT - 8} y={y(ms) + 4} textAnchor="end">{length(ms)}</text> : null}</g>
      ))}
      {slots.map((slot, index) => slot.lagMax === null ? null : (
        <g key={slot.at}>
          <title>{`${wall(slot.at, myZone()).time.slice(0, 5)} · p50 ${length(slot.lagP50 ?? 0)} · max ${length(slot.lagMax)}`}</title>
          <line x1={x(index)} x2={x(index)} y1={y(slot.lagP50 ?? 1)} y2={y(slot.lagMax)} stroke="var(--line-strong)" strokeWidth="5" strokeLinecap="round" />
          <circle cx={x(index)} cy={y(slot.lagP50 ?? 1)} r="3" className={(slot.lagP50 ?? 0) >= 1_000 ? "fill-warn" : "fill-busy"} />
        </g>
      ))}
      <Axis slots={slots} height={height} width={full} />
    </svg></div>
  );
}
