// All runs, filtered by what stands in the address.
import { useQueryClient } from "@tanstack/react-query";
import { CircleStop, X } from "lucide-react";
import { useState } from "react";
import { change } from "../../api/client";
import { type RunFilter, useApps, useJob } from "../../api/queries";
import { useMay } from "../../api/session";
import { RUN_STATES } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Empty } from "../../parts/Empty";
import { useFilter } from "../../parts/filter";
import { Problem } from "../../parts/Problem";
import { SearchBox } from "../../parts/SearchBox";
import { stateName } from "../../parts/State";
import { Segments } from "../../parts/Tabs";
import { say } from "../../parts/Toasts";
import { Screen } from "../../shell/Screen";
import { useNow } from "../../time/now";
import { many, number, t } from "../../words";
import { ANY, bounded } from "./bounded";
import { RunTable } from "./RunTable";

const NAMES = ["state", "app", "job", "from", "to", "key"] as const;
const OPEN = ["pending", "running", "retrying"];

export default function Runs() {
  const [filter, setFilter, clear] = useFilter(NAMES);
  const [{ when }, setWhen] = useFilter(["when"] as const);
  const isAhead = when === "ahead";
  const shown = bounded(filter, isAhead ? "ahead" : "past", useNow());
  const [isCancelling, setCancelling] = useState(false);
  const apps = useApps();
  const mayOperate = useMay("operator");
  const isFiltered = NAMES.some((name) => filter[name] !== "");
  const canCancel = mayOperate && isFiltered && (filter.state === "" || filter.state === ANY || OPEN.includes(filter.state));
  return (
    <Screen
      crumbs={[{ name: t("Runs") }]}
      actions={canCancel ? <button type="button" className="button is-danger" onClick={() => setCancelling(true)}><CircleStop aria-hidden="true" />{t("Cancel what matches")}</button> : null}
    >
      <div className="filters">
        <Segments label={t("When")} options={[["past", t("Past")], ["ahead", t("Upcoming")]]} chosen={isAhead ? "ahead" : "past"} onChoose={(next) => setWhen("when", next === "ahead" ? next : "")} />
        <SearchBox value={filter.key} onChange={(value) => setFilter("key", value)} label={t("Key, exactly")} />
        <select className="select" value={filter.state} onChange={(event) => setFilter("state", event.target.value)} aria-label={t("State")}>
          {isAhead ? <><option value="">{stateName("pending")}</option><option value={ANY}>{t("All states")}</option></> : <option value="">{t("All states")}</option>}
          {RUN_STATES.filter((state) => !isAhead || state !== "pending").map((state) => <option key={state} value={state}>{stateName(state)}</option>)}
        </select>
        <select className="select" value={filter.app} onChange={(event) => setFilter("app", event.target.value)} aria-label={t("App")}>
          <option value="">{t("All apps")}</option>
          {apps.data?.items.map((app) => <option key={app.name} value={app.name}>{app.name}</option>)}
        </select>
        <TimeField label={t("From, UTC")} value={filter.from} onChange={(value) => setFilter("from", value)} />
        <TimeField label={t("To, UTC")} value={filter.to} onChange={(value) => setFilter("to", value)} />
        {filter.job ? <JobChip job={filter.job} onRemove={() => setFilter("job", "")} /> : null}
        {isFiltered ? <button type="button" className="button is-plain" onClick={clear}>{t("Clear")}</button> : null}
      </div>
      <RunTable
        filter={shown} isAhead={isAhead}
        empty={isFiltered ? <Empty title={t("No run matches")} action={<button type="button" className="button" onClick={clear}>{t("Clear the filter")}</button>} />
          : <Empty title={t("No runs yet")} command="punctual run submit --job app/name">{t("A run appears here shortly before it is due, or when it is handed over.")}</Empty>}
      />
      {isCancelling ? <CancelMany filter={shown} onClose={() => setCancelling(false)} /> : null}
    </Screen>
  );
}

function TimeField({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <input
      className="input hide-small" style={{ width: 176 }} type="datetime-local" aria-label={label} title={label} value={value.replace(/:00Z$/, "")}
      onChange={(event) => onChange(event.target.value ? `${event.target.value}:00Z` : "")}
    />
  );
}

function JobChip({ job, onRemove }: { job: string; onRemove: () => void }) {
  const found = useJob(/^\d+$/.test(job) ? Number(job) : null);
  return (
    <span className="chip is-removable"><span className="cut">{t("Job")}: {found.data?.name ?? job}</span>
      <button type="button" onClick={onRemove} aria-label={t("Remove filter")}><X /></button>
    </span>
  );
}

function CancelMany({ filter, onClose }: { filter: RunFilter; onClose: () => void }) {
  const queries = useQueryClient();
  const [matched, setMatched] = useState<number | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const named = Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
  if (named.job && /^\d+$/.test(named.job)) (named as Record<string, unknown>).job = Number(named.job);
  const ask = async (isDry: boolean) => {
    setBusy(true);
    try {
      const answer = await change<{ matched: number; cancelled: number }>("POST", "/runs/cancel", { filter: named, dry_run: isDry });
      if (isDry) setMatched(answer.matched);
      else {
        say(many(answer.cancelled, "{n} run was cancelled", "{n} runs were cancelled"));
        void queries.invalidateQueries({ queryKey: ["list"] });
        onClose();
      }
    } catch (caught) {
      setError(caught);
    }
    setBusy(false);
  };
  return (
    <Dialog
      title={t("Cancel what matches")} onClose={onClose}
      foot={
        <>
          <button type="button" className="button" onClick={onClose}>{t("Back")}</button>
          {matched === null ? <button type="button" className="button is-main" disabled={isBusy} onClick={() => void ask(true)}>{t("Count")}</button>
            : <button type="button" className="button is-main is-danger" disabled={isBusy || matched === 0} onClick={() => void ask(false)}>{t("Cancel {n}", { n: number(matched) })}</button>}
        </>
      }
    >
      <pre className="json">{JSON.stringify(named, null, 2)}</pre>
      <Problem error={error} />
      <p role="status">{matched === null ? t("Runs that have not ended and match this filter are ended.") : many(matched, "{n} run matches.", "{n} runs match.")}</p>
    </Dialog>
  );
}
