//! The configuration of a node as the API shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the value of a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingOrigin {
    /// The default.
    Default,
    /// The configuration file.
    File,
    /// A variable of the environment.
    Environment,
    /// The command line.
    Flag,
}

/// A setting in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Its section in the configuration file.
    pub section: String,
    /// Its key there.
    pub key: String,
    /// The value as it would be written in the file; null if it is not set. A secret that is set is shown as `•••`.
    pub value: Option<String>,
    /// Where the value comes from.
    pub origin: SettingOrigin,
    /// Whether it is a secret.
    pub is_secret: bool,
}

/// The configuration of the answering node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Configuration {
    /// Every setting, in the order of the documentation.
    pub items: Vec<Setting>,
}
