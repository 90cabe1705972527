// Comparing and merging values: patches by RFC 7396, three-way merges, and lines of a difference.
import type { Json } from "../api/types";

type Dict = { [key: string]: Json };

function isDict(value: unknown): value is Dict {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether two values are the same JSON. */
export function isEqual(a: unknown, b: unknown): boolean {
  if (isDict(a) && isDict(b)) {
    const names = new Set([...Object.keys(a), ...Object.keys(b)]);
    return [...names].every((name) => isEqual(a[name], b[name]));
  }
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((one, index) => isEqual(one, b[index]));
  return a === b;
}

/** What to send so that `before` becomes `after`; undefined if it is so already. */
export function mergePatch(before: unknown, after: unknown): Json | undefined {
  if (isEqual(before, after)) return undefined;
  if (!isDict(before) || !isDict(after)) return (after ?? null) as Json;
  const patch: Dict = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (after[name] === undefined) patch[name] = null;
    else {
      const part = mergePatch(before[name], after[name]);
      if (part !== undefined) patch[name] = part;
    }
  }
  return patch;
}

/** Applies a patch by RFC 7396. */
export function applyPatch(value: Json, patch: Json | undefined): Json {
  if (patch === undefined) return value;
  if (!isDict(patch)) return patch;
  const result: Dict = isDict(value) ? { ...value } : {};
  for (const [name, part] of Object.entries(patch)) {
    if (part === null) delete result[name];
    else result[name] = applyPatch(result[name] ?? null, part);
  }
  return result;
}

/** The fields, by path, that both sides changed, and not to the same. */
export function clashes(base: unknown, mine: unknown, theirs: unknown, path = ""): string[] {
  if (isEqual(base, mine) || isEqual(base, theirs) || isEqual(mine, theirs)) return [];
  if (isDict(base) && isDict(mine) && isDict(theirs)) {
    const names = new Set([...Object.keys(base), ...Object.keys(mine), ...Object.keys(theirs)]);
    return [...names].flatMap((name) => clashes(base[name], mine[name], theirs[name], `${path}/${name}`));
  }
  return [path];
}

export interface Line {
  kind: "same" | "added" | "removed";
  text: string;
}

/** Beyond this many pairs of lines a difference is not worth its time. */
const COMPARED_MAX = 4_000_000;

/** The difference of two texts, line by line, by the longest common run of lines. */
export function lineDiff(before: string[], after: string[]): Line[] {
  const [rows, columns] = [before.length, after.length];
  if (rows * columns > COMPARED_MAX) {
    return [...before.map((text): Line => ({ kind: "removed", text })), ...after.map((text): Line => ({ kind: "added", text }))];
  }
  const best: number[][] = Array.from({ length: rows + 1 }, () => new Array<number>(columns + 1).fill(0));
  for (let row = rows - 1; row >= 0; row -= 1) {
    for (let column = columns - 1; column >= 0; column -= 1) {
      const here = best[row] as number[];
      const below = best[row + 1] as number[];
      here[column] = before[row] === after[column] ? (below[column + 1] ?? 0) + 1 : Math.max(below[column] ?? 0, here[column + 1] ?? 0);
    }
  }
  const lines: Line[] = [];
  let [row, column] = [0, 0];
  while (row < rows || column < columns) {
    if (row < rows && column < columns && before[row] === after[column]) {
      lines.push({ kind: "same", text: before[row] ?? "" });
      row += 1;
      column += 1;
    } else if (column < columns && (row >= rows || (best[row]?.[column + 1] ?? 0) > (best[row + 1]?.[column] ?? 0))) {
      lines.push({ kind: "added", text: after[column] ?? "" });
      column += 1;
    } else {
      lines.push({ kind: "removed", text: before[row] ?? "" });
      row += 1;
    }
  }
  return lines;
}

/** JSON with its keys in order, so that only meanings differ. */
export function sortedJson(value: unknown): string {
  const sort = (one: unknown): unknown => {
    if (Array.isArray(one)) return one.map(sort);
    if (!isDict(one)) return one;
    return Object.fromEntries(Object.keys(one).sort().map((name) => [name, sort(one[name])]));
  };
  return JSON.stringify(sort(value), null, 2);
}
