//! The crates of the workspace and all their dependencies, as `cargo metadata` resolves them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::workspace;

pub(super) struct Graph {
    /// Every package of the resolved graph, ours included.
    pub(super) packages: Vec<Package>,
}

#[derive(Clone, Default)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: Option<String>,
    /// The path of our own crate's manifest from the root; nothing for a package from elsewhere.
    pub(super) manifest: Option<String>,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Clone)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// The name it goes by in the manifest.
    pub(super) key: String,
    /// Needed by the crate itself, and not only by its tests or its build script.
    pub(super) is_normal: bool,
}

impl Graph {
    pub(super) fn read() -> Result<Graph, String> {
        // All features, because some users turn on what is off by default.
        let arguments = "metadata --format-version 1 --locked --all-features";
        let json = workspace::output(workspace::cargo().args(arguments.split(' ')))?;
        let metadata = serde_json::from_str(&json)
            .map_err(|error| format!("cannot read what cargo metadata printed: {error}"))?;
        // The lock file, and so the metadata, also names what no combination of our features ever compiles.
        let arguments = "tree --workspace --locked --all-features --target all --edges all --prefix none";
        let tree = workspace::output(workspace::cargo().args(arguments.split(' ')))?;
        Ok(Graph::of(&metadata).compiled(&tree))
    }

    /// Without the packages that the tree does not name.
    fn compiled(mut self, tree: &str) -> Graph {
        let named: BTreeSet<(&str, &str)> = tree.lines().filter_map(named).collect();
        self.packages.retain(|package| named.contains(&(&*package.name, &*package.version)));
        self
    }

    fn of(metadata: &Value) -> Graph {
        let root = format!("{}/", text(&metadata["workspace_root"]));
        let members = list(&metadata["workspace_members"]);
        let manifest = |package: &Value| text(&package["manifest_path"]).replacen(&root, "", 1);
        let package = |package: &Value| Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: package["license"].as_str().map(str::to_owned),
            manifest: members.contains(&package["id"]).then(|| manifest(package)),
            dependencies: list(&package["dependencies"]).iter().map(dependency).collect(),
        };
        Graph { packages: list(&metadata["packages"]).iter().map(package).collect() }
    }

    /// Our own crates, each with the path of its manifest.
    pub(super) fn members(&self) -> impl Iterator<Item = (&Package, &str)> {
        let packages = self.packages.iter();
        packages.filter_map(|package| Some((package, package.manifest.as_deref()?)))
    }
}

/// Name and version of a line such as `serde v1.0.0 (proc-macro) (*)`.
fn named(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(" v")?;
    Some((name, rest.split(' ').next()?))
}

fn dependency(value: &Value) -> Dependency {
    let name = text(&value["name"]);
    let key = value["rename"].as_str().unwrap_or(&name).to_owned();
    let is_normal = value["kind"].is_null();
    Dependency { name, key, is_normal }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_never_compiled_does_not_count() {
        let package = |name: &str, version: &str| Package {
            name: name.into(),
            version: version.into(),
            ..Package::default()
        };
        let packages = vec![package("a", "1.0.0"), package("a", "2.0.0"), package("b", "0.1.0")];
        let graph = Graph { packages }.compiled("a v1.0.0\nb v0.1.0 (proc-macro) (*)\n\n");
        let names: Vec<_> = graph.packages.iter().map(|it| format!("{} {}", it.name, it.version)).collect();
        assert_eq!(names, ["a 1.0.0", "b 0.1.0"]);
    }

    #[test]
    fn metadata_is_read_down_to_renamed_and_test_only_dependencies() {
        let graph = Graph::of(&json!({
            "workspace_root": "/src",
            "workspace_members": ["ours"],
            "packages": [{
                "id": "ours", "name": "punctual-core", "version": "0.1.0", "license": "Apache-2.0",
                "manifest_path": "/src/crates/core/Cargo.toml",
                "dependencies": [
                    {"name": "punctual-calendar", "rename": "calendar", "kind": null},
                    {"name": "proptest", "rename": null, "kind": "dev"},
                ],
            }, {"id": "theirs", "name": "jiff"}],
        }));
        let members: Vec<_> = graph.members().collect();
        let [(core, "crates/core/Cargo.toml")] = members[..] else { panic!("one crate is ours") };
        assert_eq!((core.name.as_str(), core.licence.as_deref()), ("punctual-core", Some("Apache-2.0")));
        let [calendar, proptest] = &core.dependencies[..] else { panic!("core has two dependencies") };
        assert_eq!((calendar.key.as_str(), calendar.is_normal), ("calendar", true));
        assert_eq!((proptest.key.as_str(), proptest.is_normal), ("proptest", false));
    }
}
