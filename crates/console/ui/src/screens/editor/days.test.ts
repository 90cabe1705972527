// Days of the week, from the text of a window to buttons and back.
import { describe, expect, test } from "vitest";
import { DAYS, daysOf, daysText } from "./days";

describe("the days of a window", () => {
  test.each([
    ["mon-fri", ["mon", "tue", "wed", "thu", "fri"]],
    ["sat,sun", ["sat", "sun"]],
    ["Sun, mon-tue", ["mon", "tue", "sun"]],
    ["sat-mon", ["mon", "sat", "sun"]],
    ["wed", ["wed"]],
  ])("are read: %s", (text, days) => expect(daysOf(text)).toEqual(days));

  test("are all of them where none is said", () => {
    expect(daysOf("*")).toEqual([...DAYS]);
    expect(daysOf("")).toEqual([...DAYS]);
  });

  test.each(["monday", "mon-", "1-5", "mon-tue-wed", "mon,,tue"])("are not guessed: %s", (text) => expect(daysOf(text)).toBeNull());

  test("are written as people would, and mean the same when they are read again", () => {
    expect(daysText(["mon", "tue", "wed", "thu", "fri"])).toBe("mon-fri");
    expect(daysText(["sat", "sun"])).toBe("sat,sun");
    expect(daysText(["mon", "wed", "thu", "fri", "sun"])).toBe("mon,wed-fri,sun");
    expect(daysText([...DAYS])).toBe("*");
    for (let set = 1; set < 128; set += 1) {
      const days = DAYS.filter((_, index) => set & (1 << index));
      expect(daysOf(daysText(days))).toEqual(days);
    }
  });
});
