// Making and changing a job: form and JSON side by side, with what it would do beside them.
import { useQueryClient } from "@tanstack/react-query";
import { Save } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { keepJob } from "../../api/actions";
import { Refusal, change, get } from "../../api/client";
import { useJob } from "../../api/queries";
import { useMay } from "../../api/session";
import type { Job, JobDraft } from "../../api/types";
import { Bones } from "../../parts/Empty";
import { isEqual, mergePatch } from "../../parts/merge";
import { Problem } from "../../parts/Problem";
import { Tabs } from "../../parts/Tabs";
import { say } from "../../parts/Toasts";
import { Screen } from "../../shell/Screen";
import { t } from "../../words";
import { draftOf } from "../job/schedule";
import { Conflict } from "./Conflict";
import { EMPTY, type Kept, forget, keep, kept } from "./draft";
import { Fields } from "./Fields";
import { RawEditor } from "./RawEditor";
import { SaveDialog } from "./SaveDialog";
import { Upcoming } from "./Upcoming";

export default function JobEditor({ id }: { id: number | null }) {
  const job = useJob(id);
  const mayEdit = useMay("editor");
  const title = id === null ? t("New job") : t("Edit");
  const crumbs = [{ name: t("Jobs"), path: "/jobs" }, ...(id === null ? [] : [{ name: job.data?.name ?? String(id), path: `/jobs/${id}` }]), { name: title }];
  const heading = id === null ? t("New job") : t("Edit {name}", { name: job.data?.name ?? "" });
  const copied = new URLSearchParams(location.search).get("from");
  const original = useJob(copied ? Number(copied) : null);
  let body = <div className="card"><Bones rows={8} /></div>;
  if (!mayEdit) body = <Problem error={new Refusal({ title: t("Not allowed"), detail: t("Jobs are changed by editors and admins."), status: 403 }, null)} />;
  else if (job.error && !job.data) body = <Problem error={job.error} />;
  else if (id === null && (!copied || original.data)) body = <Editor id={null} start={{ draft: original.data ? { ...draftOf(original.data), name: `${original.data.name}-copy` } : EMPTY, base: null, version: null }} />;
  else if (id !== null && job.data) body = <Editor id={id} start={{ draft: draftOf(job.data), base: draftOf(job.data), version: job.data.version }} />;
  return <Screen crumbs={crumbs} heading={heading}>{body}</Screen>;
}

function Editor({ id, start }: { id: number | null; start: Kept }) {
  const [state, setState] = useState<Kept>(() => kept(id) ?? start);
  const [isRestored, setRestored] = useState(() => kept(id) !== null);
  const [error, setError] = useState<unknown>(null);
  const [open, setOpen] = useState<"save" | Job | null>(null);
  const [rawFault, setRawFault] = useState("");
  const [side, setSide] = useState<"form" | "raw">("form");
  const [isBusy, setBusy] = useState(false);
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const isDone = useRef(false);
  const { draft, base, version } = state;
  const isChanged = !isEqual(draft, base ?? EMPTY);
  useEffect(() => {
    if (isDone.current) return;
    if (isChanged) keep(id, state);
    else forget(id);
  }, [id, state, isChanged]);
  useEffect(() => {
    const warn = (event: BeforeUnloadEvent) => isChanged && !isDone.current && event.preventDefault();
    window.addEventListener("beforeunload", warn);
    return () => window.removeEventListener("beforeunload", warn);
  }, [isChanged]);
  const edit = (next: JobDraft) => {
    setState((before) => ({ ...before, draft: next }));
    setError(null);
  };
  const leave = (path: string) => {
    isDone.current = true;
    forget(id);
    navigate(path);
  };
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      const saved = id === null ? await change<Job>("POST", "/jobs", draft) : await change<Job>("PATCH", `/jobs/${id}`, mergePatch(base, draft) ?? {}, version ?? undefined);
      keepJob(queries, saved);
      void queries.invalidateQueries({ queryKey: ["list"] });
      void queries.invalidateQueries({ queryKey: ["job", saved.id] });
      say(id === null ? t("{name} is made", { name: saved.name }) : t("{name} is saved as version {version}", { name: saved.name, version: saved.version }));
      leave(`/jobs/${saved.id}`);
      return;
    } catch (caught) {
      const isStale = caught instanceof Refusal && caught.status === 412 && id !== null;
      const theirs = isStale ? await get<Job>(`/jobs/${id}`).catch(() => null) : null;
      setOpen(theirs);
      if (!theirs) setError(caught);
    }
    setBusy(false);
  };
  const faults = error instanceof Refusal ? error.errors : [];
  return (
    <>
      {isRestored ? (
        <div className="notice" data-tone="good" role="status">
          <span /><div>{t("What you wrote before was kept and is here again.")}</div>
          <button type="button" className="button is-small" onClick={() => { forget(id); setState(start); setRestored(false); }}>{t("Begin anew")}</button>
        </div>
      ) : null}
      <div className="only-small"><Tabs label={t("Form or JSON")} tabs={[["form", t("Form")], ["raw", t("JSON and next runs")]]} chosen={side} onChoose={setSide} /></div>
      <div className="editor">
        <form id="job-form" className={side === "form" ? "column" : "column hide-small"} onSubmit={(event) => { event.preventDefault(); setOpen("save"); }}>
          <Fields draft={draft} onChange={edit} faults={faults} isNew={id === null} />
        </form>
        <div className={side === "raw" ? "editor-side" : "editor-side hide-small"}>
          <Upcoming draft={draft} />
          <RawEditor draft={draft} onChange={edit} onFault={setRawFault} />
        </div>
      </div>
      <Problem error={error} />
      <div className="editor-foot">
        <button type="submit" form="job-form" className="button is-main" disabled={isBusy || rawFault !== "" || (id !== null && !isChanged)}><Save aria-hidden="true" />{id === null ? t("Create") : t("Review and save")}</button>
        <button type="button" className="button" onClick={() => leave(id === null ? "/jobs" : `/jobs/${id}`)}>{isChanged ? t("Discard") : t("Back")}</button>
        <span className="muted small" role="status">{rawFault ? t("The JSON cannot be read yet.") : isChanged ? t("Not saved; kept in this tab.") : ""}</span>
      </div>
      {open === "save" ? <SaveDialog draft={draft} base={base} id={id} isBusy={isBusy} onClose={() => setOpen(null)} onSave={() => { setOpen(null); void save(); }} /> : null}
      {open !== null && open !== "save" && base ? (
        <Conflict
          base={base} mine={draft} theirs={open} onClose={() => setOpen(null)}
          onTake={(next) => { setState({ draft: next, base: draftOf(open), version: open.version }); setOpen(null); }}
        />
      ) : null}
    </>
  );
}
