// What an edit of a schedule does to the next runs.

/** The first times of a schedule that another does not name, at most `max`. `known` are the first times of the other;
 * about what lies behind the last of them, `isNamed` is asked. */
export async function onlyIn(times: string[], known: string[], isNamed: (time: string) => Promise<boolean>, max: number): Promise<string[]> {
  const last = Math.max(-Infinity, ...known.map((time) => Date.parse(time)));
  const found: string[] = [];
  for (const time of times) {
    if (found.length >= max) break;
    const is = Date.parse(time) <= last ? known.some((one) => Date.parse(one) === Date.parse(time)) : await isNamed(time);
    if (!is) found.push(time);
  }
  return found;
}
