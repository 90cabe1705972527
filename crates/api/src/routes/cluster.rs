//! The cluster: its nodes and shards, what is stored, and the route by which nodes send each other hints.

use std::sync::Arc;

use axum::response::IntoResponse;
use http::StatusCode;
use punctual_core::model::{ChangeId, JobId, RunId, ShardId};
use punctual_node::NodeView;
use punctual_node::ports::{Bucket, Hint};
use punctual_protocol::{
    BucketInfo, Configuration, HINTS_PATH, NodeInfo, Nodes, PeerHint, RetentionInfo, Role, ShardInfo, Shards,
    Span, Storage,
};

use super::ok;
use crate::app::Front;
use crate::body;
use crate::problem::Problem;
use crate::table::{Answer, Call, Operation, Permission};

/// How many hints one message brings at most.
const HINTS_MAX: usize = 10_000;

pub(super) fn operations() -> Vec<Operation> {
    let (viewer, admin) = (Permission::Whole(Role::Viewer), Permission::Whole(Role::Admin));
    vec![
        Operation::get("/api/v1/nodes", "listNodes", |front, call| Box::pin(nodes(front, call)))
            .about("cluster", "Lists the nodes that live, drained ones included.")
            .needs(viewer)
            .answers::<Nodes>(200, "The nodes."),
        Operation::get("/api/v1/shards", "listShards", |front, call| Box::pin(shards(front, call)))
            .about("cluster", "Lists the shards and the nodes that hold them.")
            .needs(viewer)
            .answers::<Shards>(200, "The shards."),
        Operation::get("/api/v1/storage", "showStorage", |front, call| Box::pin(storage(front, call)))
            .about("cluster", "Shows what is stored, day by day.")
            .needs(viewer)
            .answers::<Storage>(200, "What is stored."),
        Operation::get("/api/v1/config", "showConfiguration", |front, call| {
            Box::pin(configuration(front, call))
        })
        .about(
            "cluster",
            "Shows the configuration of the node that is asked, and where each value comes from.",
        )
        .needs(admin)
        .answers::<Configuration>(200, "Every setting; of secrets only whether they are set."),
        Operation::post("/api/v1/nodes/{node}/drain", "drainNode", |front, call| {
            Box::pin(drain(front, call))
        })
        .about("cluster", "Lets a node, by name or `self`, give its shards back and take none.")
        .needs(admin)
        .answers::<Nodes>(200, "It has given them back.")
        .refuses(&[409]),
        Operation::post("/api/v1/nodes/{node}/resume", "resumeNode", |front, call| {
            Box::pin(resume(front, call))
        })
        .about("cluster", "Lets a drained node, by name or `self`, take shards again.")
        .needs(admin)
        .answers::<Nodes>(200, "It takes shards again.")
        .refuses(&[409]),
        Operation::post(HINTS_PATH, "hearHints", |front, call| Box::pin(hear(front, call)))
            .about("cluster", "Takes hints from another node.")
            .needs(Permission::Peer)
            .takes::<Vec<PeerHint>>()
            .answers_nothing(204, "They are looked into."),
    ]
}

async fn nodes(front: Arc<Front>, _: Call) -> Answer {
    Ok(ok(&all_nodes(&front)))
}

fn all_nodes(front: &Front) -> Nodes {
    let mut items: Vec<NodeInfo> = front.node.nodes().into_iter().map(node_info).collect();
    items.sort_by(|a, b| (&a.name, &a.node).cmp(&(&b.name, &b.node)));
    Nodes { items }
}

fn node_info(view: NodeView) -> NodeInfo {
    NodeInfo {
        node: view.node.to_string(),
        name: view.name.into_owned(),
        address: view.address.into_owned(),
        shards: view.shards as u64,
        is_self: view.is_self,
        state: if view.is_drained { "drained" } else { "active" }.into(),
    }
}

async fn shards(front: Arc<Front>, _: Call) -> Answer {
    let items = front.node.shards().into_iter().map(|view| ShardInfo {
        shard: view.shard.0,
        node: view.owner.map(|owner| owner.to_string()),
        epoch: view.epoch.0,
    });
    Ok(ok(&Shards { items: items.collect() }))
}

async fn storage(front: Arc<Front>, _: Call) -> Answer {
    let today = i64::from(RunId::day_of(front.now()?));
    let buckets = front.browse.storage().await?;
    let sum = |of: fn(&Bucket) -> u64| buckets.iter().map(of).sum();
    Ok(ok(&Storage {
        runs: sum(|bucket| bucket.runs),
        closed: sum(|bucket| bucket.closed),
        bytes: sum(|bucket| bucket.bytes),
        buckets: buckets.iter().map(|bucket| bucket_info(bucket, today)).collect(),
        retention: RetentionInfo {
            runs: Span(front.settings.keeps_runs),
            keys: Span(front.settings.keeps_keys),
        },
    }))
}

async fn configuration(front: Arc<Front>, _: Call) -> Answer {
    Ok(ok(&front.settings.configuration))
}

fn bucket_info(bucket: &Bucket, today: i64) -> BucketInfo {
    let start = RunId::day_start(bucket.day).to_string();
    BucketInfo {
        day: start.split('T').next().unwrap_or_default().to_owned(),
        runs: bucket.runs,
        closed: bucket.closed,
        bytes: bucket.bytes,
        age_days: today - i64::from(bucket.day),
    }
}

async fn drain(front: Arc<Front>, call: Call) -> Answer {
    let view = named(&front, &call)?;
    if view.is_drained {
        return Ok(ok(&all_nodes(&front)));
    }
    if !front.node.drain(view.node) {
        return Err(unknown(&call));
    }
    (front.nudge)();
    let has_left = |view: &NodeView| {
        let found = front.node.nodes().into_iter().find(|one| one.node == view.node);
        found.is_none_or(|one| one.is_drained)
    };
    let done = front.wait_for(|| async { Ok(has_left(&view).then_some(())) }).await?;
    match done {
        Some(()) => Ok(ok(&all_nodes(&front))),
        None => Err(no_answer()),
    }
}

async fn resume(front: Arc<Front>, call: Call) -> Answer {
    let view = named(&front, &call)?;
    if view.is_self {
        front.node.come_back();
        (front.nudge)();
        return Ok(ok(&all_nodes(&front)));
    }
    if !view.is_drained {
        return Err(Problem::conflict(format!("the node {} is not drained", view.name)));
    }
    // A hint may be lost, so it is repeated until the node has come back as another life.
    let done = front.wait_for(|| async { Ok((!front.node.resume(view.node)).then_some(())) }).await?;
    match done {
        Some(()) => Ok(ok(&all_nodes(&front))),
        None => Err(no_answer()),
    }
}

fn no_answer() -> Problem {
    Problem::unavailable("the node was asked and has not answered yet; repeating the request is safe")
}

/// The node in the path: by name, by the id of its process, or `self`.
fn named(front: &Front, call: &Call) -> Result<NodeView, Problem> {
    let said = call.path.get("node").map(String::as_str).unwrap_or_default();
    let nodes = front.node.nodes();
    let is_it = |view: &&NodeView| {
        (said == "self" && view.is_self) || view.name == said || view.node.to_string() == said
    };
    let mut found = nodes.iter().filter(is_it);
    let one = found.next().ok_or_else(|| unknown(call))?;
    if found.next().is_some() {
        return Err(Problem::conflict(format!("several nodes are called {said:?}; name one by its `node`")));
    }
    Ok(one.clone())
}

fn unknown(call: &Call) -> Problem {
    let said: String =
        call.path.get("node").map(String::as_str).unwrap_or_default().chars().take(80).collect();
    Problem::not_found(format!("node {said:?}"))
}

async fn hear(front: Arc<Front>, call: Call) -> Answer {
    let hints: Vec<PeerHint> = serde_json::from_slice(&call.body).map_err(|error| body::broken(&error))?;
    if hints.len() > HINTS_MAX {
        return Err(Problem::malformed(format!("at most {HINTS_MAX} hints at once")));
    }
    for hint in hints.into_iter().filter_map(read) {
        front.node.hear(hint);
    }
    (front.nudge)();
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// None if the node that it names cannot be read.
fn read(hint: PeerHint) -> Option<Hint> {
    Some(match hint {
        PeerHint::Arrived(shard) => Hint::Arrived(ShardId(shard)),
        PeerHint::Changed { change, job } => Hint::Changed(ChangeId(change), JobId(job)),
        PeerHint::Settled(run) => Hint::Settled(RunId(run)),
        PeerHint::Vacated => Hint::Vacated,
        PeerHint::Drain => Hint::Drain,
        PeerHint::Drained(node) => Hint::Drained(node.parse().ok()?),
        PeerHint::Resume => Hint::Resume,
        PeerHint::Missing(url) => Hint::Missing(url.into()),
        PeerHint::Carry { url, to } => Hint::Carry { url: url.into(), to: to.parse().ok()? },
    })
}
