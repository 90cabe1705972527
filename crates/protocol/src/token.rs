//! Tokens: who may come in, and how far.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What a token may do; each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Viewer,
    /// Start, stop, run, cancel, hand over runs.
    Operator,
    /// Make, change and delete jobs.
    Editor,
    /// Everything, tokens included.
    Admin,
}

impl Role {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Editor => "editor",
            Role::Admin => "admin",
        }
    }

    /// The role of that name.
    pub fn named(name: &str) -> Option<Role> {
        [Role::Viewer, Role::Operator, Role::Editor, Role::Admin].into_iter().find(|role| role.name() == name)
    }
}

/// A token to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// For people.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Whose jobs it may see and touch; `*` stands for all.
    #[serde(default = "all_apps")]
    #[schemars(schema_with = "schema::apps")]
    pub apps: Vec<String>,
    /// From when on it opens nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::maybe_time")]
    pub expires_at: Option<String>,
}

fn all_apps() -> Vec<String> {
    vec!["*".into()]
}

/// A token that was made. This is the only time that it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenMade {
    /// Its number.
    pub id: u32,
    /// The token itself.
    pub token: String,
}

/// A token in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Its number.
    pub id: u32,
    /// For people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Whose jobs it may see and touch.
    pub apps: Vec<String>,
    /// When it was made.
    #[schemars(schema_with = "schema::time")]
    pub created_at: String,
    /// From when on it opens nothing any more.
    #[schemars(schema_with = "schema::maybe_time")]
    pub expires_at: Option<String>,
}

/// All tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// By number.
    pub items: Vec<Token>,
}

/// What signs a browser in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// A token.
    #[schemars(length(max = 512))]
    pub token: String,
}

/// By what somebody is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignedBy {
    /// A token in the request.
    Token,
    /// The cookie of a browser.
    Session,
}

/// Who asks, and what they may do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// What their token is called.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// Whose jobs they may see and touch; `*` stands for all.
    pub apps: Vec<String>,
    /// By what they are known.
    pub by: SignedBy,
    /// From when on that opens nothing any more.
    #[schemars(schema_with = "schema::maybe_time")]
    pub expires_at: Option<String>,
    /// The operations of this document that they may ask for.
    pub permissions: Vec<String>,
}
