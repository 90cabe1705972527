// The next runs before and after an edit, as one list.

export type Fate = "same" | "gone" | "new";

/** Two lists of fire times as one, as far as both of them look ahead; `full` is how many a list that goes on has. */
export function mergeTimes(before: string[], after: string[], full: number): [string, Fate][] {
  const ends = [before, after].flatMap((times) => (times.length >= full ? [Date.parse(times[times.length - 1] ?? "")] : []));
  const end = ends.length > 0 ? Math.min(...ends) : Infinity;
  const all = [...new Set([...before, ...after])].filter((time) => Date.parse(time) <= end);
  const fate = (time: string): Fate => (!after.includes(time) ? "gone" : !before.includes(time) ? "new" : "same");
  return all.sort((a, b) => Date.parse(a) - Date.parse(b)).map((time) => [time, fate(time)]);
}
