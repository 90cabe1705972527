// Tabs that arrow keys walk through.
import type { KeyboardEvent, ReactNode } from "react";

export function Tabs<K extends string>(props: { label: string; tabs: [K, ReactNode][]; chosen: K; onChoose: (key: K) => void }) {
  const walk = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const index = props.tabs.findIndex(([key]) => key === props.chosen);
    const next = props.tabs[(index + step + props.tabs.length) % props.tabs.length];
    if (!next) return;
    props.onChoose(next[0]);
    (event.currentTarget.children[props.tabs.indexOf(next)] as HTMLElement | undefined)?.focus();
  };
  return (
    <div className="tabs" role="tablist" aria-label={props.label} onKeyDown={walk}>
      {props.tabs.map(([key, name]) => (
        <button
          key={key} type="button" role="tab" aria-selected={key === props.chosen} tabIndex={key === props.chosen ? 0 : -1}
          onClick={() => props.onChoose(key)}
        >
          {name}
        </button>
      ))}
    </div>
  );
}

export function Segments<K extends string>(props: { label: string; options: [K, string][]; chosen: K; onChoose: (key: K) => void }) {
  return (
    <div className="segments" role="group" aria-label={props.label}>
      {props.options.map(([key, name]) => (
        <button key={key} type="button" aria-pressed={key === props.chosen} onClick={() => props.onChoose(key)}>{name}</button>
      ))}
    </div>
  );
}
