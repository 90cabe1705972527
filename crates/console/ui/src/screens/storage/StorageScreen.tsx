// What is stored: runs by day, their bytes, their age.
import { useStorage } from "../../api/queries";
import { useReachesAll } from "../../api/session";
import type { Bucket } from "../../api/types";
import { Bones, Empty } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { Screen } from "../../shell/Screen";
import { bytes } from "../../time/words";
import { number, t } from "../../words";

export default function StorageScreen() {
  const isWhole = useReachesAll();
  const storage = useStorage(isWhole);
  const buckets = storage.data?.buckets ?? [];
  const oldest = Math.max(0, ...buckets.map((bucket) => bucket.age_days));
  return (
    <Screen crumbs={[{ name: t("Storage") }]}>
      {!isWhole ? <Empty title={t("Not for this token")}>{t("What is stored is shown to tokens that reach all apps.")}</Empty> : null}
      {storage.error ? <Problem error={storage.error} retry={() => void storage.refetch()} /> : null}
      {isWhole && !storage.data && !storage.error ? <div className="card"><Bones rows={6} /></div> : null}
      {storage.data ? (
        <>
          <div className="tiles">
            <div className="tile"><span className="what">{t("Runs")}</span><span className="figure">{number(storage.data.runs)}</span><span className="more">{t("{n} ended", { n: number(storage.data.closed) })}</span></div>
            <div className="tile"><span className="what">{t("Bytes")}</span><span className="figure">{storage.data.bytes > 0 ? bytes(storage.data.bytes) : "–"}</span><span className="more">{storage.data.runs > 0 && storage.data.bytes > 0 ? t("{n} a run", { n: bytes(storage.data.bytes / storage.data.runs) }) : ""}</span></div>
            <div className="tile"><span className="what">{t("Days")}</span><span className="figure">{number(buckets.length)}</span><span className="more">{storage.data.retention ? t("runs are kept {n}", { n: storage.data.retention.runs }) : t("each dropped as a whole when its time is over")}</span></div>
            <div className="tile"><span className="what">{t("Oldest day")}</span><span className="figure">{number(oldest)}</span><span className="more">{t("days ago")}</span></div>
          </div>
          {buckets.length === 0 ? <div className="card"><Empty title={t("Nothing is stored yet")}>{t("A day appears with its first run.")}</Empty></div> : <Days buckets={buckets} />}
        </>
      ) : null}
    </Screen>
  );
}

function Days({ buckets }: { buckets: Bucket[] }) {
  const most = Math.max(1, ...buckets.map((bucket) => bucket.runs));
  return (
    <section className="card">
      <div className="card-head"><h2>{t("By day")}</h2></div>
      <div className="table-box" tabIndex={0} role="group" aria-label={t("By day")}>
        <table>
          <thead><tr><th scope="col">{t("Day")}</th><th scope="col" className="number">{t("Age, days")}</th><th scope="col" className="number">{t("Runs")}</th><th scope="col" className="number">{t("Open")}</th><th scope="col" className="number">{t("Bytes")}</th><th scope="col" style={{ width: "35%" }}><span className="unseen">{t("Share")}</span></th></tr></thead>
          <tbody>
            {[...buckets].reverse().map((bucket) => (
              <tr key={bucket.day}>
                <td className="mono">{bucket.day}</td><td className="number muted">{bucket.age_days < 0 ? t("ahead") : bucket.age_days}</td><td className="number">{number(bucket.runs)}</td>
                <td className="number">{number(bucket.runs - bucket.closed)}</td><td className="number muted">{bucket.bytes > 0 ? bytes(bucket.bytes) : "–"}</td>
                <td><i className="bar" style={{ width: `${(100 * bucket.runs) / most}%` }} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
