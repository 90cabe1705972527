// Long lists: rows exist only while they are near the window, and keys walk through them.
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useKeys } from "../shell/keys";
import { t } from "../words";

export function List<T>(props: {
  label: string;
  items: T[];
  columns: string;
  head: ReactNode;
  height: number;
  row: (item: T, isCurrent: boolean) => ReactNode;
  rowKey: (item: T) => string | number;
  rowClass?: (item: T) => string;
  onOpen?: (item: T) => void;
  keys?: (item: T) => Record<string, () => void>;
  hasMore: boolean;
  more: () => void;
  isLoading: boolean;
  /** Changes when something above the list comes or goes, so that its place is measured anew. */
  above?: unknown;
}) {
  const { items, hasMore, more, isLoading } = props;
  const box = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  // By key and not by place: what a key is pressed for must not become another row because the list moved.
  const [chosen, setChosen] = useState<string | number | null>(null);
  const current = chosen === null ? -1 : items.findIndex((item) => props.rowKey(item) === chosen);
  useLayoutEffect(() => {
    const top = box.current?.getBoundingClientRect().top ?? 0;
    setMargin(Math.round(top + window.scrollY));
  }, [items.length === 0, props.above]);
  const rows = useWindowVirtualizer({ count: items.length, estimateSize: () => props.height, overscan: 12, scrollMargin: margin });
  useEffect(() => {
    rows.measure();
  }, [props.height]);
  const seen = rows.getVirtualItems();
  const last = seen[seen.length - 1]?.index ?? -1;
  useEffect(() => {
    if (hasMore && !isLoading && last >= items.length - 20) more();
  }, [last, items.length, hasMore, isLoading, more]);
  const step = (by: number) => {
    const next = Math.max(0, Math.min(items.length - 1, current + by));
    const wanted = items[next];
    if (wanted === undefined) return;
    setChosen(props.rowKey(wanted));
    rows.scrollToIndex(next, { align: "auto" });
  };
  const item = items[current];
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    ...(item && props.onOpen ? { Enter: () => props.onOpen?.(item) } : {}),
    ...(item ? props.keys?.(item) : {}),
  });
  return (
    <div className="card list" style={{ "--columns": props.columns } as React.CSSProperties} role="table" aria-label={props.label} aria-rowcount={hasMore ? -1 : items.length}>
      <div className="list-head" role="row">{props.head}</div>
      <div ref={box} className="list-space" role="rowgroup" style={{ height: rows.getTotalSize() }}>
        {seen.map((row) => {
          const shown = items[row.index];
          if (shown === undefined) return null;
          const classes = ["list-row", row.index === current ? "is-current" : "", props.rowClass?.(shown) ?? ""].join(" ");
          return (
            <div key={props.rowKey(shown)} style={{ height: row.size, transform: `translateY(${row.start - margin}px)` }} role="presentation">
              <div className={classes} role="row" aria-rowindex={row.index + 1} data-key={props.rowKey(shown)}>{props.row(shown, row.index === current)}</div>
            </div>
          );
        })}
      </div>
      {isLoading && items.length > 0 ? <div className="list-more" role="status">{t("Loading more")}</div> : null}
    </div>
  );
}

/** A cell of a list. */
export function Cell({ children, className }: { children?: ReactNode; className?: string }) {
  return <div role="cell" className={className}>{children}</div>;
}

export function Head({ children, className }: { children?: ReactNode; className?: string }) {
  return <div role="columnheader" className={className}>{children}</div>;
}
