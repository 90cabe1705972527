// When the page loads itself anew.
import { expect, test } from "vitest";
import { isOther, mayReload } from "./later";

test("the page loads itself anew once, and again only after a while", () => {
  expect(mayReload(0, 1_800_000_000_000)).toBe(true);
  expect(mayReload(1_800_000_000_000, 1_800_000_001_000)).toBe(false);
  expect(mayReload(1_800_000_000_000, 1_800_000_060_000)).toBe(true);
  expect(mayReload(1_800_000_000_000, 1_700_000_000_000)).toBe(true);
});

test("another console is known by its script, and an answer that is no console is none", () => {
  const page = (name: string) => `<!doctype html><script type="module" crossorigin src="/assets/${name}.js"></script>`;
  expect(isOther(page("index-a"), "/assets/index-a.js")).toBe(false);
  expect(isOther(page("index-b"), "/assets/index-a.js")).toBe(true);
  expect(isOther("", "/assets/index-a.js")).toBe(false);
  expect(isOther("<h1>502 Bad Gateway</h1>", "/assets/index-a.js")).toBe(false);
});
