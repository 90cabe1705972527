// Ctrl-K: every place and every job, by a few letters of its name.
import { useQuery } from "@tanstack/react-query";
import { Hash, ListChecks, Plus } from "lucide-react";
import { type ComponentType, type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import { get, query } from "../api/client";
import { useMay } from "../api/session";
import type { Job, Page } from "../api/types";
import { Dialog } from "../parts/Dialog";
import { t } from "../words";
import { PLACES } from "./places";

interface Entry {
  key: string;
  name: string;
  aside: string;
  icon: ComponentType;
  go: () => void;
}

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const id = useId();
  const entries = useEntries(text.trim(), onClose);
  useEffect(() => setChosen(0), [text]);
  // In braces: browsers answer with a promise here, which is no way to end an effect.
  useEffect(() => {
    void list.current?.children[chosen]?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const press = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setChosen((one) => Math.min(one + 1, entries.length - 1));
    else if (event.key === "ArrowUp") setChosen((one) => Math.max(one - 1, 0));
    else if (event.key === "Enter") entries[chosen]?.go();
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={t("Go to")} onClose={onClose} className="palette" isPlain>
      <input
        autoFocus value={text} onChange={(event) => setText(event.target.value)} onKeyDown={press} placeholder={t("A place, a job, or the number of a run")}
        role="combobox" aria-expanded="true" aria-controls={id} aria-label={t("Go to")} spellCheck={false}
        aria-activedescendant={entries[chosen] ? `${id}-${chosen}` : undefined}
      />
      <ul ref={list} id={id} role="listbox" aria-label={t("Go to")}>
        {entries.map((entry, index) => (
          <li
            key={entry.key} id={`${id}-${index}`} role="option" aria-selected={index === chosen} onClick={entry.go}
            onMouseMove={() => setChosen(index)}
          >
            <entry.icon /><span className="cut">{entry.name}</span><small className="cut">{entry.aside}</small>
          </li>
        ))}
      </ul>
      {entries.length === 0 ? <div className="empty">{t("Nothing has this name.")}</div> : null}
    </Dialog>
  );
}

function useEntries(text: string, onClose: () => void): Entry[] {
  const [, navigate] = useLocation();
  const mayEdit = useMay("editor");
  const jobs = useQuery({
    queryKey: ["list", "palette", text],
    queryFn: ({ signal }) => get<Page<Job>>(`/jobs${query({ q: text, limit: 12 })}`, signal),
    placeholderData: (before) => before,
  });
  return useMemo(() => {
    const go = (path: string) => () => {
      onClose();
      navigate(path);
    };
    const has = (name: string) => name.toLowerCase().includes(text.toLowerCase());
    const entries: Entry[] = [];
    if (/^\d+$/.test(text)) {
      entries.push({ key: "run", name: t("Run {id}", { id: text }), aside: t("Run"), icon: Hash, go: go(`/runs/${text}`) });
      entries.push({ key: "job", name: t("Job {id}", { id: text }), aside: t("Job"), icon: ListChecks, go: go(`/jobs/${text}`) });
    }
    for (const place of PLACES) {
      if (has(t(place.name))) entries.push({ key: place.path, name: t(place.name), aside: `g ${place.key}`, icon: place.icon, go: go(place.path) });
    }
    if (mayEdit && has(t("New job"))) entries.push({ key: "new", name: t("New job"), aside: "c", icon: Plus, go: go("/jobs/new") });
    for (const job of jobs.data?.items ?? []) {
      entries.push({ key: `job-${job.id}`, name: job.name, aside: job.app, icon: ListChecks, go: go(`/jobs/${job.id}`) });
    }
    return entries;
  }, [text, jobs.data, mayEdit, navigate, onClose]);
}
