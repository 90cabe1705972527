//! The API's questions to other nodes, if there may be any.

use async_trait::async_trait;
use axum::body::Body;
use bytes::Bytes;
use punctual_api::Others;
use punctual_peers::Questions;

/// The other nodes of the cluster.
pub(crate) struct Cluster(pub(crate) Questions);

#[async_trait]
impl Others for Cluster {
    async fn ask(&self, address: &str, path: &str, body: Bytes, max: usize) -> Result<Bytes, String> {
        self.0.ask(address, path, body, max).await
    }

    async fn listen(&self, address: &str, path: &str, last_id: Option<&str>) -> Result<Body, String> {
        self.0.listen(address, path, last_id).await.map(Body::new)
    }
}

/// A node that is alone.
pub(crate) struct NoOthers;

#[async_trait]
impl Others for NoOthers {
    async fn ask(&self, _: &str, _: &str, _: Bytes, _: usize) -> Result<Bytes, String> {
        Err(ALONE.into())
    }

    async fn listen(&self, _: &str, _: &str, _: Option<&str>) -> Result<Body, String> {
        Err(ALONE.into())
    }
}

pub(crate) const ALONE: &str = "there is no other node";
