// In a cluster some figures are those of one node. Where there is more than one, the screen says whose, and leads to the others.
import { useNodes } from "../../api/queries";
import { useReachesAll } from "../../api/session";
import type { NodeInfo } from "../../api/types";
import { t } from "../../words";

export interface Cluster {
  name: string;
  count: number;
  others: NodeInfo[];
}

/** The node that answers among the others; none where it is the only one. */
export function clusterOf(nodes: NodeInfo[]): Cluster | null {
  const own = nodes.find((node) => node.is_self);
  if (!own || nodes.length < 2) return null;
  return { name: nameOf(own), count: nodes.length, others: nodes.filter((node) => node !== own) };
}

function nameOf(node: NodeInfo): string {
  return node.name || node.node.slice(0, 8);
}

/** The console of another node, where it says where it is. Only addresses of the web are led to. */
export function consoleOf(node: NodeInfo): string | null {
  return /^https?:\/\//i.test(node.address) ? node.address : null;
}

export function useCluster(): Cluster | null {
  const nodes = useNodes(useReachesAll());
  return clusterOf(nodes.data?.items ?? []);
}

/** Whose figures stand here. */
export function OfNode() {
  const cluster = useCluster();
  if (!cluster) return null;
  return <span className="of-node told">{t("on {node} (1 of {n} nodes)", { node: cluster.name, n: cluster.count })}</span>;
}

/** What is one node's, and where the figures of the others are. */
export function OtherNodes() {
  const cluster = useCluster();
  if (!cluster) return null;
  return (
    <p className="small muted">
      {t("What runs, waits and was late, and the charts, are the figures of {node} alone. The other nodes show theirs:", { node: cluster.name })}{" "}
      {cluster.others.map((node) => {
        const address = consoleOf(node);
        return address
          ? <a key={node.node} className="link named" href={address} rel="noreferrer">{nameOf(node)}</a>
          : <span key={node.node} className="named" title={t("It advertises no address")}>{nameOf(node)}</span>;
      })}
    </p>
  );
}
