// Jobs whose end starts this one.
import { useQuery } from "@tanstack/react-query";
import { Plus, X } from "lucide-react";
import { get, query } from "../../api/client";
import type { Job, JobDraft, Page } from "../../api/types";
import { t } from "../../words";
import { Choice, TextField } from "./Field";
import type { Part } from "./Fields";

type After = NonNullable<JobDraft["after"]>[number];

const OFFERED = 20;

export function AfterFields({ draft, onChange, fault }: Part) {
  const after = draft.after ?? [];
  const set = (next: After[]) => onChange({ ...draft, after: next });
  const change = (index: number, part: Partial<After>) => set(after.map((one, at) => (at === index ? { ...one, ...part } : one)));
  return (
    <>
      {after.length === 0 ? <p className="muted">{t("No other job's end starts it.")}</p> : null}
      {after.map((one, index) => {
        const name = t("Job before {n}", { n: index + 1 });
        return (
          <div key={index} className="repeated" role="group" aria-label={name}>
            <div className="fields repeated-fields">
              <JobField value={String(one.job)} onChange={(job) => change(index, { job: /^\d+$/.test(job) ? Number(job) : job })} fault={fault(`/after/${index}/job`) ?? fault(`/after/${index}`)} />
              <Choice
                label={t("When it has")} value={one.when ?? "succeeded"} onChange={(when) => change(index, { when: when as "succeeded" })} fault={fault(`/after/${index}/when`)}
                options={[["succeeded", t("succeeded")], ["failed", t("failed")], ["ended", t("ended, however")]]}
              />
            </div>
            <button type="button" className="button is-plain is-square is-small" onClick={() => set(after.filter((_, at) => at !== index))} aria-label={t("Remove {name}", { name })} title={t("Remove")}><X /></button>
          </div>
        );
      })}
      <div><button type="button" className="button is-small" onClick={() => set([...after, { job: "", when: "succeeded" }])}><Plus aria-hidden="true" />{t("Add a job before it")}</button></div>
    </>
  );
}

/** The name of a job, with those that have it in theirs offered. */
function JobField({ value, onChange, fault }: { value: string; onChange: (value: string) => void; fault: string | undefined }) {
  const [app, name] = value.includes("/") ? value.split("/", 2) : ["", value];
  const found = useQuery({
    queryKey: ["list", "before", app, name],
    queryFn: ({ signal }) => get<Page<Job>>(`/jobs${query({ app, q: name, limit: OFFERED })}`, signal),
    placeholderData: (before) => before,
  });
  return (
    <>
      <TextField label={t("Job")} value={value} onChange={onChange} fault={fault} list="jobs-before" isMono required placeholder="app/name" hint={t("app/name, or its number")} />
      <datalist id="jobs-before">{found.data?.items.map((job) => <option key={job.id} value={`${job.app}/${job.name}`} />)}</datalist>
    </>
  );
}
