// Why a run is as it is, in the few words that a row has room for.
import type { Run } from "../../api/types";
import { plain } from "../../parts/ansi";
import { t } from "../../words";

export function reasonOf(run: Run): string {
  const many = run.count && run.count > 1 ? `× ${run.count} ` : "";
  const attempts = run.attempts.length > 1 ? t("{n} attempts", { n: run.attempts.length }) : "";
  return many + [attempts, plain(run.reason)].filter(Boolean).join(" · ");
}
