// Instants as people read them in a zone: wall time, offset, and whether the clocks were changed in between.

/** A wall time with everything that tells it from others. */
export interface Wall {
  date: string;
  time: string;
  millis: string;
  /** Minutes east of UTC. */
  offset: number;
  weekday: string;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string): Intl.DateTimeFormat {
  let found = formats.get(zone);
  if (!found) {
    found = new Intl.DateTimeFormat("en-CA", {
      timeZone: zone, hourCycle: "h23", weekday: "short", year: "numeric", month: "2-digit", day: "2-digit",
      hour: "2-digit", minute: "2-digit", second: "2-digit", era: "short",
    });
    formats.set(zone, found);
  }
  return found;
}

/** Whether the browser knows a zone. */
export function isZone(zone: string): boolean {
  try {
    format(zone);
    return true;
  } catch {
    return false;
  }
}

export function myZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

export function wall(at: number, zone: string): Wall {
  const parts: Record<string, string> = {};
  for (const part of format(zone).formatToParts(at)) parts[part.type] = part.value;
  const [year, month, day] = [parts.year ?? "0000", parts.month ?? "01", parts.day ?? "01"];
  const [hour, minute, second] = [parts.hour ?? "00", parts.minute ?? "00", parts.second ?? "00"];
  const asUtc = Date.UTC(+year, +month - 1, +day, +hour, +minute, +second);
  const whole = Math.floor(at / 1_000) * 1_000;
  return {
    date: `${year.padStart(4, "0")}-${month}-${day}`,
    time: `${hour}:${minute}:${second}`,
    millis: String(((at % 1_000) + 1_000) % 1_000).padStart(3, "0"),
    offset: Math.round((asUtc - whole) / 60_000),
    weekday: parts.weekday ?? "",
  };
}

/** An offset as ISO 8601 writes it. */
export function offsetText(minutes: number): string {
  if (minutes === 0) return "Z";
  const [sign, size] = [minutes < 0 ? "-" : "+", Math.abs(minutes)];
  return `${sign}${String(Math.floor(size / 60)).padStart(2, "0")}:${String(size % 60).padStart(2, "0")}`;
}

/** An instant for copying: ISO 8601 with its offset. */
export function iso(at: number, zone: string): string {
  const shown = wall(at, zone);
  const millis = shown.millis === "000" ? "" : `.${shown.millis}`;
  return `${shown.date}T${shown.time}${millis}${offsetText(shown.offset)}`;
}

/** A change of the clocks between two instants that follow each other: how many minutes they jumped; 0 for none. */
export function clockChange(before: number, after: number, zone: string): number {
  return wall(after, zone).offset - wall(before, zone).offset;
}

/** The first instant of the hour or day that an instant is in, in a zone. */
export function startOf(unit: "hour" | "day", at: number, zone: string): number {
  const shown = wall(at, zone);
  const [hour, minute, second] = shown.time.split(":").map(Number) as [number, number, number];
  const inHour = (minute * 60 + second) * 1_000 + (((at % 1_000) + 1_000) % 1_000);
  if (unit === "hour") return at - inHour;
  const guess = at - inHour - hour * 3_600_000;
  // The day may have been longer or shorter than its hours say.
  const change = wall(at, zone).offset - wall(guess, zone).offset;
  return guess + change * 60_000;
}
