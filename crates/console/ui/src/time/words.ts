// Lengths of time as people say them, and as the API writes them.

const UNITS: [string, number][] = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1_000], ["ms", 1]];

/** A length with its two greatest units: `3d 4h`, `1m 05s`, `420ms`. */
export function length(ms: number): string {
  const size = Math.abs(Math.round(ms));
  if (size < 1_000) return `${size}ms`;
  if (size < 10_000) return `${(size / 1_000).toFixed(1)}s`;
  if (size < 60_000) return `${Math.round(size / 1_000)}s`;
  const seconds = Math.floor(size / 1_000);
  const two = (value: number) => String(value).padStart(2, "0");
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m ${two(seconds % 60)}s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h ${two(Math.floor(seconds / 60) % 60)}m`;
  return `${Math.floor(seconds / 86_400)}d ${Math.floor(seconds / 3_600) % 24}h`;
}

/** What is left of a time, in whole seconds, so that it counts without flicker. */
export function left(ms: number): string {
  return ms < 60_000 ? `${Math.floor(ms / 1_000)}s` : length(ms);
}

/** A length with one unit, for places that have no room: `3d`, `4h`, `12s`. */
export function brief(ms: number): string {
  const size = Math.abs(ms);
  if (size < 1_000) return `${Math.round(size)}ms`;
  if (size < 60_000) return `${Math.floor(size / 1_000)}s`;
  if (size < 3_600_000) return `${Math.floor(size / 60_000)}m`;
  if (size < 172_800_000) return `${Math.floor(size / 3_600_000)}h`;
  return `${Math.floor(size / 86_400_000)}d`;
}

/** The milliseconds of a span such as `1h30m`; none if it is not one. */
export function span(text: string): number | null {
  const pattern = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/gy;
  let [total, end] = [0, 0];
  const trimmed = text.trim();
  for (let found = pattern.exec(trimmed); found; found = pattern.exec(trimmed)) {
    const unit = UNITS.find(([name]) => name === found?.[2]);
    total += Number(found[1]) * (unit?.[1] ?? 0);
    end = pattern.lastIndex;
  }
  return end > 0 && end === trimmed.length ? total : null;
}

/** Bytes as people say them. */
export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let [size, unit] = [count, 0];
  while (size >= 1_024 && unit < units.length - 1) [size, unit] = [size / 1_024, unit + 1];
  return `${size >= 10 || unit === 0 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** The value below which this share of the sorted values lies. */
export function percentile(sorted: number[], share: number): number | null {
  if (sorted.length === 0) return null;
  const index = Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1);
  return sorted[Math.max(0, index)] ?? null;
}
