// Instants in text.
import { expect, test } from "vitest";
import { dated, instants } from "./instants";

test("instants are found in a sentence, whatever their offset", () => {
  const told = (text: string) => instants(text).map((part) => (part.isInstant ? `<${part.text}>` : part.text));
  expect(told("ran at 2026-05-05T10:00:00Z, due 2026-05-05T12:00:00.250+02:00.")).toEqual(["ran at ", "<2026-05-05T10:00:00Z>", ", due ", "<2026-05-05T12:00:00.250+02:00>", "."]);
  expect(told("2026-05-05T10:00:00Z")).toEqual(["<2026-05-05T10:00:00Z>"]);
  expect(told("2026-05-05 and 10:00:00 are none")).toEqual(["2026-05-05 and 10:00:00 are none"]);
});

test("what looks like an instant and is none stays as it is", () => {
  expect(instants("at 2026-13-45T10:00:00Z")).toEqual([{ text: "at 2026-13-45T10:00:00Z", isInstant: false }]);
});

test("only the instant at the beginning of a line is written anew", () => {
  const precise = (at: number) => `<${at / 1_000}>`;
  expect(dated("1970-01-01T00:00:05Z began at 1970-01-01T00:00:04Z", precise)).toBe("<5> began at 1970-01-01T00:00:04Z");
  expect(dated("began at 1970-01-01T00:00:04Z", precise)).toBe("began at 1970-01-01T00:00:04Z");
  expect(dated("", precise)).toBe("");
});
