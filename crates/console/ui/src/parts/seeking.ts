// A page may come empty with a way on: the server looked as far as it does at once. Then the search goes on by itself.
import { useEffect } from "react";

interface Pages {
  hasNextPage: boolean;
  isFetching: boolean;
  error: unknown;
  fetchNextPage: () => unknown;
}

/** Whether nothing was found yet and there is more to look through, which is then asked for. */
export function useSeeking(pages: Pages, found: number): boolean {
  const isSeeking = found === 0 && pages.hasNextPage && !pages.error;
  useEffect(() => {
    if (isSeeking && !pages.isFetching) pages.fetchNextPage();
  }, [isSeeking, pages.isFetching, pages.fetchNextPage]);
  return isSeeking;
}
