//! The service itself: whether it is alive, whether it is ready, its metrics, and the OpenAPI document.

use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse;
use http::{StatusCode, header};
use punctual_protocol::{Health, Role};

use super::ok;
use crate::app::Front;
use crate::problem::Problem;
use crate::table::{Answer, Call, Operation, Permission};

pub(super) fn operations() -> Vec<Operation> {
    let viewer = Permission::Role(Role::Viewer);
    vec![
        Operation::get("/healthz", "isAlive", |front, call| Box::pin(alive(front, call)))
            .about("service", "Says that the process lives.")
            .needs(Permission::Open)
            .answers::<Health>(200, "It lives."),
        Operation::get("/readyz", "isReady", |front, call| Box::pin(ready(front, call)))
            .about("service", "Says whether this node can do its work.")
            .needs(Permission::Open)
            .answers::<Health>(200, "It can."),
        Operation::get("/metrics", "getMetrics", |front, call| Box::pin(metrics(front, call)))
            .about("service", "Shows the metrics as Prometheus reads them: those of the whole node.")
            .needs(Permission::Whole(Role::Viewer))
            .opened_by(|settings| settings.opens_metrics)
            .answers_as(200, "The metrics.", vec![("text/plain", None)], &[]),
        Operation::get("/openapi.json", "getDocument", |front, call| Box::pin(document(front, call)))
            .about("service", "Shows this document.")
            .needs(viewer)
            .opened_by(|settings| settings.opens_document)
            .answers::<std::collections::BTreeMap<String, serde_json::Value>>(200, "This document."),
    ]
}

async fn alive(_: Arc<Front>, _: Call) -> Answer {
    Ok(ok(&Health { status: "ok".into() }))
}

async fn ready(front: Arc<Front>, _: Call) -> Answer {
    match (front.is_ready)() {
        Ok(()) => Ok(ok(&Health { status: "ready".into() })),
        Err(reason) => Err(Problem::unavailable(reason)),
    }
}

async fn metrics(front: Arc<Front>, _: Call) -> Answer {
    let media = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((StatusCode::OK, media, Body::from((front.metrics)(front.budgets.load()))).into_response())
}

async fn document(front: Arc<Front>, _: Call) -> Answer {
    let media = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::OK, media, Body::from(front.document.clone())).into_response())
}
