// Filters that stand in the address, so that they can be shared and walked back through.
import { useCallback } from "react";
import { useSearchParams } from "wouter";

export function useFilter<K extends string>(names: readonly K[]): [Record<K, string>, (name: K, value: string) => void, () => void] {
  const [params, setParams] = useSearchParams();
  const values = Object.fromEntries(names.map((name) => [name, params.get(name) ?? ""])) as Record<K, string>;
  const set = useCallback(
    (name: K, value: string) => {
      // From the address itself, so that one change right after another keeps both.
      setParams(() => {
        const next = new URLSearchParams(location.search);
        if (value) next.set(name, value);
        else next.delete(name);
        return next;
      }, { replace: true });
    },
    [setParams],
  );
  const clear = useCallback(() => setParams({}, { replace: true }), [setParams]);
  return [values, set, clear];
}
