// A log as it grows: followed until a person scrolls up, searched, wrapped, taken home.
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, Download, WrapText } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { ansi } from "../../parts/ansi";
import { Empty } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { dated } from "../../time/instants";
import { usePrecise } from "../../time/Time";
import { number, t } from "../../words";
import { useTail } from "./tail";

const LINE = 18;
/** Longer lines are cut on the screen; the download has them whole. */
const SHOWN_MAX = 8_000;

export function LogView({ run, attempt, part, isOpen, zone }: { run: number; attempt: number | null; part: number | null; isOpen: boolean; zone: string | undefined }) {
  const precise = usePrecise(zone);
  const tail = useTail(run, attempt, part);
  const [search, setSearch] = useState("");
  const [isWrapped, setWrapped] = useState(false);
  const [isFollowing, setFollowing] = useState(true);
  const [seen, setSeen] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const marked = Number(/^#L(\d+)$/.exec(location.hash)?.[1] ?? 0);
  const first = tail.dropped + 1;
  const found = useMemo(() => {
    const wanted = search.toLowerCase();
    const numbered = tail.lines.map((text, index) => ({ text: dated(text, precise), line: first + index }));
    return wanted ? numbered.filter((one) => one.text.toLowerCase().includes(wanted)) : numbered;
  }, [tail.lines, search, first, precise]);
  const rows = useVirtualizer({ count: found.length, getScrollElement: () => box.current, estimateSize: () => LINE, overscan: 20 });
  useEffect(() => {
    if (marked > 0 && found.length >= marked) {
      setFollowing(false);
      rows.scrollToIndex(marked - 1, { align: "center" });
    }
  }, [marked, found.length >= marked]);
  useEffect(() => {
    if (!isFollowing || found.length === 0) return;
    setSeen(found.length);
    const element = box.current;
    requestAnimationFrame(() => element?.scrollTo({ top: element.scrollHeight }));
  }, [found.length, isFollowing, isWrapped]);
  const scroll = () => {
    const element = box.current;
    if (!element) return;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < LINE * 2;
    setFollowing(isAtEnd);
    if (isAtEnd) setSeen(found.length);
  };
  const fresh = found.length - seen;
  return (
    <section className="card log" aria-label={t("Log")}>
      <div className="card-head">
        <h2>{t("Log")}</h2>
        <span className="muted small" role="status">{tail.state === "ended" ? t("{n} lines", { n: number(tail.lines.length) }) : tail.state === "cut" ? t("Reconnecting") : t("{n} lines so far", { n: number(tail.lines.length) })}</span>
        <span className="aside">
          <input className="input" type="search" style={{ width: 170 }} value={search} onChange={(event) => setSearch(event.target.value)} placeholder={t("Search in the log")} aria-label={t("Search in the log")} />
          <button type="button" className="button is-small" aria-pressed={isFollowing} onClick={() => setFollowing(!isFollowing)}>{isFollowing ? t("Following") : t("Follow")}</button>
          <button type="button" className="button is-plain is-square is-small" aria-pressed={isWrapped} onClick={() => setWrapped(!isWrapped)} aria-label={t("Wrap lines")} title={t("Wrap lines")}><WrapText /></button>
          <button type="button" className="button is-plain is-square is-small" onClick={() => save(run, tail.lines)} aria-label={t("Download")} title={t("Download")} disabled={tail.lines.length === 0}><Download /></button>
        </span>
      </div>
      {tail.error ? <div className="card-body"><Problem error={tail.error} /></div> : null}
      <div ref={box} className={isWrapped ? "log-lines is-wrapped" : "log-lines"} onScroll={scroll} tabIndex={0} role="log" aria-label={t("Log")} aria-live="off">
        {found.length === 0 ? <Empty title={search ? t("No line has this") : isOpen ? t("Nothing was written yet") : t("Nothing was written")} /> : (
          <div style={{ height: rows.getTotalSize(), position: "relative", minWidth: "max-content" }}>
            {rows.getVirtualItems().map((row) => {
              const one = found[row.index];
              if (!one) return null;
              return (
                <div
                  key={row.key} ref={rows.measureElement} data-index={row.index} className={one.line === marked ? "log-line is-marked" : "log-line"}
                  style={{ position: "absolute", top: 0, left: 0, right: 0, transform: `translateY(${row.start}px)` }}
                >
                  <a href={`#L${one.line}`} aria-label={t("Line {n}", { n: one.line })}>{one.line}</a>
                  <span className="text"><Painted text={one.text} search={search} /></span>
                </div>
              );
            })}
          </div>
        )}
      </div>
      {!isFollowing && fresh > 0 && !search ? <button type="button" className="button is-main is-small log-jump" onClick={() => setFollowing(true)}><ArrowDown aria-hidden="true" />{t("Jump to the end ({n} new)", { n: number(fresh) })}</button> : null}
    </section>
  );
}

function Painted({ text, search }: { text: string; search: string }) {
  const shown = text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
  return <>{ansi(shown).map((span, index) => <span key={index} className={span.classes}>{search ? <Marked text={span.text} search={search} /> : span.text}</span>)}</>;
}

function Marked({ text, search }: { text: string; search: string }) {
  const pieces: React.ReactNode[] = [];
  const [lower, wanted] = [text.toLowerCase(), search.toLowerCase()];
  let at = 0;
  for (let found = lower.indexOf(wanted); found >= 0; found = lower.indexOf(wanted, at)) {
    pieces.push(text.slice(at, found), <mark key={found}>{text.slice(found, found + search.length)}</mark>);
    at = found + search.length;
  }
  pieces.push(text.slice(at));
  return <>{pieces}</>;
}

function save(run: number, lines: string[]): void {
  const address = URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `run-${run}.log`;
  link.click();
  URL.revokeObjectURL(address);
}
