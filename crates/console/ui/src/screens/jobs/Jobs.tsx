// All jobs: found at once, looked over, acted upon, one or all that a filter names.
import { Pencil, Play, Plus, X } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { useJobActions } from "../../api/actions";
import { useApps, useFirstJobs, useJobs } from "../../api/queries";
import { useMay } from "../../api/session";
import type { Job } from "../../api/types";
import { Bones } from "../../parts/Empty";
import { useFilter } from "../../parts/filter";
import { Cell, Head, List } from "../../parts/List";
import { Problem } from "../../parts/Problem";
import { SearchBox } from "../../parts/SearchBox";
import { useSeeking } from "../../parts/seeking";
import { Sparkline } from "../../parts/Sparkline";
import { StateShape, stateName } from "../../parts/State";
import { useIsUnder } from "../../parts/width";
import { Screen } from "../../shell/Screen";
import { density } from "../../shell/theme";
import { Countdown, Time } from "../../time/Time";
import { length } from "../../time/words";
import { type Phrase, number, t } from "../../words";
import { zoneOf } from "../job/schedule";
import { BulkBar, type Selection, noSelection } from "./Bulk";
import { NoJobs } from "./NoJobs";

const NAMES = ["q", "app", "tag", "enabled", "failing", "stopped"] as const;
const COLUMNS = "18px 16px minmax(180px, 3fr) minmax(140px, 2fr) minmax(90px, 144px) 74px 84px 104px 96px";
/** Where there is less room, durations and tags go first, then the recent runs and the last of them. */
const COLUMNS_LESS = "18px 16px minmax(180px, 3fr) minmax(140px, 2fr) minmax(90px, 144px) 74px 84px 96px";
const COLUMNS_LEAST = "18px 16px minmax(150px, 3fr) minmax(110px, 2fr) 84px 96px";
const COLUMNS_SMALL = "16px minmax(0, 1fr) auto";

type Room = "all" | "less" | "least";

export default function Jobs() {
  const [filter, setFilter, clear] = useFilter(NAMES);
  const [selection, setSelection] = useState<Selection>(noSelection);
  const [, navigate] = useLocation();
  const jobs = useJobs(filter);
  const mayOperate = useMay("operator");
  const mayEdit = useMay("editor");
  const actions = useJobActions();
  const items = useMemo(() => jobs.data?.pages.flatMap((page) => page.items) ?? [], [jobs.data]);
  const isSeeking = useSeeking(jobs, items.length);
  const isFiltered = NAMES.some((name) => filter[name] !== "");
  const isSmall = useIsUnder(820);
  const [isLess, isLeast] = [useIsUnder(1_340), useIsUnder(1_070)];
  const room: Room = isLeast ? "least" : isLess ? "less" : "all";
  const more = useCallback(() => void jobs.fetchNextPage(), [jobs.fetchNextPage]);
  const pick = (id: number) => setSelection((before) => {
    const ids = new Set(before.ids);
    if (!ids.delete(id)) ids.add(id);
    return { ids, isAll: false };
  });
  const isPicked = (job: Job) => selection.isAll || selection.ids.has(job.id);
  const isEveryPicked = items.length > 0 && items.every(isPicked);
  const pickEvery = () => setSelection(isEveryPicked ? noSelection : { ids: new Set(items.map((job) => job.id)), isAll: false });
  const counted = useFirstJobs(filter, 1);
  return (
    <Screen
      crumbs={[{ name: t("Jobs") }]}
      heading={<>{t("Jobs")} <span className="muted">{counted.data?.total === undefined ? "" : number(counted.data.total)}</span></>}
      actions={mayEdit ? <Link href="/jobs/new" className="button is-main"><Plus aria-hidden="true" />{t("New job")}</Link> : null}
    >
      <Filters filter={filter} setFilter={setFilter} clear={clear} isFiltered={isFiltered} />
      {jobs.error ? <Problem error={jobs.error} retry={() => void jobs.refetch()} /> : null}
      {(jobs.isPending || isSeeking) && !jobs.error ? <div className="card"><Bones rows={12} /></div> : null}
      {jobs.data && items.length === 0 && !isSeeking ? <div className="card"><NoJobs isFiltered={isFiltered} clear={clear} /></div> : null}
      {items.length > 0 ? (
        <List
          label={t("Jobs")} items={items} columns={isSmall ? COLUMNS_SMALL : { all: COLUMNS, less: COLUMNS_LESS, least: COLUMNS_LEAST }[room]} height={isSmall ? 64 : density() === "dense" ? 34 : 44}
          head={<>
            <Head>{mayOperate ? <input type="checkbox" checked={isEveryPicked} onChange={pickEvery} aria-label={t("Select all that are shown")} /> : null}</Head>
            <Head><span className="unseen">{t("State")}</span></Head><Head>{t("Job")}</Head><Head>{t("Schedule")}</Head>
            {room === "least" ? null : <><Head>{t("Recent runs")}</Head><Head className="number">{t("Last")}</Head></>}
            <Head className="number">{t("Next")}</Head>{room === "all" ? <Head className="number">p50 / p95</Head> : null}<Head><span className="unseen">{t("Actions")}</span></Head>
          </>}
          rowKey={(job) => job.id}
          rowClass={(job) => (isPicked(job) ? "is-selected" : "")}
          row={(job) => (isSmall ? <SmallRow job={job} /> : <Row job={job} room={room} isPicked={isPicked(job)} pick={mayOperate ? pick : null} />)}
          onOpen={(job) => navigate(`/jobs/${job.id}`)}
          keys={(job) => ({
            ...(mayOperate ? { x: () => pick(job.id), p: () => void actions.toggle(job) } : {}),
            ...(mayEdit ? { e: () => navigate(`/jobs/${job.id}/edit`) } : {}),
          })}
          hasMore={jobs.hasNextPage} more={more} isLoading={jobs.isFetchingNextPage}
        />
      ) : null}
      {mayOperate ? <BulkBar selection={selection} setSelection={setSelection} filter={filter} hasMore={jobs.hasNextPage} /> : null}
    </Screen>
  );
}

const STATES: [string, Phrase][] = [["", "All jobs"], ["true", "Firing"], ["false", "Stopped"], ["failing", "Failing"], ["stopped", "Stopped by the server"]];

function stateIn(filter: Record<(typeof NAMES)[number], string>): string {
  return filter.failing ? "failing" : filter.stopped ? "stopped" : filter.enabled;
}

function Filters(props: { filter: Record<(typeof NAMES)[number], string>; setFilter: (name: (typeof NAMES)[number], value: string) => void; clear: () => void; isFiltered: boolean }) {
  const { filter, setFilter } = props;
  const apps = useApps();
  const search = useCallback((value: string) => setFilter("q", value), [setFilter]);
  const setState = (state: string) => {
    setFilter("enabled", state === "true" || state === "false" ? state : "");
    setFilter("failing", state === "failing" ? "true" : "");
    setFilter("stopped", state === "stopped" ? "true" : "");
  };
  return (
    <div className="filters">
      <SearchBox value={filter.q} onChange={search} label={t("Search name or description")} />
      <select className="select" value={filter.app} onChange={(event) => setFilter("app", event.target.value)} aria-label={t("App")}>
        <option value="">{t("All apps")}</option>
        {apps.data?.items.map((app) => <option key={app.name} value={app.name}>{app.name}</option>)}
      </select>
      <select className="select" value={stateIn(filter)} onChange={(event) => setState(event.target.value)} aria-label={t("State")}>
        {STATES.map(([state, name]) => <option key={state} value={state}>{t(name)}</option>)}
      </select>
      {filter.tag ? (
        <span className="chip is-removable"><span className="cut">{t("Tag")}: {filter.tag}</span>
          <button type="button" onClick={() => setFilter("tag", "")} aria-label={t("Remove filter")}><X /></button>
        </span>
      ) : null}
      {props.isFiltered ? <button type="button" className="button is-plain" onClick={props.clear}>{t("Clear")}</button> : null}
    </div>
  );
}

function stateOf(job: Job): [string, string] {
  if (!job.enabled) return ["stopped", `${stateName("stopped")}: ${job.stopped_reason ?? ""}`];
  return job.last_status ? [job.last_status, stateName(job.last_status)] : ["pending", t("No runs yet")];
}

function Row({ job, room, isPicked, pick }: { job: Job; room: Room; isPicked: boolean; pick: ((id: number) => void) | null }) {
  const [state, label] = stateOf(job);
  const recent = job.recent ?? [];
  const [p50, p95] = [job.duration_p50_ms ?? null, job.duration_p95_ms ?? null];
  return (
    <>
      <Cell>{pick ? <input type="checkbox" checked={isPicked} onChange={() => pick(job.id)} aria-label={t("Select {name}", { name: job.name })} /> : null}</Cell>
      <Cell><StateShape state={state} label={label} /></Cell>
      <Cell className="row-main">
        <Link href={`/jobs/${job.id}`} className="cut name" title={job.name}>{job.name}</Link>
        <Link href={`/jobs?app=${encodeURIComponent(job.app)}`} className="chip" title={t("App")}><span className="cut">{job.app}</span></Link>
        {job.tags.slice(0, room === "all" ? 2 : 0).map((tag) => <Link key={tag} href={`/jobs?tag=${encodeURIComponent(tag)}`} className="faint small cut">#{tag}</Link>)}
      </Cell>
      <Cell><ScheduleWords job={job} /></Cell>
      {room === "least" ? null : (
        <>
          <Cell><Link href={`/runs?job=${job.id}`} aria-label={t("Runs of {name}", { name: job.name })}><Sparkline recent={recent} /></Link></Cell>
          <Cell className="number muted"><Time at={recent[recent.length - 1]?.at} zone={zoneOf(job)} /></Cell>
        </>
      )}
      <Cell className="number">{job.enabled ? <Countdown at={job.next_fire_time} /> : <span className="faint">–</span>}</Cell>
      {room === "all" ? <Cell className="number muted small">{p50 === null || p95 === null ? "–" : `${length(p50)} / ${length(p95)}`}</Cell> : null}
      <Cell className="row-actions"><RowActions job={job} /></Cell>
    </>
  );
}

function SmallRow({ job }: { job: Job }) {
  const [state, label] = stateOf(job);
  return (
    <>
      <Cell><StateShape state={state} label={label} /></Cell>
      <Cell>
        <Link href={`/jobs/${job.id}`} className="cut strong" style={{ display: "block" }}>{job.name}</Link>
        <div className="small muted cut">{job.app} · <ScheduleWords job={job} isInline /></div>
      </Cell>
      <Cell className="row-actions"><span className="small muted">{job.enabled ? <Countdown at={job.next_fire_time} /> : "–"}</span><RowActions job={job} /></Cell>
    </>
  );
}

function RowActions({ job }: { job: Job }) {
  const mayOperate = useMay("operator");
  const mayEdit = useMay("editor");
  const actions = useJobActions();
  if (!mayOperate) return null;
  return (
    <>
      <button type="button" className="button is-plain is-square is-small" onClick={() => void actions.run(job)} aria-label={t("Run {name} now", { name: job.name })} title={t("Run now")}><Play /></button>
      {mayEdit ? <Link href={`/jobs/${job.id}/edit`} className="button is-plain is-square is-small hide-small" aria-label={t("Edit {name}", { name: job.name })} title={t("Edit")}><Pencil /></Link> : null}
      <button type="button" role="switch" aria-checked={job.enabled} className="switch" onClick={() => void actions.toggle(job)} aria-label={t("{name} fires by itself", { name: job.name })} />
    </>
  );
}

export function ScheduleWords({ job, isInline = false }: { job: Job; isInline?: boolean }) {
  const raw = job.schedule.kind === "cron" ? job.schedule.expression : JSON.stringify(job.schedule);
  const text = job.in_words ?? raw;
  return isInline ? <>{text.replace(/, counted from .*$/, "")}</> : <div className="cut small muted" title={`${text}\n${raw}`}>{text.replace(/, counted from .*$/, "") || raw}</div>;
}
