// When a job fires next, in its own zone, in mine and in UTC, with a mark where the clocks are changed in between.
import { useNext } from "../../api/queries";
import type { Job } from "../../api/types";
import { Bones, Empty } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { distance } from "../../time/Time";
import { useNow } from "../../time/now";
import { clockChange, isZone, myZone, wall } from "../../time/zone";
import { t } from "../../words";
import { zoneOf } from "./schedule";

const COUNT = 10;

export function NextRuns({ job }: { job: Job }) {
  const next = useNext(job.id, COUNT);
  if (next.error) return <div className="card-body"><Problem error={next.error} /></div>;
  if (!next.data) return <Bones rows={COUNT} height={28} />;
  if (next.data.fire_times.length === 0) {
    const about = job.schedule.kind === "manual" ? t("It runs only when asked.") : job.schedule.kind === "delay" ? t("The next time is known when the present run has ended.") : t("Its schedule names no further instant.");
    return <Empty title={t("No fire time ahead")}>{about}</Empty>;
  }
  return <FireTimes times={next.data.fire_times} zone={zoneOf(job)} isFaint={!job.enabled} />;
}

/** A mark for a change of the clocks between two fire times. */
export function changeMark(before: number | undefined, at: number, zone: string): string {
  const minutes = before === undefined ? 0 : clockChange(before, at, zone);
  if (minutes === 0) return "";
  return minutes > 0 ? t("clocks go forward {n} min before this", { n: minutes }) : t("clocks go back {n} min before this", { n: -minutes });
}

/** The same in a few signs: `+60 min`. */
export function changeSign(before: number | undefined, at: number, zone: string): string {
  const minutes = before === undefined ? 0 : clockChange(before, at, zone);
  return `${minutes > 0 ? "+" : "−"}${Math.abs(minutes)} min`;
}

function FireTimes({ times, zone, isFaint }: { times: string[]; zone: string | undefined; isFaint: boolean }) {
  const now = useNow();
  const zones = [zone, myZone(), "UTC"].filter((one, index, all): one is string => !!one && isZone(one) && all.indexOf(one) === index);
  const instants = times.map((time) => Date.parse(time));
  return (
    <div className="table-box" tabIndex={0} role="group" aria-label={t("Next runs")}>
      <table className={isFaint ? "muted" : ""}>
        <thead><tr>{zones.map((one) => <th key={one} scope="col">{one}</th>)}<th scope="col" className="number">{isFaint ? t("if it were started") : ""}<span className="unseen">{t("Time left")}</span></th></tr></thead>
        <tbody>
          {instants.map((at, index) => (
            <tr key={at}>
              {zones.map((one) => {
                const shown = wall(at, one);
                const mark = changeMark(instants[index - 1], at, one);
                return (
                  <td key={one} className="nowrap">
                    <span className="muted">{shown.weekday} {shown.date.slice(5)}</span> {shown.time}
                    {mark ? <span className="warn" title={mark} role="img" aria-label={mark}> ⇅</span> : null}
                  </td>
                );
              })}
              <td className="number muted nowrap">{distance(at, now)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
