// How wide an element is, in pixels, so that charts are drawn in the size in which they are seen.
import { type RefObject, useEffect, useRef, useState } from "react";

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
