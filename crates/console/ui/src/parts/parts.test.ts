// The parts that need no browser: differences, colours of terminals, streams of events.
import { expect, test } from "vitest";
import { EventCutter } from "../api/stream";
import type { Run, RunState } from "../api/types";
import { unnamed } from "../screens/forecast/peaks";
import { meant } from "../screens/jobs/Bulk";
import { bounded, inOrder, stretches } from "../screens/runs/bounded";
import { reasonOf } from "../screens/runs/reason";
import { ansi, plain } from "./ansi";
import { applyPatch, isEqual, lineDiff, mergePatch, sortedJson } from "./merge";

test("a patch makes one value of another, by RFC 7396", () => {
  const [before, after] = [{ a: 1, b: { c: 2, d: 3 }, e: [1] }, { a: 1, b: { c: 4 }, e: [1, 2] }];
  const patch = mergePatch(before, after);
  expect(patch).toEqual({ b: { c: 4, d: null }, e: [1, 2] });
  expect(applyPatch(before, patch)).toEqual(after);
  expect(mergePatch(after, after)).toBe(undefined);
  expect(isEqual({ a: undefined, b: 1 }, { b: 1 })).toBe(true);
});

test("a difference has every line once", () => {
  const lines = lineDiff(["a", "b", "c"], ["a", "x", "c"]);
  expect(lines.map((line) => `${line.kind} ${line.text}`)).toEqual(["same a", "removed b", "added x", "same c"]);
  expect(sortedJson({ b: 1, a: { d: 1, c: [2] } })).toBe(sortedJson({ a: { c: [2], d: 1 }, b: 1 }));
});

test("colours become classes, and nothing else of a terminal's language is left", () => {
  expect(ansi("\u001b[1;31mred\u001b[0m plain")).toEqual([{ text: "red", classes: "ansi-bold ansi-31" }, { text: " plain", classes: "" }]);
  expect(ansi("\u001b[38;5;196mx\u001b[39my")).toEqual([{ text: "x", classes: "ansi-31" }, { text: "y", classes: "" }]);
  for (const hostile of ["\u001b]0;title\u0007text", "\u001b[2J\u001b[Htext", "\u001b]8;;http://evil/\u001b\\text\u001b]8;;\u001b\\", "te\u0000x\u0008t", "\u009b31mtext", "\u001bPq\u001b\\text"]) {
    expect(ansi(hostile).map((span) => span.text).join("")).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
    expect(plain(hostile)).toContain("t");
  }
  expect(ansi("<b>x</b>")).toEqual([{ text: "<b>x</b>", classes: "" }]);
});

test("events are cut out of a stream wherever it breaks", () => {
  const text = 'id: a-1\nevent: run.closed\ndata: {"run":1}\n\n:\n\nretry: 2000\n\nevent: reset\ndata: {}\n\n';
  for (let at = 0; at <= text.length; at += 1) {
    const cutter = new EventCutter();
    const events = [...cutter.feed(text.slice(0, at)), ...cutter.feed(text.slice(at))];
    expect(events).toEqual([{ id: "a-1", name: "run.closed", data: '{"run":1}' }, { id: null, name: "reset", data: "{}" }]);
  }
});

test("a selection names its jobs, or what the filter names, as the server reads it", () => {
  const filter = { q: "", app: "shop", tag: "", enabled: "false", failing: "true" };
  expect(meant({ ids: new Set([3, 5]), isAll: false }, filter)).toEqual({ ids: [3, 5] });
  expect(meant({ ids: new Set([3]), isAll: true }, filter)).toEqual({ filter: { app: "shop", enabled: false, failing: true } });
  expect(meant({ ids: new Set(), isAll: true }, {})).toEqual({ filter: {} });
});

test("runs are shown until now or from now on, unless a time or a key is asked for", () => {
  const now = Date.parse("2026-05-05T10:10:30Z");
  expect(bounded({ app: "shop" }, "past", now)).toEqual({ app: "shop", to: "2026-05-05T10:11:00.000Z" });
  expect(bounded({}, "ahead", now)).toEqual({ from: "2026-05-05T10:10:00.000Z", state: "pending" });
  expect(bounded({ key: "k" }, "past", now)).toEqual({ key: "k" });
  expect(bounded({ from: "2026-01-01T00:00:00Z" }, "past", now)).toEqual({ from: "2026-01-01T00:00:00Z" });
});

test("of what is ahead only what will run is shown, unless a state or a key is asked for", () => {
  const now = Date.parse("2026-05-05T10:10:30Z");
  const from = "2026-05-05T10:10:00.000Z";
  expect(bounded({ state: "cancelled" }, "ahead", now)).toEqual({ from, state: "cancelled" });
  expect(bounded({ state: "any" }, "ahead", now)).toEqual({ from });
  expect(bounded({ key: "k" }, "ahead", now)).toEqual({ key: "k" });
  expect(bounded({ from, state: "" }, "ahead", now)).toEqual({ from, state: "pending" });
});

test("what is ahead is asked for in stretches that follow each other without a gap", () => {
  const cut = stretches({ app: "shop", from: "2026-05-05T10:00:00.000Z" });
  expect(cut.map((one) => [one.from, one.to])).toEqual([
    ["2026-05-05T10:00:00.000Z", "2026-05-05T11:00:00.000Z"], ["2026-05-05T11:00:00.000Z", "2026-05-06T10:00:00.000Z"],
    ["2026-05-06T10:00:00.000Z", "2026-05-12T10:00:00.000Z"], ["2026-05-12T10:00:00.000Z", undefined],
  ]);
  expect(cut.every((one) => one.app === "shop")).toBe(true);
  expect(stretches({ key: "k" })).toEqual([{ key: "k" }]);
  expect(stretches({ from: "2026-05-05T10:00:00Z", to: "2026-05-05T10:05:00Z" })).toHaveLength(1);
});

test("runs ahead are in the order of their fire times, not of their numbers", () => {
  const run = (id: number, fire_time: string) => ({ id, fire_time });
  const runs = [run(9, "2026-05-05T17:00:00Z"), run(8, "2026-05-05T21:00:00Z"), run(7, "2026-05-05T14:00:00Z"), run(5, "2026-05-05T14:00:00Z")];
  expect(inOrder(runs).map((one) => one.id)).toEqual([5, 7, 9, 8]);
});

test("a run says how many attempts it took and why it ended, with a dot only between the two", () => {
  const run = (attempts: number, reason: string, count: number | null = null) => ({ attempts: Array(attempts).fill({}), reason, count, state: "succeeded" as RunState }) as unknown as Run;
  expect([run(2, ""), run(2, "timed out"), run(1, "timed out"), run(1, ""), run(1, "coalesced", 3)].map(reasonOf)).toEqual(["2 attempts", "2 attempts · timed out", "timed out", "", "× 3 coalesced"]);
});

test("a busy second says how many of its runs it does not name", () => {
  const jobs = [1, 2, 3, 4, 5].map((id) => ({ id, app: "a", name: `j${id}`, count: 1 }));
  expect([unnamed({ at: 0, count: 5, jobs }), unnamed({ at: 0, count: 4, jobs: jobs.slice(0, 4) }), unnamed({ at: 0, count: 90, jobs: jobs.slice(0, 2) })]).toEqual([1, 0, 88]);
});
