// What is due: the next day by five minutes or the next week by hours, and the seconds in which most is.
import { useState } from "react";
import { Link } from "wouter";
import { type Outlook, type Peak, type Slot, useOutlook } from "../../api/outlook";
import { Bones, Empty } from "../../parts/Empty";
import { Problem, Warning } from "../../parts/Problem";
import { Segments } from "../../parts/Tabs";
import { Screen } from "../../shell/Screen";
import { serverNow } from "../../time/now";
import { iso, myZone, startOf, wall } from "../../time/zone";
import { many, number, t } from "../../words";
import { JOBS_NAMED, unnamed } from "./peaks";

type Range = "24" | "168";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

export default function Forecast() {
  const [range, setRange] = useState<Range>("24");
  const outlook = useOutlook(Number(range));
  const total = outlook.data?.slots.reduce((sum, slot) => sum + slot.count, 0) ?? 0;
  return (
    <Screen
      crumbs={[{ name: t("Forecast") }]}
      actions={<Segments label={t("Range")} options={[["24", t("24 hours")], ["168", t("7 days")]]} chosen={range} onChoose={setRange} />}
    >
      {outlook.error ? <Problem error={outlook.error} retry={() => void outlook.refetch()} /> : null}
      {!outlook.data ? <div className="card"><Bones rows={10} /></div> : total === 0 ? <div className="card"><Empty title={t("Nothing is due in this time")}>{t("Jobs that fire by themselves show up here before they do.")}</Empty></div> : (
        <>
          <section className="card">
            <div className="card-head"><h2>{range === "24" ? t("The next 24 hours, five minutes each") : t("The next 7 days, an hour each")}</h2><span className="aside">{many(total, "{n} run", "{n} runs")} · {myZone()}</span></div>
            <div className="card-body"><Heat outlook={outlook.data} range={range} /></div>
          </section>
          <Busiest slots={outlook.data.busiest} />
          <Waiting days={outlook.data.waiting} />
          {outlook.data.isPartial ? <Warning>{t("There are more jobs than were counted: these are the {n} that are due first.", { n: number(outlook.data.jobs) })}</Warning> : null}
        </>
      )}
    </Screen>
  );
}

/** Sums of slots in a grid: rows of cells of equal length. */
export function grid(slots: Slot[], start: number, rows: number, cells: number, cellMs: number): number[][] {
  const table = Array.from({ length: rows }, () => new Array<number>(cells).fill(0));
  for (const slot of slots) {
    const index = Math.floor((slot.at - start) / cellMs);
    const row = table[Math.floor(index / cells)];
    if (index >= 0 && row) row[index % cells] = (row[index % cells] ?? 0) + slot.count;
  }
  return table;
}

/** How dark a cell is, from 1 to 4, between the least and the most of those that have anything. */
export function levelOf(count: number, least: number, most: number): number {
  if (count === 0) return 0;
  if (least >= most * 0.75) return 2;
  return 1 + Math.max(0, Math.min(3, Math.floor((4 * (count - least)) / (most - least))));
}

function Heat({ outlook, range }: { outlook: Outlook; range: Range }) {
  const zone = myZone();
  const isDay = range === "24";
  const [rows, cells, cellMs] = isDay ? [25, 12, 5 * MINUTE] : [8, 24, HOUR];
  const start = startOf(isDay ? "hour" : "day", serverNow(), zone);
  const table = grid(outlook.slots, start, rows, cells, cellMs);
  const busy = table.flat().filter((count) => count > 0);
  // The cells at both ends are only partly inside the range, so the least of all says little.
  const [least, most] = [[...busy].sort((a, b) => a - b)[Math.floor(busy.length / 20)] ?? 0, Math.max(1, ...busy)];
  const nowIndex = Math.floor((serverNow() - start) / cellMs);
  return (
    <div className="heat-scroll" tabIndex={0} role="group" aria-label={t("Forecast")}>
      <div className="heat" style={{ "--cells": cells, minWidth: isDay ? 300 : 520 } as React.CSSProperties}>
        {table.map((row, index) => {
          const at = start + index * cells * cellMs;
          const shown = wall(at, zone);
          return (
            <div key={at} className="heat-row">
              <span>{isDay ? `${shown.weekday} ${shown.time.slice(0, 5)}` : `${shown.weekday} ${shown.date.slice(5)}`}</span>
              {row.map((count, cell) => {
                const from = at + cell * cellMs;
                const label = `${iso(from, zone)} · ${many(count, "{n} run", "{n} runs")}`;
                const level = levelOf(count, least, most);
                return <span key={cell} className={index * cells + cell === nowIndex ? "heat-cell is-plain is-now" : "heat-cell is-plain"} data-level={level} title={label}>{isDay && count > 0 ? number(count) : ""}</span>;
              })}
            </div>
          );
        })}
        <div className="heat-row" aria-hidden="true"><span />{Array.from({ length: cells }, (_, cell) => <span key={cell}>{isDay ? `:${String(cell * 5).padStart(2, "0")}` : cell % 6 === 0 ? String(cell).padStart(2, "0") : ""}</span>)}</div>
      </div>
      <p className="unseen">{t("The greatest cell has {n} runs.", { n: number(most) })}</p>
    </div>
  );
}

function Busiest({ slots }: { slots: Peak[] }) {
  const most = slots[0]?.count ?? 1;
  if (slots.length === 0) return null;
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Busiest seconds")}</h2></div>
      <div className="table-box" tabIndex={0} role="group" aria-label={t("Busiest seconds")}>
        <table>
          <thead><tr><th scope="col">{t("Second")}</th><th scope="col" className="number">{t("Runs")}</th><th scope="col" style={{ width: "20%" }}><span className="unseen">{t("Share")}</span></th><th scope="col">{t("Jobs")}</th></tr></thead>
          <tbody>
            {slots.map((slot) => (
              <tr key={slot.at}><td className="mono nowrap">{iso(slot.at, myZone())}</td><td className="number">{number(slot.count)}</td><td><i className="bar" style={{ width: `${(100 * slot.count) / most}%` }} /></td><td className="told">{slot.jobs.slice(0, JOBS_NAMED).map((job) => <Link key={job.id} href={`/jobs/${job.id}`} className="link named">{job.name}{job.count > 1 ? ` × ${number(job.count)}` : ""}</Link>)}{unnamed(slot) > 0 ? <span className="named muted">+{number(unnamed(slot))}</span> : null}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** One-shots that programs handed over for later days. */
function Waiting({ days }: { days: Outlook["waiting"] }) {
  const most = Math.max(1, ...days.map((one) => one.count));
  if (days.length === 0) return null;
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Handed over for later")}</h2></div>
      <div className="table-box" tabIndex={0} role="group" aria-label={t("Handed over for later")}>
        <table>
          <thead><tr><th scope="col">{t("Day")}</th><th scope="col" className="number">{t("Runs")}</th><th scope="col" style={{ width: "50%" }}><span className="unseen">{t("Share")}</span></th></tr></thead>
          <tbody>{days.map((one) => <tr key={one.day}><td className="mono nowrap">{one.day}</td><td className="number">{number(one.count)}</td><td><i className="bar" style={{ width: `${(100 * one.count) / most}%` }} /></td></tr>)}</tbody>
        </table>
      </div>
    </section>
  );
}
