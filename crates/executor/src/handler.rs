//! Handlers: async functions that take a [`Context`] and return a [`Done`] or a [`Failure`].

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::context::Context;

/// How an attempt ended, as reports say it.
pub use punctual_protocol::native::Outcome;

/// The future of a handler that was called.
pub(crate) type Ending = Pin<Box<dyn Future<Output = Result<Done, Failure>> + Send>>;
type HandlerFn = Box<dyn Fn(Context) -> Ending + Send + Sync>;
type BeforeHook =
    Box<dyn Fn(Context) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>> + Send + Sync>;
type AfterHook = Box<dyn Fn(Context, AttemptEnd) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A handler and its name in jobs.
pub(crate) struct Handler {
    pub(crate) name: String,
    pub(crate) call: HandlerFn,
}

/// The handlers, the hooks and the grace of an executor.
pub(crate) struct Rules {
    pub(crate) handlers: BTreeMap<String, Arc<Handler>>,
    pub(crate) before: Vec<BeforeHook>,
    pub(crate) after: Vec<AfterHook>,
    pub(crate) grace: Duration,
}

/// The result of a run: text, which is passed to jobs that run after this one. Cut to 64 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub(crate) message: String,
}

impl From<()> for Done {
    fn from((): ()) -> Done {
        Done::default()
    }
}

impl From<String> for Done {
    fn from(message: String) -> Done {
        Done { message }
    }
}

impl From<&str> for Done {
    fn from(message: &str) -> Done {
        Done { message: message.to_owned() }
    }
}

impl From<serde_json::Value> for Done {
    fn from(value: serde_json::Value) -> Done {
        Done { message: value.to_string() }
    }
}

/// Why an attempt failed. `?` turns every error into one, with all its causes in the text.
///
/// It does not implement [`std::error::Error`] itself, which makes the conversion possible.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    pub(crate) message: String,
    pub(crate) retry: bool,
}

impl Failure {
    /// A failure after which another attempt may help.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), retry: true }
    }

    /// What a handler returns after [`Context::cancelled`].
    pub fn cancelled() -> Failure {
        Failure::new("cancelled")
    }

    /// The same failure without a retry.
    pub fn no_retry(mut self) -> Failure {
        self.retry = false;
        self
    }

    /// The text.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether another attempt may help.
    pub fn may_be_retried(&self) -> bool {
        self.retry
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = if self.retry { "" } else { " (another attempt is of no use)" };
        write!(f, "{}{advice}", self.message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Many errors repeat their cause in their own words.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = error.source();
        }
        Failure::new(message)
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptEnd {
    /// The outcome.
    pub outcome: Outcome,
    /// The result, or what went wrong.
    pub message: String,
    /// Whether another attempt may help.
    pub retry: bool,
}

impl AttemptEnd {
    pub(crate) fn new(outcome: Outcome, message: impl Into<String>) -> AttemptEnd {
        AttemptEnd { outcome, message: message.into(), retry: true }
    }
}

/// The handler of an async function.
pub(crate) fn plain<F, R, D>(name: String, function: F) -> Handler
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<D, Failure>> + Send + 'static,
    D: Into<Done>,
{
    let call = move |context: Context| -> Ending {
        let ending = function(context);
        Box::pin(async move { ending.await.map(Into::into) })
    };
    Handler { name, call: Box::new(call) }
}

/// The handler of an async function that takes the payload as a type.
pub(crate) fn typed<P, F, R, D>(name: String, function: F) -> Handler
where
    P: DeserializeOwned,
    F: Fn(Context, P) -> R + Send + Sync + 'static,
    R: Future<Output = Result<D, Failure>> + Send + 'static,
    D: Into<Done>,
{
    let call = move |context: Context| -> Ending {
        match context.payload_as::<P>() {
            Ok(payload) => {
                let ending = function(context, payload);
                Box::pin(async move { ending.await.map(Into::into) })
            }
            Err(failure) => Box::pin(std::future::ready(Err(failure))),
        }
    };
    Handler { name, call: Box::new(call) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no number")
        }
    }

    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_error_becomes_a_failure_with_its_causes() {
        let failing = || -> Result<(), Failure> { Err(Outer("x".parse::<u8>().unwrap_err()))? };
        let failure = failing().unwrap_err();
        assert_eq!(failure.message(), "no number: invalid digit found in string");
        assert!(failure.may_be_retried() && !failure.no_retry().may_be_retried());
    }
}
