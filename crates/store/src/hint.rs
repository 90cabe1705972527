//! Hints as text, for whatever carries texts from node to node: Redis, or the database itself.

use punctual_core::model::{ChangeId, JobId, RunId, ShardId};
use punctual_node::ports::Hint;

/// A hint in one line.
pub(crate) fn write(hint: &Hint) -> String {
    match hint {
        Hint::Arrived(shard) => format!("arrived {}", shard.0),
        Hint::Changed(change, job) => format!("changed {} {}", change.0, job.0),
        Hint::Settled(run) => format!("settled {}", run.0),
        Hint::Vacated => "vacated".into(),
        Hint::Drain => "drain".into(),
        Hint::Drained(node) => format!("drained {node}"),
        Hint::Resume => "resume".into(),
        Hint::Missing(url) => format!("missing {url}"),
        Hint::Carry { url, to } => format!("carry {to} {url}"),
    }
}

/// What was told; none if it is nothing that may be told this way. A wish is taken only from an authenticated sender.
pub(crate) fn read(text: &str) -> Option<Hint> {
    if let Some(url) = text.strip_prefix("missing ") {
        return Some(Hint::Missing(url.to_owned().into()));
    }
    if let Some((to, url)) = text.strip_prefix("carry ").and_then(|rest| rest.split_once(' ')) {
        return Some(Hint::Carry { url: url.to_owned().into(), to: to.parse().ok()? });
    }
    let mut words = text.split(' ');
    let hint = match words.next()? {
        "arrived" => Hint::Arrived(ShardId(words.next()?.parse().ok()?)),
        "changed" => Hint::Changed(ChangeId(words.next()?.parse().ok()?), JobId(words.next()?.parse().ok()?)),
        "settled" => Hint::Settled(RunId(words.next()?.parse().ok()?)),
        "vacated" => Hint::Vacated,
        _ => return None,
    };
    words.next().is_none().then_some(hint)
}

/// Whether a hint may be told over a channel without authentication.
pub(crate) fn is_open(hint: &Hint) -> bool {
    !matches!(hint, Hint::Drain | Hint::Drained(_) | Hint::Resume)
}

#[cfg(test)]
mod tests {
    use punctual_core::model::NodeId;

    use super::*;

    #[test]
    fn hints_are_read_as_they_were_written_and_wishes_are_not() {
        for hint in [
            Hint::Arrived(ShardId(63)),
            Hint::Changed(ChangeId(u64::MAX), JobId(7)),
            Hint::Settled(RunId(1 << 52)),
            Hint::Vacated,
            Hint::Missing("native:shop/one two".into()),
            Hint::Carry { url: "native:shop/one two".into(), to: NodeId(7) },
        ] {
            assert_eq!(read(&write(&hint)), Some(hint));
        }
        for text in
            ["", "drain", "drained 7", "resume", "arrived", "arrived x", "arrived 1 2", "settled -1", "😀"]
        {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
