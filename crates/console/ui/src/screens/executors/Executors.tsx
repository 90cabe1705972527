// Apps and their executors: which of them are there, healthy or busy; and the nodes, which can be drained.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { change } from "../../api/client";
import { useApps, useExecutors, useNodes } from "../../api/queries";
import { useMay, useReachesAll } from "../../api/session";
import type { App, Executor, NodeInfo } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Bones, Empty } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { State } from "../../parts/State";
import { complain, say } from "../../parts/Toasts";
import { Screen } from "../../shell/Screen";
import { Time } from "../../time/Time";
import { many, number, t } from "../../words";
import { Pause } from "./Pause";

export default function Executors() {
  const apps = useApps();
  const items = [...(apps.data?.items ?? [])].sort((a, b) => b.executors - a.executors || a.name.localeCompare(b.name));
  const [staffed, bare] = [items.filter((app) => app.executors > 0), items.filter((app) => app.executors === 0)];
  return (
    <Screen crumbs={[{ name: t("Executors") }]}>
      {apps.error ? <Problem error={apps.error} retry={() => void apps.refetch()} /> : null}
      {!apps.data && !apps.error ? <div className="card"><Bones rows={6} /></div> : null}
      {apps.data && staffed.length === 0 ? (
        <div className="card"><Empty title={t("No executor has registered")} command="punctual executor --app demo --command 'hello=echo hello'">{t("Executors are processes that run handlers and say so by themselves. Jobs that call HTTP endpoints need none.")}</Empty></div>
      ) : null}
      {staffed.map((app) => <AppCard key={app.name} app={app} />)}
      {bare.length > 0 ? (
        <section className="card">
          <div className="card-head"><h2>{t("Apps without executors")}</h2><span className="aside">{number(bare.length)}</span></div>
          <div className="table-box" tabIndex={0} role="group" aria-label={t("Apps without executors")}>
            <table>
              <thead><tr><th scope="col">{t("Name")}</th><th scope="col">{t("Title")}</th><th scope="col"><span className="unseen">{t("Actions")}</span></th></tr></thead>
              <tbody>
                {bare.map((app) => (
                  <tr key={app.name}>
                    <td className="strong told"><Link href={`/jobs?app=${encodeURIComponent(app.name)}`}>{app.name}</Link></td><td className="muted cut">{app.title}</td>
                    <td className="right"><Pause app={app} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      ) : null}
      <NodeCard />
    </Screen>
  );
}

function AppCard({ app }: { app: App }) {
  const executors = useExecutors(app.name);
  return (
    <section className="card">
      <div className="card-head">
        <h2 className="told"><Link href={`/jobs?app=${encodeURIComponent(app.name)}`}>{app.name}</Link></h2><span className="muted cut">{app.title}</span>
        <span className="aside">{t("{n} of {all} take runs", { n: app.routable, all: app.executors })} · {app.addresses === "auto" ? t("they register themselves") : t("addresses are listed")} <Pause app={app} /></span>
      </div>
      {executors.error ? <div className="card-body"><Problem error={executors.error} /></div> : null}
      {!executors.data ? <Bones rows={2} /> : (
        <div className="table-box" tabIndex={0} role="group" aria-label={app.name}>
          <table>
            <thead><tr><th scope="col" style={{ width: 120 }}>{t("Health")}</th><th scope="col">{t("Address")}</th><th scope="col">{t("Speaks")}</th><th scope="col" className="number">{t("Busy")}</th><th scope="col" className="number">{t("Last beat")}</th></tr></thead>
            <tbody>
              {executors.data.items.map((one) => (
                <tr key={one.address}>
                  <td><State state={health(one)} /></td><td className="mono told">{one.address}</td><td className="muted">{t(SPEAKS[one.dialect])}</td>
                  <td className="number">{number(one.in_flight)}</td><td className="number muted"><Time at={one.last_beat} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

const SPEAKS = { classic: "XXL-JOB up to 3.4", trigger: "XXL-JOB from 3.5", orth: "Orth", native: "Punctual" } as const;

function health(one: Executor): string {
  if (one.suspect) return "suspect";
  return one.routable ? "healthy" : "away";
}

function NodeCard() {
  const isWhole = useReachesAll();
  const mayAdmin = useMay("admin");
  const nodes = useNodes(isWhole);
  const [draining, setDraining] = useState<NodeInfo | null>(null);
  if (!isWhole) return null;
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Nodes")}</h2><span className="aside">{nodes.data ? many(nodes.data.items.length, "{n} node", "{n} nodes") : ""}</span></div>
      {nodes.error ? <div className="card-body"><Problem error={nodes.error} /></div> : null}
      <div className="table-box" tabIndex={0} role="group" aria-label={t("Nodes")}>
        <table>
          <thead><tr><th scope="col" style={{ width: 120 }}>{t("State")}</th><th scope="col">{t("Name")}</th><th scope="col">{t("Address")}</th><th scope="col" className="number">{t("Shards")}</th><th scope="col"><span className="unseen">{t("Actions")}</span></th></tr></thead>
          <tbody>
            {nodes.data?.items.map((node) => (
              <tr key={node.node}>
                <td><State state={node.state === "active" ? "healthy" : "stopped"} /></td>
                <td className="strong told">{node.name}{node.is_self ? <span className="chip" style={{ marginLeft: 8 }}>{t("this node")}</span> : null}</td>
                <td className="mono told muted">{node.address || "–"}</td><td className="number">{node.shards}</td>
                <td className="right">{mayAdmin ? <DrainButton node={node} onDrain={() => setDraining(node)} /> : null}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {draining ? <Drain node={draining} onClose={() => setDraining(null)} /> : null}
    </section>
  );
}

function DrainButton({ node, onDrain }: { node: NodeInfo; onDrain: () => void }) {
  const queries = useQueryClient();
  const resume = async () => {
    try {
      await change("POST", `/nodes/${encodeURIComponent(node.node)}/resume`);
      say(t("{name} takes shards again", { name: node.name }));
    } catch (error) {
      complain(error);
    }
    void queries.invalidateQueries({ queryKey: ["nodes"] });
  };
  if (node.state === "active") return <button type="button" className="button is-small" onClick={onDrain}>{t("Drain")}</button>;
  return node.is_self ? <button type="button" className="button is-small" onClick={() => void resume()}>{t("Resume")}</button> : null;
}

function Drain({ node, onClose }: { node: NodeInfo; onClose: () => void }) {
  const queries = useQueryClient();
  const go = async () => {
    try {
      await change("POST", `/nodes/${encodeURIComponent(node.node)}/drain`);
      say(t("{name} gives its shards back", { name: node.name }));
    } catch (error) {
      complain(error);
    }
    void queries.invalidateQueries({ queryKey: ["nodes"] });
    onClose();
  };
  return (
    <Dialog title={t("Drain {name}", { name: node.name })} onClose={onClose} foot={<><button type="button" className="button" onClick={onClose}>{t("Cancel")}</button><button type="button" className="button is-main is-danger" onClick={() => void go()}>{t("Drain")}</button></>}>
      <p>{t("It gives its shards back and takes none until it is resumed. What it has under way it finishes. If it is the only node, nothing fires meanwhile.")}</p>
    </Dialog>
  );
}
