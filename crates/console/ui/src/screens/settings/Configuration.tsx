// The configuration that the node runs with: every setting, and where its value comes from.
import { useState } from "react";
import { useSettings } from "../../api/queries";
import type { Setting } from "../../api/types";
import { Bones } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { type Phrase, t } from "../../words";

const ORIGINS: Record<Setting["origin"], Phrase> = { default: "default", file: "file", environment: "environment", flag: "flag" };

export function Configuration() {
  const settings = useSettings(true);
  const [search, setSearch] = useState("");
  const wanted = search.trim().toLowerCase();
  const found = (settings.data?.items ?? []).filter((one) => `${one.section}.${one.key}`.toLowerCase().includes(wanted));
  const sections = [...new Set(found.map((one) => one.section))];
  return (
    <section className="card">
      <div className="card-head">
        <h2>{t("What this node runs with")}</h2>
        <span className="aside"><input className="input" type="search" style={{ width: 180 }} value={search} onChange={(event) => setSearch(event.target.value)} placeholder={t("Search settings")} aria-label={t("Search settings")} /></span>
      </div>
      {settings.error ? <div className="card-body"><Problem error={settings.error} retry={() => void settings.refetch()} /></div> : null}
      {!settings.data && !settings.error ? <Bones rows={8} /> : null}
      <div className="table-box" tabIndex={0} role="group" aria-label={t("Configuration")}>
        <table>
          <thead><tr><th scope="col">{t("Setting")}</th><th scope="col">{t("Value")}</th><th scope="col">{t("Said by")}</th></tr></thead>
          {sections.map((section) => (
            <tbody key={section}>
              {found.filter((one) => one.section === section).map((one) => (
                <tr key={one.key}>
                  <td className="mono told"><span className="faint">{section ? `${section}.` : ""}</span>{one.key}</td>
                  <td className="mono told">{shown(one)}</td>
                  <td className={one.origin === "default" ? "faint" : "strong"}>{t(ORIGINS[one.origin])}</td>
                </tr>
              ))}
            </tbody>
          ))}
        </table>
      </div>
      <p className="card-body small muted">{t("A file is overruled by the environment (PUNCTUAL_SECTION__KEY), and that by flags. Secrets are not shown.")}</p>
    </section>
  );
}

function shown(one: Setting): string {
  if (one.value === null || one.value === undefined || one.value === "") return "–";
  return typeof one.value === "string" ? one.value : JSON.stringify(one.value);
}
