// Runs as a list: when, of which job, how it went, how late and how long.
import { useCallback, useMemo } from "react";
import { Link, useLocation } from "wouter";
import { type RunFilter, useRuns } from "../../api/queries";
import { stateOf } from "../../api/live";
import type { Run } from "../../api/types";
import { plain } from "../../parts/ansi";
import { Bones, Empty } from "../../parts/Empty";
import { Cell, Head, List } from "../../parts/List";
import { Problem, Warning } from "../../parts/Problem";
import { useSeeking } from "../../parts/seeking";
import { took } from "../../parts/Sparkline";
import { State, StateShape, stateName } from "../../parts/State";
import { useIsUnder } from "../../parts/width";
import { density } from "../../shell/theme";
import { Time } from "../../time/Time";
import { length } from "../../time/words";
import { type Phrase, t } from "../../words";
import { inOrder, stretches } from "./bounded";
import { reasonOf } from "./reason";

const COLUMNS = "104px minmax(140px, 2fr) minmax(110px, 1fr) 90px 74px 74px minmax(120px, 3fr)";
const COLUMNS_ONE = "104px 150px minmax(110px, 1fr) 90px 74px 74px minmax(120px, 3fr)";
/** Where there is less room, the origin and how long it took give way. */
const COLUMNS_LESS = "104px minmax(120px, 3fr) minmax(110px, 1fr) 74px minmax(80px, 3fr)";
const COLUMNS_SMALL = "16px minmax(0, 1fr) auto";

/** Pages of what is ahead are larger: only what is loaded can be put in order. */
const AHEAD_PAGE = 500;

export const ORIGINS: Record<Run["origin"], Phrase> = {
  schedule: "by schedule", manual: "by hand", one_shot: "handed over", backfill: "backfill", retry: "run again", parent: "after a job", part: "part of a broadcast",
};

export function RunTable({ filter, isAhead = false, isOfOneJob = false, zone, empty }: { filter: RunFilter; isAhead?: boolean; isOfOneJob?: boolean; zone?: string | undefined; empty?: React.ReactNode }) {
  const runs = useRuns(isAhead ? stretches(filter) : [filter], isAhead ? AHEAD_PAGE : undefined);
  const [, navigate] = useLocation();
  const found = useMemo(() => runs.data?.pages.flatMap((page) => page.items) ?? [], [runs.data]);
  const items = useMemo(() => (isAhead ? inOrder(found) : found), [found, isAhead]);
  // A stretch of which only the first pages are there lacks runs between those that are shown.
  const isPartial = isAhead && !!runs.data?.pages.at(-1)?.next_cursor;
  const more = useCallback(() => void runs.fetchNextPage(), [runs.fetchNextPage]);
  const isSeeking = useSeeking(runs, items.length);
  const [isSmall, isLess] = [useIsUnder(820), useIsUnder(1_070)];
  if (runs.error && items.length === 0) return <Problem error={runs.error} retry={() => void runs.refetch()} />;
  if (runs.isPending || isSeeking) return <div className="card"><Bones rows={12} /></div>;
  if (items.length === 0) return <div className="card">{empty ?? <Empty title={t("No runs yet")}>{t("A run appears here shortly before it is due.")}</Empty>}</div>;
  return (
    <>
      {isPartial ? <Warning>{t("There are more runs than are shown so far; they are in order among those that are loaded. Choose an app, a job or a time to see all of them in order.")}</Warning> : null}
      <List
        label={t("Runs")} items={items} columns={isSmall ? COLUMNS_SMALL : isLess ? COLUMNS_LESS : isOfOneJob ? COLUMNS_ONE : COLUMNS} height={isSmall ? 58 : density() === "dense" ? 30 : 38}
        head={<>
          <Head>{t("State")}</Head><Head>{isOfOneJob ? t("Run") : t("Job")}</Head><Head>{t("Fire time")}</Head>{isLess ? null : <Head>{t("Origin")}</Head>}<Head className="number">{t("Late")}</Head>{isLess ? null : <Head className="number">{t("Took")}</Head>}<Head className="after-number">{t("Reason")}</Head>
        </>}
        rowKey={(run) => run.id}
        row={(run) => (isSmall ? <SmallRow run={run} zone={zone} isOfOneJob={isOfOneJob} /> : <Row run={run} zone={zone} isOfOneJob={isOfOneJob} isLess={isLess} />)}
        onOpen={(run) => navigate(`/runs/${run.id}`)}
        hasMore={runs.hasNextPage} more={more} isLoading={runs.isFetchingNextPage} above={isPartial}
      />
    </>
  );
}

interface Shown {
  run: Run;
  zone: string | undefined;
  isOfOneJob: boolean;
}

function Row({ run, zone, isOfOneJob, isLess }: Shown & { isLess: boolean }) {
  const ms = took(run);
  return (
    <>
      <Cell><Link href={`/runs/${run.id}`} aria-label={`${stateName(stateOf(run))}, ${t("Run {id}", { id: run.id })}`}><State state={stateOf(run)} /></Link></Cell>
      <Cell className="row-main">{isOfOneJob ? <Link href={`/runs/${run.id}`} className="mono">{run.id}</Link> : <JobName run={run} />}</Cell>
      <Cell className="muted"><Time at={run.fire_time} zone={zone} /></Cell>
      {isLess ? null : <Cell className="muted small cut">{t(ORIGINS[run.origin])}</Cell>}
      <Cell className={`number small ${(run.lag_ms ?? 0) >= 1_000 ? "warn" : "muted"}`}>{run.lag_ms === null ? "–" : length(run.lag_ms)}</Cell>
      {isLess ? null : <Cell className="number muted small">{ms === null ? "–" : length(ms)}</Cell>}
      <Cell className="muted small cut after-number"><span title={plain(run.reason)}>{reasonOf(run)}</span></Cell>
    </>
  );
}

function SmallRow({ run, zone, isOfOneJob }: Shown) {
  const ms = took(run);
  return (
    <>
      <Cell><StateShape state={stateOf(run)} /></Cell>
      <Cell>
        <div className="row-main">{isOfOneJob ? <Link href={`/runs/${run.id}`} className="mono">{run.id}</Link> : <JobName run={run} />}</div>
        <div className="small muted cut">{reasonOf(run) || t(ORIGINS[run.origin])}</div>
      </Cell>
      <Cell className="right small muted"><Time at={run.fire_time} zone={zone} /><div>{ms === null ? "–" : length(ms)}</div></Cell>
    </>
  );
}

/** The name of a run's job; its number where the job is long gone. */
function JobName({ run }: { run: Run }) {
  return (
    <>
      <Link href={`/runs/${run.id}`} className="cut name" title={run.job_name ?? undefined}>{run.job_name ?? t("job {id}, deleted", { id: run.job })}</Link>
      {run.app ? <span className="faint small cut">{run.app}</span> : null}
    </>
  );
}
