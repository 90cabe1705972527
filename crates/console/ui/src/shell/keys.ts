// Keys that work everywhere, and those that the screen in front adds.
import { useEffect, useRef } from "react";

export type Keys = Record<string, (event: KeyboardEvent) => void>;

/** How far apart two keys may be pressed that mean something together. Counted from when they were pressed, not heard. */
const SEQUENCE_MS = 1_500;

const layers: { current: Keys }[] = [];
let prefix: { key: string; at: number } | null = null;

/** Whether a key is meant for a field that is being written in. */
function isWriting(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

function press(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.altKey) return;
  const isChord = event.ctrlKey || event.metaKey;
  const isBox = event.target instanceof HTMLInputElement && event.target.type === "checkbox";
  if (!isChord && isWriting(event.target) && !isBox) return;
  if (!isChord && document.querySelector("dialog[open]")) return;
  const plain = isChord ? `ctrl+${event.key.toLowerCase()}` : event.key;
  const isSequence = prefix && event.timeStamp - prefix.at < SEQUENCE_MS;
  const name = isSequence && !isChord ? `${prefix?.key} ${plain}` : plain;
  prefix = null;
  for (const layer of [...layers].reverse()) {
    const act = layer.current[name];
    if (act) {
      event.preventDefault();
      act(event);
      return;
    }
  }
  if (!isChord && plain === "g") prefix = { key: plain, at: event.timeStamp };
}

/** Listens for keys while the component is there. */
export function useKeys(keys: Keys): void {
  const layer = useRef(keys);
  layer.current = keys;
  useEffect(() => {
    if (layers.length === 0) window.addEventListener("keydown", press);
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
      if (layers.length === 0) window.removeEventListener("keydown", press);
    };
  }, []);
}
