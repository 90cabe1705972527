//! The crates of the workspace with their programs, from `cargo metadata`.

use std::path::PathBuf;

use serde_json::Value;

use crate::workspace;

/// A crate of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The name of its package, such as `punctual-core`.
    pub(crate) package: String,
    /// The last part of its folder's path, such as `core`: its name for people.
    pub(crate) short: String,
    pub(crate) has_library: bool,
    pub(crate) binaries: Vec<String>,
    /// Its integration tests.
    pub(crate) tests: Vec<String>,
}

/// The workspace as cargo knows it without resolving dependencies.
pub(crate) struct Workspace {
    pub(crate) members: Vec<Member>,
    /// The target folder, which the environment may have moved.
    pub(crate) target: PathBuf,
}

impl Workspace {
    pub(crate) fn read() -> Result<Workspace, String> {
        let arguments = "metadata --format-version 1 --no-deps --locked";
        let json = workspace::output(workspace::cargo().args(arguments.split(' ')))?;
        let metadata = serde_json::from_str(&json)
            .map_err(|error| format!("cannot read what cargo metadata printed: {error}"))?;
        Ok(Workspace::of(&metadata))
    }

    fn of(metadata: &Value) -> Workspace {
        let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
        let mut members: Vec<Member> = packages.iter().map(Member::of).collect();
        members.sort_by(|one, other| one.short.cmp(&other.short));
        Workspace { members, target: text(&metadata["target_directory"]).into() }
    }
}

impl Member {
    fn of(package: &Value) -> Member {
        let manifest = text(&package["manifest_path"]);
        let targets = package["targets"].as_array().map_or(&[][..], Vec::as_slice);
        let is = |target: &Value, kind: &str| target["kind"].as_array().is_some_and(|k| k[0] == kind);
        let named = |kind: &str| -> Vec<String> {
            targets.iter().filter(|target| is(target, kind)).map(|target| text(&target["name"])).collect()
        };
        Member {
            package: text(&package["name"]),
            short: manifest.rsplit('/').nth(1).unwrap_or_default().to_owned(),
            has_library: targets.iter().any(|target| is(target, "lib")),
            binaries: named("bin"),
            tests: named("test"),
        }
    }

    pub(crate) fn is_called(&self, name: &str) -> bool {
        name == self.package || name == self.short
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crate_is_known_by_its_package_and_by_its_folder() {
        let workspace = Workspace::of(&json!({
            "target_directory": "/somewhere/target",
            "packages": [{
                "name": "punctual-core",
                "manifest_path": "/somewhere/crates/core/Cargo.toml",
                "targets": [
                    {"kind": ["lib"], "name": "punctual_core"},
                    {"kind": ["test"], "name": "wheel_model"},
                    {"kind": ["bench"], "name": "next"},
                    {"kind": ["custom-build"], "name": "build-script-build"},
                ],
            }],
        }));
        assert_eq!(workspace.target, PathBuf::from("/somewhere/target"));
        let [core] = &workspace.members[..] else { panic!("one crate, not {:?}", workspace.members) };
        assert!(core.is_called("core") && core.is_called("punctual-core") && !core.is_called("punctual"));
        assert!(core.has_library && core.binaries.is_empty());
        assert_eq!(core.tests, ["wheel_model"]);
    }
}
