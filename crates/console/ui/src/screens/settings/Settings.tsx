// Settings: the look of this browser, who is signed in, the tokens, and the configuration of the node.
import { useState } from "react";
import { useMay, useReachesAll, useSignedIn } from "../../api/session";
import { useFilter } from "../../parts/filter";
import { Segments, Tabs } from "../../parts/Tabs";
import { Screen } from "../../shell/Screen";
import { type Density, type Theme, chooseDensity, chooseTheme, density, theme } from "../../shell/theme";
import { type Manner, setManner, useManner } from "../../time/Time";
import { myZone } from "../../time/zone";
import { type Language, chooseLanguage, language, t } from "../../words";
import { Configuration } from "./Configuration";
import { Tokens } from "./Tokens";

type Tab = "look" | "tokens" | "configuration";

export default function Settings() {
  const mayAdmin = useMay("admin");
  const isWhole = useReachesAll();
  const [{ tab }, setFilter] = useFilter(["tab"] as const);
  const tabs: [Tab, string][] = [["look", t("This browser")], ["tokens", t("Access tokens")], ...(isWhole ? [["configuration", t("Configuration")] as [Tab, string]] : [])];
  const chosen = (mayAdmin ? tabs.find(([name]) => name === tab)?.[0] : undefined) ?? "look";
  return (
    <Screen crumbs={[{ name: t("Settings") }]}>
      {mayAdmin ? <Tabs<Tab> label={t("Settings")} tabs={tabs} chosen={chosen} onChoose={(next) => setFilter("tab", next === "look" ? "" : next)} /> : null}
      {chosen === "look" ? <Look /> : chosen === "tokens" ? <Tokens /> : <Configuration />}
    </Screen>
  );
}

function Look() {
  const [shown, setShown] = useState<Theme>(theme);
  const [rows, setRows] = useState<Density>(density);
  const manner = useManner();
  const signedIn = useSignedIn();
  const session = signedIn.kind === "in" || signedIn.kind === "ended" ? signedIn.session : null;
  return (
    <section className="card card-body">
      <dl className="pairs" style={{ gap: "14px 24px", alignItems: "center" }}>
        <dt>{t("Theme")}</dt><dd><Segments<Theme> label={t("Theme")} options={[["system", t("System")], ["light", t("Light")], ["dark", t("Dark")]]} chosen={shown} onChoose={(next) => { chooseTheme(next); setShown(next); }} /></dd>
        <dt>{t("Rows")}</dt><dd><Segments<Density> label={t("Rows")} options={[["roomy", t("Roomy")], ["dense", t("Dense")]]} chosen={rows} onChoose={(next) => { chooseDensity(next); setRows(next); }} /></dd>
        <dt>{t("Language")}</dt><dd><Segments<Language> label={t("Language")} options={[["en", "English"], ["zh", "中文"]]} chosen={language()} onChoose={chooseLanguage} /></dd>
        <dt>{t("Times")}</dt><dd><Segments<Manner> label={t("Times")} options={[["relative", t("Relative")], ["mine", t("My zone")], ["job", t("The job's zone")], ["utc", "UTC"]]} chosen={manner} onChoose={setManner} /></dd>
        <dt>{t("My zone")}</dt><dd className="mono">{myZone()}</dd>
        {session ? <><dt>{t("Signed in as")}</dt><dd className="told">{session.name ? `${session.name}, ` : ""}{session.role}{session.apps.length > 0 ? ` · ${session.apps.join(", ")}` : ""}</dd></> : null}
      </dl>
    </section>
  );
}
