//! How nodes are kept in rows; the rest is as in every database.

use punctual_core::model::NodeId;

pub(super) use crate::code::*;

/// A node as sixteen bytes, in the order of its number.
pub(super) fn node_code(node: NodeId) -> Vec<u8> {
    node.0.to_be_bytes().to_vec()
}

pub(super) fn node_from(bytes: &[u8]) -> Option<NodeId> {
    bytes.try_into().ok().map(|bytes| NodeId(u128::from_be_bytes(bytes)))
}
