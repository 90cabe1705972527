// What time it is on the server, ticking once a second for everything that counts down.
import { useSyncExternalStore } from "react";

let offset = 0;
let shown = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | null = null;

/** Takes the server's time as what "now" is; a person's own clock may be wrong. */
export function setServerTime(now: string): void {
  const difference = Date.parse(now) - Date.now();
  if (Number.isFinite(difference) && Math.abs(difference - offset) > 500) offset = difference;
}

export function serverNow(): number {
  return Date.now() + offset;
}

function tick(): void {
  shown = serverNow();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(tick, 1_000);
  shown = serverNow();
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0 && timer) {
      clearInterval(timer);
      timer = null;
    }
  };
}

/** The server's time in milliseconds, at most a second old. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => shown);
}
