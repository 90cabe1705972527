// Figures are those of all nodes. A node that does not answer in time is left out of them, and the screen says so.
import { useReview } from "../../api/outlook";
import { useStats } from "../../api/queries";
import { useReachesAll } from "../../api/session";
import { t } from "../../words";

/** Every node that some answer is without, once. */
export function namesOf(...answers: (readonly string[] | undefined)[]): string[] {
  return [...new Set(answers.flatMap((names) => names ?? []))].sort();
}

export function MissingNodes() {
  const stats = useStats();
  const review = useReview(useReachesAll());
  const names = namesOf(stats.data?.missing, review.data?.missing);
  if (names.length === 0) return null;
  return (
    <p className="small missing" role="status">
      {t("Figures without {nodes}: no answer within a second.", { nodes: names.join(", ") })}
    </p>
  );
}
