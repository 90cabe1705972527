// An instant on the screen: relative by default, and a click goes round the ways to show it, everywhere at once.
import { useCallback, useSyncExternalStore } from "react";
import { t } from "../words";
import { instants } from "./instants";
import { useNow } from "./now";
import { iso, isZone, myZone, offsetText, wall } from "./zone";
import { brief, left as leftOf } from "./words";

export type Manner = "relative" | "mine" | "job" | "utc";

const CHOSEN = "punctual.time";
const ROUND: Manner[] = ["relative", "mine", "job", "utc"];

let manner: Manner = ROUND.find((one) => one === localStorage.getItem(CHOSEN)) ?? "relative";
const listeners = new Set<() => void>();

export function setManner(next: Manner): void {
  manner = next;
  localStorage.setItem(CHOSEN, next);
  for (const listener of listeners) listener();
}

export function useManner(): Manner {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => manner,
  );
}

/** How far an instant is from now: `in 3m`, `3m ago`. */
export function distance(at: number, now: number): string {
  const away = at - now;
  if (Math.abs(away) < 1_000) return t("now");
  return away > 0 ? t("in {length}", { length: brief(away) }) : t("{length} ago", { length: brief(away) });
}

/** The zone that a manner shows; the job's only where there is one. */
function zoneOf(shown: Manner, zone: string | undefined): string {
  if (shown === "utc") return "UTC";
  if (shown === "job" && zone && isZone(zone)) return zone;
  return myZone();
}

export function Time({ at, zone, precise = false }: { at: string | null | undefined; zone?: string | undefined; precise?: boolean }) {
  const shown = useManner();
  if (!at) return <span className="faint">–</span>;
  const instant = Date.parse(at);
  const title = [myZone(), zone, "UTC"]
    .filter((one, index, all): one is string => !!one && isZone(one) && all.indexOf(one) === index)
    .map((one) => `${iso(instant, one)}  ${one}`)
    .join("\n");
  const next = ROUND[(ROUND.indexOf(shown) + 1) % ROUND.length] ?? "relative";
  return (
    <button type="button" className="time" title={title} onClick={() => setManner(next)}>
      <time dateTime={at}>
        {shown === "relative" && !precise ? <Relative at={instant} /> : absolute(instant, zoneOf(shown, zone), precise)}
      </time>
    </button>
  );
}

function Relative({ at }: { at: number }) {
  return <>{distance(at, useNow())}</>;
}

/** An instant in a zone; where it is precise, with its offset, so that it cannot be read in another one. */
function absolute(at: number, zone: string, precise: boolean): string {
  const local = wall(at, zone);
  if (precise) return `${local.date} ${local.time}.${local.millis}${offsetText(local.offset)}`;
  return `${local.date.slice(5)} ${local.time}${zone === "UTC" ? "Z" : ""}`;
}

/** How precise times are written at the moment: as a function, for text that is not made of elements. */
export function usePrecise(zone: string | undefined): (at: number) => string {
  const shown = zoneOf(useManner(), zone);
  return useCallback((at: number) => absolute(at, shown, true), [shown]);
}

/** A sentence of the server, with the instants in it shown like all others. */
export function Told({ text, zone }: { text: string; zone: string | undefined }) {
  return <>{instants(text).map((part, index) => (part.isInstant ? <Time key={index} at={part.text} zone={zone} precise /> : part.text))}</>;
}

/** A countdown to an instant, or how long ago it was due. */
export function Countdown({ at }: { at: string | null }) {
  const now = useNow();
  if (!at) return <span className="faint">–</span>;
  const left = Date.parse(at) - now;
  const text = left < 1_000 ? t("now") : leftOf(left);
  return <time dateTime={at} title={iso(Date.parse(at), myZone())}>{text}</time>;
}
