// The difference of two values, as lines of JSON.
import { t } from "../words";
import { lineDiff, sortedJson } from "./merge";

const CONTEXT = 3;

export function Diff({ before, after }: { before: unknown; after: unknown }) {
  const left = before === null ? [] : sortedJson(before).split("\n");
  const lines = lineDiff(left, sortedJson(after).split("\n"));
  const isChange = lines.map((line) => line.kind !== "same");
  if (!isChange.some(Boolean)) return <p className="muted">{t("No difference")}</p>;
  const isNear = (index: number) => isChange.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(Boolean);
  return (
    <div className="diff" role="group" aria-label={t("Difference")} tabIndex={0}>
      {lines.map((line, index) => {
        if (!isNear(index)) return index > 0 && isNear(index - 1) ? <div key={index} className="faint">…</div> : null;
        return <div key={index} className={line.kind === "same" ? "" : `is-${line.kind}`}>{line.text || " "}</div>;
      })}
    </div>
  );
}
