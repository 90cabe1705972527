// Another person saved the job meanwhile: shows their changes and mine, and merges the two.
import type { Job, JobDraft } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Diff } from "../../parts/Diff";
import { Warning } from "../../parts/Problem";
import { t } from "../../words";
import { draftOf } from "../job/schedule";
import { rebase } from "./draft";

export function Conflict(props: { base: JobDraft; mine: JobDraft; theirs: Job; onTake: (next: JobDraft) => void; onClose: () => void }) {
  const theirs = draftOf(props.theirs);
  const { merged, both } = rebase(props.base, props.mine, theirs);
  return (
    <Dialog
      wide title={t("Somebody else saved version {version} meanwhile", { version: props.theirs.version })} onClose={props.onClose}
      foot={
        <>
          <button type="button" className="button" onClick={props.onClose}>{t("Keep writing")}</button>
          <button type="button" className="button" onClick={() => props.onTake(theirs)}>{t("Drop mine, take theirs")}</button>
          <button type="button" className="button is-main" onClick={() => props.onTake(merged)}>{t("Put my changes on top of theirs")}</button>
        </>
      }
    >
      {both.length > 0 ? <Warning>{t("Both of you changed: {fields}. There, mine would win.", { fields: both.join(", ") })}</Warning> : <p className="muted">{t("You changed different fields, so both changes fit together.")}</p>}
      <h3>{t("What they changed")}</h3>
      <Diff before={props.base} after={theirs} />
      <h3>{t("What I would change of theirs")}</h3>
      <Diff before={theirs} after={merged} />
      <p className="muted">{t("Nothing is saved by this; you can look it over and save then.")}</p>
    </Dialog>
  );
}
