// Colours of terminals, as classes of text. Whatever else a log tries to tell a terminal is left out.

export interface Span {
  text: string;
  classes: string;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that terminals obey
const ESCAPES = /\u001b(?:\[([0-?]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: and these it would obey alone
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

interface Style {
  colour: number | null;
  ground: number | null;
  marks: Set<string>;
}

/** A line as spans of text, each with the classes of its colours. */
export function ansi(line: string): Span[] {
  const style: Style = { colour: null, ground: null, marks: new Set() };
  const spans: Span[] = [];
  let at = 0;
  const add = (text: string) => {
    const clean = text.replace(CONTROLS, "");
    if (clean) spans.push({ text: clean, classes: classes(style) });
  };
  for (const found of line.matchAll(ESCAPES)) {
    add(line.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[2] === "m") apply(style, (found[1] || "0").split(/[;:]/).map(Number));
  }
  add(line.slice(at));
  return spans;
}

/** A text without colours and whatever else only terminals obey. */
export function plain(text: string): string {
  return text.replace(ESCAPES, "").replace(CONTROLS, "");
}

const MARKS: Record<number, string> = { 1: "bold", 2: "dim", 3: "italic", 4: "underline" };

function apply(style: Style, codes: number[]): void {
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index] ?? 0;
    if (code === 0) Object.assign(style, { colour: null, ground: null, marks: new Set() });
    else if (MARKS[code]) style.marks.add(MARKS[code]);
    else if (code === 22) ["bold", "dim"].forEach((mark) => style.marks.delete(mark));
    else if (code === 23 || code === 24) style.marks.delete(code === 23 ? "italic" : "underline");
    else if (code >= 30 && code <= 37) style.colour = code;
    else if (code >= 90 && code <= 97) style.colour = code - 60;
    else if (code === 39) style.colour = null;
    else if (code >= 40 && code <= 47) style.ground = code;
    else if (code >= 100 && code <= 107) style.ground = code - 60;
    else if (code === 49) style.ground = null;
    else if (code === 38 || code === 48) {
      const colour = codes[index + 1] === 5 ? basic(codes[index + 2] ?? 0) : null;
      if (code === 38) style.colour = colour === null ? null : 30 + colour;
      else style.ground = colour === null ? null : 40 + colour;
      index += codes[index + 1] === 5 ? 2 : 4;
    }
  }
}

/** The basic colour nearest to one of 256. */
function basic(colour: number): number {
  if (colour < 16) return colour % 8;
  if (colour >= 232) return 7;
  const [red, green, blue] = [Math.floor((colour - 16) / 36) > 2, Math.floor((colour - 16) / 6) % 6 > 2, (colour - 16) % 6 > 2];
  return (red ? 1 : 0) + (green ? 2 : 0) + (blue ? 4 : 0);
}

function classes(style: Style): string {
  const marks = [...style.marks].map((mark) => `ansi-${mark}`);
  if (style.colour !== null) marks.push(`ansi-${style.colour}`);
  if (style.ground !== null) marks.push(`ansi-${style.ground}`);
  return marks.join(" ");
}
