// The keys, told.
import { Fragment } from "react";
import { Dialog } from "../parts/Dialog";
import { type Phrase, t } from "../words";
import { PLACES } from "./places";

const KEYS: [string, Phrase][] = [
  ["Ctrl K", "Go to a place, a job or a run"],
  ["/", "Search in the list"],
  ["j / k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["x", "Select the row"],
  ["e", "Edit the job"],
  ["p", "Start or stop the job"],
  ["c", "New job"],
  ["l", "Pause or resume live updates"],
  ["t", "Relative, my zone, the job's zone, UTC"],
  ["?", "This help"],
];

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t("Keyboard")} onClose={onClose}>
      <div className="keys">
        {PLACES.map((place) => (
          <Fragment key={place.path}>
            <span><kbd>g</kbd> <kbd>{place.key}</kbd></span><span>{t(place.name)}</span>
          </Fragment>
        ))}
        {KEYS.map(([key, about]) => (
          <Fragment key={key}>
            <span>{key.split(" ").map((one) => (one === "/" && key !== "/" ? " / " : <kbd key={one}>{one}</kbd>))}</span><span>{t(about)}</span>
          </Fragment>
        ))}
      </div>
    </Dialog>
  );
}
