//! How people name a job: by its number, or as `app/name`.

use std::borrow::Cow;

use punctual_core::model::JobId;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::Value;

use super::fields::check_name;

/// A reference to a job, as a caller writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JobRef<'a> {
    /// By its number.
    Id(JobId),
    /// As `app/name`.
    Name(Cow<'a, str>),
}

/// Numbers of jobs fit a signed 32-bit integer.
const ID_MAX: u64 = i32::MAX as u64;

const EXPECTED: &str = "expected a job's number, or app/name";

impl<'a> JobRef<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<JobRef<'a>, String> {
        JobRef::read(Cow::Borrowed(text))
    }

    fn read(text: Cow<'a, str>) -> Result<JobRef<'a>, String> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().and_then(JobRef::numbered).ok_or_else(|| EXPECTED.into());
        }
        let (app, name) = text.split_once('/').ok_or(EXPECTED)?;
        check_name(app)
            .and_then(|()| check_name(name))
            .map_err(|reason| format!("{EXPECTED}; a part {reason}"))?;
        Ok(JobRef::Name(text))
    }

    fn numbered(number: u64) -> Option<JobRef<'static>> {
        (1..=ID_MAX).contains(&number).then_some(JobRef::Id(JobId(number as u32)))
    }

    pub(crate) fn of(value: &'a Value) -> Result<JobRef<'a>, String> {
        match value {
            Value::String(text) => JobRef::parse(text),
            _ => value.as_u64().and_then(JobRef::numbered).ok_or_else(|| EXPECTED.into()),
        }
    }

    /// App and name, if it is named by them.
    pub(crate) fn parts(&self) -> Option<(&str, &str)> {
        match self {
            JobRef::Id(_) => None,
            JobRef::Name(text) => text.split_once('/'),
        }
    }
}

impl std::fmt::Display for JobRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JobRef::Id(id) => write!(f, "job {id}"),
            JobRef::Name(text) => write!(f, "job {text}"),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JobRef<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JobRef<'a>, D::Error> {
        struct Reading;

        impl<'de> Visitor<'de> for Reading {
            type Value = JobRef<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a job's number, or app/name")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<JobRef<'de>, E> {
                JobRef::numbered(number).ok_or_else(|| E::custom(EXPECTED))
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<JobRef<'de>, E> {
                JobRef::read(Cow::Borrowed(text)).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<JobRef<'de>, E> {
                JobRef::read(Cow::Owned(text.to_owned())).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_by_number_or_by_app_and_name() {
        assert_eq!(JobRef::parse("17"), Ok(JobRef::Id(JobId(17))));
        assert_eq!(JobRef::parse("reports/nightly").unwrap().parts(), Some(("reports", "nightly")));
        assert_eq!(JobRef::parse("a/b/c").unwrap().parts(), Some(("a", "b/c")));
        assert_eq!(serde_json::from_str::<JobRef<'_>>("17").unwrap(), JobRef::Id(JobId(17)));
        assert!(matches!(serde_json::from_str(r#""\u0061/b""#).unwrap(), JobRef::Name(_)));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "0", "2147483648", "99999999999999999999", "nightly", "/x", "x/", "a\n/b"] {
            assert!(JobRef::parse(text).is_err(), "{text}");
        }
        for text in ["0", "-1", "1.5", "null", "[]", "\"x\""] {
            assert!(serde_json::from_str::<JobRef<'_>>(text).is_err(), "{text}");
        }
    }
}
