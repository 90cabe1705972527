//! Apps: from JSON to their row, and back without the token.

use std::time::Duration;

use punctual_core::model::Text;
use punctual_core::registry::{Dialect, Secret};
use punctual_node::ports::AppRow;
use punctual_node::{AppView, ExecutorView};
use punctual_protocol as wire;
use serde_json::Value;

use super::fields::{Faults, Object, Spot};
use crate::badge::DEFAULT_TOKEN;
use crate::problem::Problem;

/// Stands in place of a token that is set.
const MASKED: &str = "\u{2026}";

/// The longest title, in characters.
const TITLE_MAX: usize = 4_096;

/// How many executors people may list.
const ADDRESSES_MAX: usize = 1_000;

/// The longest access token.
const TOKEN_MAX: usize = 256;

/// The shortest time for which an app may keep its runs, as for the node's.
const RETENTION_MIN: Duration = Duration::from_secs(3_600);

/// What reading an app depends on.
pub(crate) struct AppContext<'a> {
    pub(crate) name: &'a str,
    /// The app that it replaces.
    pub(crate) before: Option<&'a AppRow>,
    pub(crate) allows_default_token: bool,
    /// Says what is wrong with the address of an executor.
    pub(crate) check: &'a dyn Fn(&str) -> Result<(), String>,
}

/// Reads an app. It gets the version of the app that it replaces.
pub(crate) fn read(value: &Value, context: &AppContext<'_>) -> Result<AppRow, Problem> {
    let faults = Faults::default();
    let row = Spot::whole(value, &faults).object().and_then(|object| row(&object, context));
    faults.unless(row)
}

fn row(object: &Object<'_>, context: &AppContext<'_>) -> Option<AppRow> {
    object.ignore(&wire::App::READ_ONLY);
    let title = object.may("title").map_or(Some(String::new()), |spot| spot.prose(TITLE_MAX));
    let addresses = object.may("addresses").map_or(Some(None), |spot| addresses(&spot, context));
    let token = access_token(object, context);
    let retention = retention(object, context);
    object.end();
    Some(AppRow {
        name: context.name.to_owned().into(),
        title: title?.into(),
        addresses: addresses?,
        access_token: token?,
        retention: retention?,
        paused: context.before.and_then(|before| before.paused.clone()),
        version: context.before.map_or(0, |before| before.version),
    })
}

fn addresses(spot: &Spot<'_>, context: &AppContext<'_>) -> Option<Option<Vec<Text>>> {
    if let Some(word) = spot.raw().as_str() {
        return match word {
            "auto" => Some(None),
            _ => spot.refuse("expected auto, or a list of addresses such as http://10.0.0.5:9999"),
        };
    }
    let items = spot.list(ADDRESSES_MAX)?;
    if items.is_empty() {
        return spot.refuse("is empty, so no run could go anywhere; auto lets executors register themselves");
    }
    let mut read: Vec<Text> = Vec::with_capacity(items.len());
    let mut is_good = true;
    for item in &items {
        let Some(address) = address(item, context) else {
            is_good = false;
            continue;
        };
        if read.iter().any(|other| **other == *address) {
            item.fault("is listed twice");
            is_good = false;
        }
        read.push(address.into());
    }
    is_good.then_some(Some(read))
}

fn address(spot: &Spot<'_>, context: &AppContext<'_>) -> Option<String> {
    let text = spot.prose(1_024)?;
    match (context.check)(&text) {
        Ok(()) => Some(text),
        Err(reason) => spot.refuse(reason),
    }
}

/// Left out, it stays as it is: it is never shown, so a client cannot write it back.
fn access_token(object: &Object<'_>, context: &AppContext<'_>) -> Option<Option<Secret>> {
    let kept = context.before.and_then(|before| before.access_token.clone());
    let Some(spot) = object.may("access_token") else { return Some(kept) };
    if spot.is_null() {
        return Some(None);
    }
    let text = spot.text()?;
    if text == MASKED {
        return match kept {
            Some(kept) => Some(Some(kept)),
            None => spot.refuse("stands for a token that is set, and none is; write the token itself"),
        };
    }
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && text.trim() == text;
    match text {
        _ if !(1..=TOKEN_MAX).contains(&text.len()) || !is_plain => spot.refuse(format!(
            "expected 1 to {TOKEN_MAX} visible ASCII characters, without blanks around them"
        )),
        DEFAULT_TOKEN if !context.allows_default_token => {
            let said = "is the one that XXL-JOB ships with, so everybody knows it; take another, or set \
                        [executors] allow_default_token = true";
            spot.refuse(said)
        }
        _ => Some(Some(Secret::new(text))),
    }
}

/// Left out, it stays as it is: a client that does not know the field must not shorten what is kept.
fn retention(object: &Object<'_>, context: &AppContext<'_>) -> Option<Option<Duration>> {
    let Some(spot) = object.may("retention") else {
        return Some(context.before.and_then(|before| before.retention));
    };
    if spot.is_null() {
        return Some(None);
    }
    match spot.span()? {
        kept if kept < RETENTION_MIN => spot.refuse("is too short: at least 1h"),
        kept => Some(Some(kept)),
    }
}

/// An app, its token masked.
pub(crate) fn show(view: &AppView) -> wire::App {
    let row = &view.row;
    wire::App {
        name: row.name.to_string(),
        title: row.title.to_string(),
        addresses: match &row.addresses {
            None => wire::Addresses::default(),
            Some(listed) => wire::Addresses::Listed(listed.iter().map(|one| one.to_string()).collect()),
        },
        access_token: row.access_token.as_ref().map(|_| MASKED.into()),
        retention: row.retention.map(wire::Span),
        paused: row.paused.is_some(),
        paused_since: row.paused.as_ref().map(|paused| paused.since.to_string()),
        paused_by: row.paused.as_ref().map(|paused| paused.by.to_string()),
        paused_reason: row.paused.as_ref().filter(|it| !it.reason.is_empty()).map(|it| it.reason.to_string()),
        executors: view.executors.len() as u64,
        routable: view.executors.iter().filter(|executor| executor.is_routable).count() as u64,
        version: row.version,
    }
}

/// An executor.
pub(crate) fn show_executor(view: &ExecutorView) -> wire::AppExecutor {
    wire::AppExecutor {
        address: view.address.to_string(),
        dialect: match view.dialect {
            Dialect::Classic => wire::ExecutorDialect::Classic,
            Dialect::Trigger => wire::ExecutorDialect::Trigger,
            Dialect::Orth => wire::ExecutorDialect::Orth,
            Dialect::Native => wire::ExecutorDialect::Native,
        },
        last_beat: view.beat_at.map(|at| at.to_string()),
        routable: view.is_routable,
        suspect: view.is_suspect,
        in_flight: view.in_flight as u64,
        handlers: view.handlers.as_ref().map(|all| all.iter().map(ToString::to_string).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn try_read(value: &Value, before: Option<&AppRow>) -> Result<AppRow, Vec<String>> {
        let check = |address: &str| match address.starts_with("http://") {
            true => Ok(()),
            false => Err("is no address".to_owned()),
        };
        let context = AppContext { name: "a", before, allows_default_token: false, check: &check };
        read(value, &context)
            .map_err(|problem| problem.errors.into_iter().map(|error| error.pointer).collect())
    }

    #[test]
    fn what_is_shown_can_be_written_back_and_the_token_stays() {
        let value =
            json!({"title": "Reports", "addresses": ["http://b/", "http://a"], "access_token": "s3cret"});
        let row = try_read(&value, None).unwrap();
        let shown = serde_json::to_value(show(&AppView { row: row.clone(), executors: vec![] })).unwrap();
        assert_eq!((&shown["access_token"], &shown["addresses"]), (&json!(MASKED), &value["addresses"]));
        assert!(!shown.to_string().contains("s3cret"));
        assert_eq!(try_read(&shown, Some(&row)).unwrap(), row);
        assert_eq!(try_read(&shown, None).unwrap_err(), ["/access_token"]);
    }

    #[test]
    fn a_token_stays_when_nobody_speaks_of_it_and_goes_with_null() {
        let row = try_read(&json!({"access_token": "s3cret"}), None).unwrap();
        assert_eq!(try_read(&json!({"title": "x"}), Some(&row)).unwrap().access_token, row.access_token);
        assert_eq!(try_read(&json!({"access_token": null}), Some(&row)).unwrap().access_token, None);
    }

    #[test]
    fn how_long_runs_are_kept_stays_when_nobody_speaks_of_it_and_goes_with_null() {
        let row = try_read(&json!({"retention": "7d"}), None).unwrap();
        assert_eq!(row.retention, Some(Duration::from_secs(7 * 86_400)));
        let shown = show(&AppView { row: row.clone(), executors: vec![] });
        assert_eq!(serde_json::to_value(shown).unwrap()["retention"], json!("7d"));
        assert_eq!(try_read(&json!({"title": "x"}), Some(&row)).unwrap().retention, row.retention);
        assert_eq!(try_read(&json!({"retention": null}), Some(&row)).unwrap().retention, None);
        for wrong in ["59m", "a week", "0s"] {
            assert_eq!(try_read(&json!({"retention": wrong}), None).unwrap_err(), ["/retention"], "{wrong}");
        }
        assert_eq!(try_read(&json!({"retention": 7}), None).unwrap_err(), ["/retention"]);
    }

    #[test]
    fn nothing_said_means_that_executors_register_themselves() {
        for value in [json!({}), json!({"addresses": "auto", "name": "ignored", "version": 7})] {
            let row = try_read(&value, None).unwrap();
            assert_eq!((row.addresses, row.access_token, &*row.name), (None, None, "a"));
        }
    }

    #[test]
    fn what_makes_no_sense_is_said_with_its_place() {
        for (value, places) in [
            (json!({"addresses": []}), vec!["/addresses"]),
            (json!({"addresses": "here"}), vec!["/addresses"]),
            (json!({"addresses": ["http://a", "ftp://b", "http://a"]}), vec!["/addresses/1", "/addresses/2"]),
            (json!({"access_token": "default_token"}), vec!["/access_token"]),
            (json!({"access_token": " x"}), vec!["/access_token"]),
            (json!({"access_token": ""}), vec!["/access_token"]),
            (json!({"titel": "x"}), vec!["/titel"]),
        ] {
            assert_eq!(try_read(&value, None).unwrap_err(), places, "{value}");
        }
    }
}
