// No jobs: what a job is, the command that makes one, and a button that makes one to look at.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { createJob } from "../../api/actions";
import { useMay } from "../../api/session";
import { Empty } from "../../parts/Empty";
import { complain } from "../../parts/Toasts";
import { t } from "../../words";

const COMMAND = "punctual job create -f job.toml";

export function NoJobs({ isFiltered, clear }: { isFiltered: boolean; clear: () => void }) {
  const mayEdit = useMay("editor");
  if (isFiltered) {
    return <Empty title={t("No job matches")} action={<button type="button" className="button" onClick={clear}>{t("Clear the filter")}</button>}>{t("Only names and descriptions are searched.")}</Empty>;
  }
  return (
    <Empty title={t("No jobs yet")} command={COMMAND} action={mayEdit ? <div className="button-row"><DemoButton /><Link href="/jobs/new" className="button">{t("New job")}</Link></div> : null}>
      {t("A job says what to call, when, and what to do if it fails. Make one by form or from a file, or start with a demo job that calls this server every 15 seconds.")}
    </Empty>
  );
}

export function DemoButton() {
  const [, navigate] = useLocation();
  const [isBusy, setBusy] = useState(false);
  const queries = useQueryClient();
  const make = async () => {
    setBusy(true);
    try {
      const job = await createJob({
        app: "demo", name: "first-job", description: t("A demo job: it asks this server every 15 seconds whether it is well."), tags: ["demo"],
        schedule: { kind: "every", interval: "15s" }, target: { kind: "http", method: "GET", url: `${location.origin}/healthz` },
      });
      void queries.invalidateQueries({ queryKey: ["list"] });
      navigate(`/jobs/${job.id}`);
    } catch (error) {
      complain(error);
      setBusy(false);
    }
  };
  return <button type="button" className="button is-main" onClick={() => void make()} disabled={isBusy}>{t("Create a demo job")}</button>;
}
