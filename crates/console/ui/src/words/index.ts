// The console's own words, in the language a person chose. English is the key; a language is a table from it.
import type { Words, zh } from "./zh";

export type Phrase = keyof typeof zh;
export type Language = "en" | "zh";

const CHOSEN = "punctual.language";

let table: Words | null = null;

export function language(): Language {
  const chosen = localStorage.getItem(CHOSEN);
  if (chosen === "en" || chosen === "zh") return chosen;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/** Loads the words, before anything is shown. */
export async function loadWords(): Promise<void> {
  const chosen = language();
  document.documentElement.lang = chosen === "zh" ? "zh-CN" : "en";
  table = chosen === "zh" ? (await import("./zh")).zh : null;
}

export function chooseLanguage(next: Language): void {
  localStorage.setItem(CHOSEN, next);
  location.reload();
}

/** A phrase in the person's language, with `{name}` filled in. */
export function t(phrase: Phrase, values?: Record<string, string | number>): string {
  const text: string = table?.[phrase] ?? phrase;
  if (!values) return text;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** One or many: `{n}` is the number, written as people write it. */
export function many(count: number, one: Phrase, more: Phrase, values: Record<string, string | number> = {}): string {
  return t(count === 1 ? one : more, { n: number(count), ...values });
}

export function number(value: number): string {
  return new Intl.NumberFormat(language() === "zh" ? "zh-CN" : "en").format(value);
}
