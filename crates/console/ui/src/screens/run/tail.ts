// The log of a run, followed to its end: lines as they come, going on where a connection was cut.
import { useEffect, useState } from "react";
import { Refusal, query, send } from "../../api/client";
import { readEvents } from "../../api/stream";
import type { LogPiece } from "../../api/types";

export interface Tail {
  lines: string[];
  state: "reading" | "cut" | "ended";
  error: unknown;
}

/** How many lines are kept; the oldest go first. */
export const LINES_MAX = 50_000;
const PAUSE_MS = 1_000;

export function useTail(run: number, attempt: number | null, part: number | null): Tail & { dropped: number } {
  const [tail, setTail] = useState<Tail & { dropped: number }>({ lines: [], state: "reading", error: null, dropped: 0 });
  useEffect(() => {
    const stop = new AbortController();
    setTail({ lines: [], state: "reading", error: null, dropped: 0 });
    void follow(run, attempt, part, stop.signal, setTail);
    return () => stop.abort();
  }, [run, attempt, part]);
  return tail;
}

type Set = (change: (before: Tail & { dropped: number }) => Tail & { dropped: number }) => void;

async function follow(run: number, attempt: number | null, part: number | null, signal: AbortSignal, set: Set): Promise<void> {
  let next = 1;
  let isOver = false;
  while (!isOver && !signal.aborted) {
    try {
      const path = `/runs/${run}/log${query({ follow: true, from: next, attempt, part })}`;
      const response = await send(path, { accept: "text/event-stream", signal });
      if (!response.body) return;
      await readEvents(response.body, (events) => {
        if (signal.aborted) return;
        const fresh: string[] = [];
        for (const event of events) {
          if (event.name === "cut") continue;
          const piece = JSON.parse(event.data) as LogPiece;
          fresh.push(...linesOf(piece.text));
          next = piece.next;
          isOver ||= piece.end;
        }
        set((before) => grown(before, fresh, isOver));
      });
    } catch (error) {
      if (signal.aborted) return;
      const isFinal = error instanceof Refusal && error.status >= 400 && error.status < 500;
      set((before) => ({ ...before, state: isFinal ? "ended" : "cut", error: isFinal ? error : null }));
      if (isFinal) return;
    }
    if (!isOver) await new Promise((wake) => setTimeout(wake, PAUSE_MS));
  }
}

function grown(before: Tail & { dropped: number }, fresh: string[], isOver: boolean): Tail & { dropped: number } {
  const all = fresh.length > 0 ? [...before.lines, ...fresh] : before.lines;
  const surplus = Math.max(0, all.length - LINES_MAX);
  return { lines: surplus > 0 ? all.slice(surplus) : all, dropped: before.dropped + surplus, state: isOver ? "ended" : "reading", error: null };
}

/** The lines of a piece; the last one ends with it. */
export function linesOf(text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines.map((line) => line.replace(/\r$/, ""));
}
