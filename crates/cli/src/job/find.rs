//! The job that an argument names: an id, or app/name.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::client::{Client, Route};
use crate::failure::Failure;
use crate::table::cell;

/// How an argument names a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobReference {
    Id(u32),
    Name { app: String, name: String },
}

impl FromStr for JobReference {
    type Err = String;

    fn from_str(text: &str) -> Result<JobReference, String> {
        if let Ok(id) = text.parse() {
            return Ok(JobReference::Id(id));
        }
        match text.split_once('/') {
            Some((app, name)) if !app.is_empty() && !name.is_empty() => {
                Ok(JobReference::Name { app: app.into(), name: name.into() })
            }
            _ => Err("a job is its id, or app/name".into()),
        }
    }
}

impl fmt::Display for JobReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobReference::Id(id) => write!(f, "{id}"),
            JobReference::Name { app, name } => write!(f, "{app}/{name}"),
        }
    }
}

/// The job as the API shows it.
pub(crate) async fn job(client: &Client, job: &JobReference) -> Result<Value, Failure> {
    match job {
        JobReference::Id(id) => client.get(Route::to(["jobs", &id.to_string()])).await,
        JobReference::Name { app, name } => {
            let found = named(client, app, name).await?;
            found.ok_or_else(|| Failure::not_found(format!("there is no job {job}")))
        }
    }
}

/// Its id; an id that was given is not looked up.
pub(crate) async fn id(client: &Client, reference: &JobReference) -> Result<u32, Failure> {
    if let JobReference::Id(id) = reference {
        return Ok(*id);
    }
    let found = job(client, reference).await?;
    let id = found["id"].as_u64().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| Failure::Broken("the server answered a job without an id".into()))
}

/// The job of that name, if there is one.
pub(crate) async fn named(client: &Client, app: &str, name: &str) -> Result<Option<Value>, Failure> {
    match client.get(by_name(app, name)).await {
        Ok(job) => Ok(Some(job)),
        Err(Failure::Refused { status: 404, .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

pub(super) fn by_name(app: &str, name: &str) -> Route {
    Route::to(["jobs", "by-name", app, name])
}

/// app/name.
pub(crate) fn name(job: &Value) -> String {
    format!("{}/{}", cell(job, "/app"), cell(job, "/name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_an_id_or_app_and_name() {
        assert_eq!("17".parse(), Ok(JobReference::Id(17)));
        let named = |app: &str, name: &str| JobReference::Name { app: app.into(), name: name.into() };
        assert_eq!("reports/nightly".parse(), Ok(named("reports", "nightly")));
        assert_eq!("a/b/c".parse(), Ok(named("a", "b/c")));
        assert_eq!("5/6".parse(), Ok(named("5", "6")));
        for text in ["", "nightly", "/x", "x/", "-1", "99999999999"] {
            assert!(text.parse::<JobReference>().is_err(), "{text:?}");
        }
    }
}
