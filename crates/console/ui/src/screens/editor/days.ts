// Days of the week as windows write them: `mon-fri`, `mon,wed`, `*`.

export const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;
export type Day = (typeof DAYS)[number];

/** The days that a text names, Monday first; none if it cannot be read. */
export function daysOf(text: string): Day[] | null {
  if (text.trim() === "" || text.trim() === "*") return [...DAYS];
  const found = new Set<number>();
  for (const part of text.toLowerCase().split(",")) {
    const [first, last, ...more] = part.trim().split("-").map((name) => DAYS.indexOf(name.trim() as Day));
    if (first === undefined || first < 0 || more.length > 0 || last === -1) return null;
    // A range may go over the end of the week: `sat-mon`.
    for (let day = first; ; day = (day + 1) % 7) {
      found.add(day);
      if (day === (last ?? first)) break;
    }
  }
  return DAYS.filter((_, index) => found.has(index));
}

/** The shortest text for days: three or more in a row become a range. */
export function daysText(days: Day[]): string {
  const chosen = DAYS.map((day) => days.includes(day));
  if (chosen.every(Boolean)) return "*";
  const parts: string[] = [];
  for (let from = 0; from < 7; from += 1) {
    if (!chosen[from]) continue;
    let to = from;
    while (chosen[to + 1]) to += 1;
    const names = DAYS.slice(from, to + 1);
    parts.push(...(names.length > 2 ? [`${names[0]}-${names[names.length - 1]}`] : names));
    from = to;
  }
  return parts.join(",");
}
