// States of runs, each with a colour and with a shape of its own, so that no one needs the colour.
import type { ReactNode } from "react";
import { type Phrase, t } from "../words";

export type Tone = "good" | "bad" | "busy" | "warn" | "odd" | "idle";

const line = { fill: "none", stroke: "currentColor", strokeWidth: 2, strokeLinecap: "round" as const };

/** Shape by state; the box is 12 by 12. */
const SHAPES: Record<string, [Tone, ReactNode]> = {
  succeeded: ["good", <g key="s"><circle cx="6" cy="6" r="6" fill="currentColor" /><path d="M3.4 6.3 5.2 8l3.4-3.8" {...line} stroke="var(--surface)" strokeWidth={1.6} /></g>],
  failed: ["bad", <g key="f"><path d="M3.5.5h5l3 3v5l-3 3h-5l-3-3v-5z" fill="currentColor" /><path d="m4 4 4 4m0-4-4 4" {...line} stroke="var(--surface)" strokeWidth={1.6} /></g>],
  running: ["busy", <g key="r"><circle cx="6" cy="6" r="5" {...line} /><path d="M4.8 3.6v4.8L8.6 6z" fill="currentColor" /></g>],
  retrying: ["warn", <path key="t" d="M6 .8 11.6 11H.4z" fill="currentColor" />],
  pending: ["idle", <circle key="p" cx="6" cy="6" r="4.6" {...line} strokeDasharray="2.4 2.4" />],
  lost: ["odd", <path key="l" d="M6 .4 11.6 6 6 11.6.4 6z" fill="currentColor" />],
  cancelled: ["idle", <g key="c"><circle cx="6" cy="6" r="4.8" {...line} /><path d="m3 9 6-6" {...line} /></g>],
  skipped: ["idle", <path key="k" d="M1.5 6h9" {...line} strokeWidth={2.6} />],
  timed_out: ["bad", <path key="o" d="M1.5 1h9L6.8 6l3.7 5h-9l3.7-5z" fill="currentColor" />],
  refused: ["bad", <path key="x" d="M1 1h10v10H1z" fill="currentColor" />],
  stopped: ["idle", <path key="z" d="M2.5 1.5h2.4v9H2.5zm4.6 0h2.4v9H7.1z" fill="currentColor" />],
  healthy: ["good", <circle key="h" cx="6" cy="6" r="5" fill="currentColor" />],
  suspect: ["warn", <path key="u" d="M6 .8 11.6 11H.4z" fill="currentColor" />],
  away: ["idle", <circle key="a" cx="6" cy="6" r="4.6" {...line} />],
};

const NAMES: Record<string, Phrase> = {
  succeeded: "Succeeded", failed: "Failed", running: "Running", retrying: "Retrying", pending: "Pending", lost: "Lost",
  cancelled: "Cancelled", skipped: "Skipped", timed_out: "Timed out", refused: "Refused", stopped: "Stopped",
  healthy: "Healthy", suspect: "Suspect", away: "Away",
};

export function stateName(state: string): string {
  const name = NAMES[state];
  return name ? t(name) : state;
}

export function tone(state: string): Tone {
  return SHAPES[state]?.[0] ?? "idle";
}

export function StateShape({ state, label }: { state: string; label?: string }) {
  return (
    <span className="state" data-tone={tone(state)} title={label ?? stateName(state)}>
      <svg viewBox="0 0 12 12" role="img" aria-label={label ?? stateName(state)}>{SHAPES[state]?.[1]}</svg>
    </span>
  );
}

export function State({ state }: { state: string }) {
  return (
    <span className="state" data-tone={tone(state)}>
      <svg viewBox="0 0 12 12" aria-hidden="true">{SHAPES[state]?.[1]}</svg>
      <span>{stateName(state)}</span>
    </span>
  );
}
