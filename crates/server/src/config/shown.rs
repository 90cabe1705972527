//! The configuration in force, for people: every setting with its value and the origin of the value.

use std::path::Path;
use std::time::Duration;

use punctual_core::registry::Secret;
use punctual_protocol::{Configuration, Setting, SettingOrigin, Span};

use super::{Config, LogFormat};

/// Shown in place of a secret that is set.
const HIDDEN: &str = "•••";

/// The value of a setting.
enum Shown {
    Text(String),
    Secret(bool),
    Unset,
}

/// A setting: section, key, and how to show its value.
type Entry = (&'static str, &'static str, fn(&Config) -> Shown);

/// All settings.
#[rustfmt::skip]
const SHOWN: &[Entry] = &[
    ("server", "listen", |c| text(c.listen)),
    ("server", "data", |c| text(c.data.display())),
    ("server", "node", |c| maybe(c.node.as_deref())),
    ("server", "advertise", |c| maybe(c.advertise.as_deref())),
    ("server", "insecure", |c| text(c.is_insecure)),
    ("server", "connections", |c| text(c.connections)),
    ("server", "stop_within", |c| span(c.stop_within)),
    ("server", "trusted_proxies", |c| text(c.proxies_said.join(", "))),
    ("tls", "certificate", |c| path(c.certificate.as_deref())),
    ("tls", "key", |c| path(c.key.as_deref())),
    ("horizon", "plan", |c| span(c.plan)),
    ("horizon", "look_every", |c| span(c.look_every)),
    ("horizon", "load", |c| span(c.load)),
    ("horizon", "load_max", |c| text(c.load_max)),
    ("pool", "fast", |c| text(c.fast)),
    ("pool", "fast_queue", |c| text(c.fast_queue)),
    ("pool", "slow", |c| text(c.slow)),
    ("pool", "slow_queue", |c| text(c.slow_queue)),
    ("pool", "overflow", |c| text(c.overflow)),
    ("classes", "order", |c| text(c.class_order.join(", "))),
    ("classes", "limits", |c| text(c.class_limits.join(", "))),
    ("targets", "allow", |c| text(c.allow.join(", "))),
    ("targets", "public", |c| text(c.allows_public)),
    ("targets", "authorities", |c| path(c.authorities.as_deref())),
    ("executors", "access_token", |c| secret(c.executor_token.as_ref())),
    ("executors", "trust_loopback", |c| text(c.trusts_loopback)),
    ("executors", "allow_default_token", |c| text(c.allows_default_token)),
    ("executors", "scripts", |c| text(c.allows_scripts)),
    ("registry", "beat", |c| span(c.beat)),
    ("registry", "dead", |c| span(c.dead)),
    ("registry", "sweep", |c| span(c.sweep)),
    ("registry", "wait", |c| span(c.wait)),
    ("retention", "runs", |c| span(c.keep_runs)),
    ("retention", "keys", |c| span(c.keep_keys)),
    ("limits", "payload", |c| text(c.payload)),
    ("limits", "batch", |c| text(c.batch)),
    ("limits", "strangers", |c| text(c.strangers)),
    ("limits", "strangers_per_address", |c| text(c.strangers_per_address)),
    ("limits", "connections_per_token", |c| text(c.connections_per_token)),
    ("limits", "kept", |c| text(c.kept)),
    ("limits", "streams", |c| text(c.streams)),
    ("limits", "streams_per_token", |c| text(c.streams_per_token)),
    ("limits", "buffered", |c| text(c.buffered)),
    ("limits", "buffered_per_caller", |c| text(c.buffered_per_caller)),
    ("metrics", "open", |c| text(c.opens_metrics)),
    ("store", "shards", |c| text(c.shards)),
    ("database", "url", |c| secret(c.database.as_ref())),
    ("database", "read_url", |c| secret(c.read_database.as_ref())),
    ("database", "connections", |c| text(c.database_connections)),
    ("database", "readers", |c| text(c.database_readers)),
    ("database", "deadline", |c| span(c.database_deadline)),
    ("database", "ca", |c| path(c.database_ca.as_deref())),
    ("database", "prepared", |c| text(c.prepared)),
    ("database", "auto_migrate", |c| text(c.auto_migrate)),
    ("redis", "url", |c| secret(c.redis.as_ref())),
    ("log", "level", |c| text(&c.log)),
    ("log", "format", |c| text(match c.log_format { LogFormat::Text => "text", LogFormat::Json => "json" })),
];

impl Config {
    /// Every setting with the value in force.
    pub(crate) fn shown(&self) -> Configuration {
        let setting = |(section, key, show): &(&'static str, &'static str, fn(&Config) -> Shown)| {
            let (value, is_secret) = match show(self) {
                Shown::Text(text) => (Some(text), false),
                Shown::Secret(is_set) => (is_set.then(|| HIDDEN.to_owned()), true),
                Shown::Unset => (None, false),
            };
            let origin = self.origins.get(&(*section, *key)).copied().unwrap_or(SettingOrigin::Default);
            Setting { section: (*section).into(), key: (*key).into(), value, origin, is_secret }
        };
        Configuration { items: SHOWN.iter().map(setting).collect() }
    }
}

fn text(value: impl std::fmt::Display) -> Shown {
    Shown::Text(value.to_string())
}

fn maybe(value: Option<&str>) -> Shown {
    value.map_or(Shown::Unset, text)
}

fn path(value: Option<&Path>) -> Shown {
    value.map_or(Shown::Unset, |path| text(path.display()))
}

fn span(value: Duration) -> Shown {
    text(Span(value))
}

fn secret(value: Option<&Secret>) -> Shown {
    Shown::Secret(value.is_some())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use toml::Value;

    use super::super::{SETTINGS, read};
    use super::*;

    #[test]
    fn whatever_can_be_set_is_shown_and_in_the_same_order() {
        let known: Vec<_> = SETTINGS.iter().map(|(section, key, _)| (*section, *key)).collect();
        let shown: Vec<_> = SHOWN.iter().map(|(section, key, _)| (*section, *key)).collect();
        assert_eq!(shown, known);
    }

    #[test]
    fn each_value_says_where_it_comes_from_and_secrets_say_nothing_else() {
        let folder = std::env::temp_dir().join(format!("punctual-shown-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("punctual.toml");
        std::fs::write(&file, "[registry]\nbeat = \"20s\"\nwait = \"30s\"").unwrap();
        let variables: BTreeMap<String, String> = [
            ("PUNCTUAL_REGISTRY__WAIT", "45s"),
            ("PUNCTUAL_EXECUTOR_TOKEN", "s3cret"),
            ("PUNCTUAL_DATABASE__URL", "postgres://punctual:s3cret@db/punctual"),
            ("PUNCTUAL_LOG", "debug"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let flags = vec![("server", "listen", Value::String("127.0.0.1:8080".into()))];
        let config = read(Some(&file), &variables, &flags).unwrap().config;
        std::fs::remove_dir_all(&folder).unwrap();
        let items = config.shown().items;
        let setting = |section: &str, key: &str| {
            let found = items.iter().find(|one| one.section == section && one.key == key).unwrap();
            (found.value.as_deref(), found.origin)
        };
        assert_eq!(setting("server", "listen"), (Some("127.0.0.1:8080"), SettingOrigin::Flag));
        assert_eq!(setting("registry", "beat"), (Some("20s"), SettingOrigin::File));
        assert_eq!(setting("registry", "wait"), (Some("45s"), SettingOrigin::Environment));
        assert_eq!(setting("registry", "dead"), (Some("90s"), SettingOrigin::Default));
        assert_eq!(setting("executors", "access_token"), (Some(HIDDEN), SettingOrigin::Environment));
        assert_eq!(setting("database", "url"), (Some(HIDDEN), SettingOrigin::Environment));
        assert_eq!(setting("redis", "url"), (None, SettingOrigin::Default));
        assert_eq!(setting("log", "level"), (Some("debug"), SettingOrigin::Environment));
        assert!(!format!("{items:?}").contains("s3cret"));
    }
}
