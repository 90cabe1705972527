// A run's time, cut into pieces that each have a name: from its fire time to its end.
import type { Run } from "../../api/types";
import { t } from "../../words";

export type Kind = "wait" | "late" | "good" | "bad" | "busy" | "pause" | "settle";

export interface Piece {
  kind: Kind;
  name: string;
  from: number;
  to: number;
  /** Whether it goes on. */
  isOpen: boolean;
}

/** Below this, the way from due to sent is not worth calling late. */
const LATE_MS = 1_000;

/** The pieces of a run's time, each beginning where the one before ends. */
export function timeline(run: Run, now: number): Piece[] {
  const fire = Date.parse(run.fire_time);
  const closed = run.closed_at ? Date.parse(run.closed_at) : null;
  // What may have been sent or not is no piece of the time: the run is late until the first send that is certain.
  const attempts = run.attempts.filter((attempt) => !attempt.supposed).sort((a, b) => a.number - b.number);
  const pieces: Piece[] = [];
  let at = fire;
  const add = (kind: Kind, name: string, to: number, isOpen = false) => {
    if (to > at || isOpen) pieces.push({ kind, name, from: at, to: Math.max(at, to), isOpen });
    at = Math.max(at, to);
  };
  const first = attempts[0];
  if (first) waiting(run, Date.parse(first.started_at), add);
  attempts.forEach((attempt, index) => {
    const started = Date.parse(attempt.started_at);
    if (index > 0) add("pause", t("Pause before attempt {n}", { n: attempt.number }), started);
    const ended = attempt.ended_at ? Date.parse(attempt.ended_at) : null;
    const kind = ended === null && closed === null ? "busy" : attempt.outcome === "succeeded" ? "good" : "bad";
    add(kind, t("Attempt {n}", { n: attempt.number }), ended ?? closed ?? now, ended === null && closed === null);
  });
  if (closed !== null) add(first ? "settle" : "wait", first ? t("Written down") : t("Waited, and did not run"), closed);
  else if (!first) add("wait", fire > now ? t("Not due yet") : t("Waits"), now, true);
  else if (run.state === "retrying") add("pause", t("Pause before the next attempt"), now, true);
  return pieces;
}

/** From the fire time to the first send, by what it was spent on. */
function waiting(run: Run, started: number, add: (kind: Kind, name: string, to: number) => void): void {
  const lag = started - Date.parse(run.fire_time);
  if (run.origin === "backfill" || run.origin === "retry") add("wait", t("Before it was asked for"), started);
  else if (run.ready_at && Date.parse(run.ready_at) > Date.parse(run.fire_time) && Date.parse(run.ready_at) <= started) {
    add("wait", t("Put off"), Date.parse(run.ready_at));
    add("late", t("Late"), started);
  } else add(lag >= LATE_MS ? "late" : "wait", lag >= LATE_MS ? t("Late") : t("On its way"), started);
}

export interface Shown extends Piece {
  /** Its share of the bar, 0 to 1. */
  share: number;
  /** Whether it is drawn shorter than it was, so that the rest can be seen. */
  isCut: boolean;
}

/** Shares of the bar. A wait that dwarfs the work is cut, and says so. */
export function shares(pieces: Piece[]): Shown[] {
  const size = (piece: Piece) => Math.max(1, piece.to - piece.from);
  const isQuiet = (piece: Piece) => piece.kind === "wait" || piece.kind === "late";
  const work = pieces.filter((piece) => !isQuiet(piece)).reduce((sum, piece) => sum + size(piece), 0);
  const weights = pieces.map((piece) => (isQuiet(piece) && work > 0 && size(piece) > 2 * work ? work / 2 : size(piece)));
  const total = weights.reduce((sum, weight) => sum + weight, 0) || 1;
  return pieces.map((piece, index) => ({ ...piece, share: (weights[index] ?? 0) / total, isCut: weights[index] !== size(piece) }));
}
