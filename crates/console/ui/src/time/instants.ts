// Instants inside text: sentences and log lines of the server have them as RFC 3339 writes them.

const INSTANT = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)/g;

export interface Part {
  text: string;
  isInstant: boolean;
}

/** A text, cut into the instants in it and what is between them. */
export function instants(text: string): Part[] {
  const parts: Part[] = [];
  let at = 0;
  for (const found of text.matchAll(INSTANT)) {
    if (!Number.isFinite(Date.parse(found[0]))) continue;
    parts.push({ text: text.slice(at, found.index), isInstant: false }, { text: found[0], isInstant: true });
    at = found.index + found[0].length;
  }
  return [...parts, { text: text.slice(at), isInstant: false }].filter((part) => part.text !== "");
}

/** The longest that an instant may be. */
const LONGEST = 35;

/** A line with the instant at its beginning, if it has one there, written by `precise`. What a program wrote into the rest
 * of the line stays as it is. */
export function dated(line: string, precise: (at: number) => string): string {
  const [first] = instants(line.slice(0, LONGEST));
  return first?.isInstant ? precise(Date.parse(first.text)) + line.slice(first.text.length) : line;
}
