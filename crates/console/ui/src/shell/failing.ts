// How many jobs fail now, for the title, the icon and the navigation.
import { useEffect } from "react";
import { useFailingJobs } from "../api/queries";

/** How many of them are shown where they are listed; asked for together, so that both are one question. */
export const FAILING_SHOWN = 8;

export function useFailing(): number | undefined {
  return useFailingJobs(FAILING_SHOWN).data?.total;
}

/** Lets title and icon of the tab say when something fails. */
export function useTabSign(title: string): void {
  const failing = useFailing() ?? 0;
  useEffect(() => {
    document.title = `${failing > 0 ? `(${failing}) ` : ""}${title} · Punctual`;
    const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    const wanted = failing > 0 ? "/favicon-failing.svg" : "/favicon.svg";
    if (icon && !icon.href.endsWith(wanted)) icon.href = wanted;
  }, [failing, title]);
}
