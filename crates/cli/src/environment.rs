//! The one place where the environment is read.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The variables that are used: ours, and those that say where people keep their files.
#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
pub fn variables() -> BTreeMap<String, String> {
    let is_ours = |name: &str| name.starts_with("PUNCTUAL_") || name == "HOME" || name == "XDG_DATA_HOME";
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).filter(|(name, _)| is_ours(name)).collect()
}

/// The names of all our variables, whatever their values: programs that we start must not inherit them.
#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
pub(crate) fn own_names() -> Vec<std::ffi::OsString> {
    let is_ours = |name: &std::ffi::OsString| name.as_encoded_bytes().starts_with(b"PUNCTUAL_");
    std::env::vars_os().map(|(name, _)| name).filter(is_ours).collect()
}

/// The default folder for data.
pub fn data_folder(variables: &BTreeMap<String, String>) -> PathBuf {
    if let Some(said) = variables.get("PUNCTUAL_DATA") {
        return PathBuf::from(said);
    }
    let home = || variables.get("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let absolute = |path: &String| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let shared = variables.get("XDG_DATA_HOME").and_then(absolute).or_else(home);
    shared.unwrap_or_else(|| PathBuf::from(".")).join("punctual")
}
