// A search box that `/` leads to. What is written reaches the filter after a short pause.
import { Search } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { useKeys } from "../shell/keys";

const PAUSE_MS = 150;

export function SearchBox({ value, onChange, label }: { value: string; onChange: (value: string) => void; label: string }) {
  const [text, setText] = useState(value);
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => onChange(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  useKeys({ "/": () => box.current?.focus() });
  return (
    <div className="search">
      <Search aria-hidden="true" />
      <input
        ref={box} className="input" type="search" value={text} placeholder={label} aria-label={label} spellCheck={false}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape" && event.key !== "Enter") return;
          // A browser empties such a box with Escape; here it only leads back to the list.
          event.preventDefault();
          event.currentTarget.blur();
        }}
      />
    </div>
  );
}
