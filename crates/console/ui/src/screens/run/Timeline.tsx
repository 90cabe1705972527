// A run's time as one bar, with a list that names each piece of it.
import { Fragment } from "react";
import type { Run } from "../../api/types";
import { useNow } from "../../time/now";
import { Time } from "../../time/Time";
import { length } from "../../time/words";
import { t } from "../../words";
import { shares, timeline } from "./pieces";

export function Timeline({ run, zone }: { run: Run; zone: string | undefined }) {
  const pieces = shares(timeline(run, useNow()));
  if (pieces.length === 0) return <p className="muted">{t("It ended the moment it was due.")}</p>;
  return (
    <div className="gantt">
      <div className="gantt-track" aria-hidden="true">
        {pieces.map((piece, index) => (
          <div key={index} className="gantt-piece" data-kind={piece.kind} style={{ flexGrow: Math.max(piece.share, 0.004), flexBasis: 0 }} title={`${piece.name} · ${length(piece.to - piece.from)}`}>
            {piece.share > 0.09 ? `${piece.isCut ? "⋯ " : ""}${length(piece.to - piece.from)}` : ""}
          </div>
        ))}
      </div>
      <div className="gantt-list">
        {pieces.map((piece, index) => (
          <Fragment key={index}>
            <i data-kind={piece.kind} aria-hidden="true" />
            <span className="cut">{piece.name}{piece.isCut ? <span className="faint small"> {t("(drawn shorter)")}</span> : null}</span>
            <span className="muted hide-small"><Time at={new Date(piece.from).toISOString()} zone={zone} precise /></span>
            <span className="right">{length(piece.to - piece.from)}{piece.isOpen ? "…" : ""}</span>
          </Fragment>
        ))}
      </div>
    </div>
  );
}
