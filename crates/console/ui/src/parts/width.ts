// The width of an element in pixels, so that charts are drawn at the size at which they are shown; and whether the
// window has room for something.
import { type RefObject, useEffect, useRef, useState, useSyncExternalStore } from "react";

export function useWidth<E extends HTMLElement>(usual: number): [RefObject<E | null>, number] {
  const element = useRef<E>(null);
  const [width, setWidth] = useState(usual);
  useEffect(() => {
    const watched = element.current;
    if (!watched) return undefined;
    const watcher = new ResizeObserver(([entry]) => entry && setWidth(Math.max(200, Math.round(entry.contentRect.width))));
    watcher.observe(watched);
    return () => watcher.disconnect();
  }, []);
  return [element, width];
}

/** Whether the window is at most this wide; follows it when it is resized. */
export function useIsUnder(pixels: number): boolean {
  const asked = `(max-width: ${pixels}px)`;
  return useSyncExternalStore(
    (changed) => {
      const media = matchMedia(asked);
      media.addEventListener("change", changed);
      return () => media.removeEventListener("change", changed);
    },
    () => matchMedia(asked).matches,
  );
}
