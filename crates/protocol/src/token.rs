//! Access tokens: roles and apps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// The role of a token. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read.
    Viewer,
    /// Start, stop and run jobs; submit and cancel runs.
    Operator,
    /// Create, change and delete jobs.
    Editor,
    /// Everything, including tokens.
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

/// A token to create.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// A name for people.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The apps that it reaches; `*` stands for all.
    #[serde(default = "all_apps")]
    #[schemars(schema_with = "schema::apps")]
    pub apps: Vec<String>,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::maybe_time")]
    pub expires_at: Option<String>,
}

fn all_apps() -> Vec<String> {
    vec!["*".into()]
}

/// A new token. This is the only time that it is shown.
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
    /// A name for people.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The apps that it reaches; `*` stands for all.
    pub apps: Vec<String>,
    /// When it was created.
    #[schemars(schema_with = "schema::time")]
    pub created_at: String,
    /// When it expires.
    #[schemars(schema_with = "schema::maybe_time")]
    pub expires_at: Option<String>,
}

/// All tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// The tokens, by number.
    pub items: Vec<Token>,
}

/// A request to sign a browser in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// A token.
    #[schemars(length(max = 512))]
    pub token: String,
}

/// How a caller is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignedBy {
    /// By a token in the request.
    Token,
    /// By the cookie of a browser.
    Session,
}

/// The caller and its permissions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// The name of the caller's token.
    pub name: String,
    /// The caller's role.
    pub role: Role,
    /// The apps that the caller reaches; `*` stands for all.
    pub apps: Vec<String>,
    /// How the caller is authenticated.
    pub by: SignedBy,
    /// When the token or session expires.
    #[schemars(schema_with = "schema::maybe_time")]
    pub expires_at: Option<String>,
    /// The operations of this document that the caller may use.
    pub permissions: Vec<String>,
}
