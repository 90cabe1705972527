// Screens that are loaded after the first paint, all of them, so that none is missing when the server is away. A
// screen that could not be loaded is asked for again when the server answers. If that fails too, an upgrade has
// changed the names of the files, and the page is loaded anew.
import { type ComponentType, lazy, useSyncExternalStore } from "react";

type Load = () => Promise<unknown>;

/** How often the page may load itself anew: nodes of different versions behind one address must not make it flicker. */
const RELOAD_EVERY_MS = 60_000;
const RELOADED = "punctual.reloaded";
const PAUSE_MS = 1_000;
const PAUSE_MAX_MS = 8_000;

const loads: Load[] = [];
const listeners = new Set<() => void>();
let waiting = 0;

/** A component that comes later, and before it is needed if there is time. */
export function later<P extends object>(load: () => Promise<{ default: ComponentType<P> }>) {
  loads.push(load);
  return lazy(() => persistently(load));
}

/** Loads what is not there yet, one after the other, when the browser has nothing else to do. */
export async function loadTheRest(): Promise<void> {
  await new Promise<void>((idle) => ("requestIdleCallback" in window ? requestIdleCallback(() => idle(), { timeout: 5_000 }) : setTimeout(idle, 1_000)));
  // A screen that fails to load is asked for again when a person opens it.
  for (const load of loads) await load().catch(() => undefined);
}

/** Whether a screen waits for the server. */
export function useIsWaiting(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => waiting > 0,
  );
}

function wait(by: 1 | -1): void {
  waiting += by;
  for (const listener of listeners) listener();
}

async function persistently<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch {
    wait(1);
    try {
      await untilAnswered();
      return await load();
    } catch (error) {
      // Some browsers remember that a file could not be loaded until the page is loaded anew.
      if (!reloadOnce()) throw error;
      return await new Promise<T>(() => undefined);
    } finally {
      wait(-1);
    }
  }
}

async function untilAnswered(): Promise<void> {
  for (let pause = PAUSE_MS; ; pause = Math.min(pause * 2, PAUSE_MAX_MS)) {
    const isAnswered = await fetch("/healthz", { cache: "no-store" }).then((response) => response.status < 500, () => false);
    if (isAnswered) return;
    await new Promise((wake) => setTimeout(wake, pause));
  }
}

/** Loads the page anew, unless it did so a moment ago; whether it does. */
function reloadOnce(): boolean {
  const last = Number(sessionStorage.getItem(RELOADED) ?? 0);
  if (!mayReload(last, Date.now())) return false;
  sessionStorage.setItem(RELOADED, String(Date.now()));
  location.reload();
  return true;
}

/** Whether enough time has gone by since the page last loaded itself anew. A clock that was set back does not forbid it. */
export function mayReload(last: number, now: number): boolean {
  return now - last >= RELOAD_EVERY_MS || now < last;
}

let isOutdated = false;

/** After the server was away: whether it has another console by now. Then the page is loaded anew, at once where nobody is
 * writing, else with the next step to another screen. */
export async function lookForAnother(): Promise<void> {
  const own = document.querySelector<HTMLScriptElement>("script[type=module][src]")?.src;
  const page = await fetch("/", { cache: "no-store" }).then((response) => (response.ok ? response.text() : ""), () => "");
  isOutdated = !!own && isOther(page, new URL(own).pathname);
  if (isOutdated && !isWriting()) reloadOnce();
}

/** Whether a page is that of a console, and of another one than the script belongs to. */
export function isOther(page: string, script: string): boolean {
  return page.includes('<script type="module"') && !page.includes(`"${script}"`);
}

/** Called with each step to another screen. */
export function reloadIfOutdated(): void {
  if (isOutdated) reloadOnce();
}

function isWriting(): boolean {
  const focused = document.activeElement;
  return !!document.querySelector("dialog[open], .editor") || (focused !== null && /^(INPUT|TEXTAREA|SELECT)$/.test(focused.tagName));
}
