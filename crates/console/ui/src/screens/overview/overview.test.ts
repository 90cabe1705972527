// What the first screen makes of what the server says.
import { expect, test } from "vitest";
import type { NodeInfo } from "../../api/types";
import { clusterOf, consoleOf } from "./cluster";
import { soonest } from "./soonest";

const node = (name: string, is_self = false, address = ""): NodeInfo => ({ node: `${name}-id`, name, address, shards: 1, is_self, state: "active" });

test("jobs are in the order of their next fire times, whatever came last from the server", () => {
  const job = (id: number, next_fire_time: string | null, enabled = true) => ({ id, next_fire_time, enabled });
  const jobs = [job(1, "2026-05-05T10:03:22Z"), job(2, "2026-05-05T10:01:27Z"), job(3, null), job(4, "2026-05-05T10:00:27Z", false), job(5, "2026-05-05T12:01:00+02:00"), job(6, "2026-05-05T10:01:27Z")];
  expect(soonest(jobs).map((one) => one.id)).toEqual([5, 2, 6, 1]);
});

test("a node that is alone is not named", () => {
  expect(clusterOf([node("berlin-1", true)])).toBe(null);
  expect(clusterOf([])).toBe(null);
});

test("in a cluster the node that answers is named, and the others are led to where they say where they are", () => {
  const others = [node("berlin-1", false, "http://10.0.0.1:7070"), node("berlin-3")];
  const cluster = clusterOf([others[0]!, node("berlin-2", true), others[1]!]);
  expect(cluster).toEqual({ name: "berlin-2", count: 3, others });
  expect(others.map(consoleOf)).toEqual(["http://10.0.0.1:7070", null]);
  expect(consoleOf(node("x", false, "javascript:alert(1)"))).toBe(null);
});
