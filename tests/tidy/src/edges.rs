//! Which package may depend on which.

use serde_json::Value;

use crate::Finding;

/// The dependencies among our own packages: package, and what it may depend on. Applications (`apps/`) stand
/// in for one line, [`APPS_ALLOWED`]; tests, examples and benchmarks may depend on anything of ours.
pub const ALLOWED: &[(&str, &[&str])] = &[
    ("tidemill-core", &[]),
    ("tidemill-split", &["tidemill-core"]),
    ("tidemill-plan", &["tidemill-core", "tidemill-split"]),
    ("tidemill-flow", &["tidemill-core", "tidemill-split", "tidemill-plan", "tidemill-realtime"]),
    ("tidemill-operators", &["tidemill-core", "tidemill-split"]),
    ("tidemill-cluster", &[]),
    ("tidemill-connect", &["tidemill-core", "tidemill-journal"]),
    ("tidemill-journal", &["tidemill-core"]),
    ("tidemill-store", &["tidemill-core", "tidemill-split"]),
    (
        "tidemill-engine",
        &[
            "tidemill-core",
            "tidemill-split",
            "tidemill-plan",
            "tidemill-flow",
            "tidemill-journal",
            "tidemill-realtime",
        ],
    ),
    (
        "tidemill-sql",
        &[
            "tidemill-core",
            "tidemill-split",
            "tidemill-plan",
            "tidemill-operators",
            "tidemill-store",
            "tidemill-connect",
            "tidemill-engine",
            "tidemill-trees",
            "tidemill-wasm",
        ],
    ),
    ("tidemill-service", &["tidemill-engine", "tidemill-sql", "tidemill-store"]),
    ("tidemill-server", &["tidemill-connect", "tidemill-engine", "tidemill-service", "tidemill-sql"]),
    (
        "tidemill",
        &["tidemill-engine", "tidemill-operators", "tidemill-connect", "tidemill-sql", "tidemill-service"],
    ),
    ("tidemill-allocator", &[]),
    ("tidemill-python", &["tidemill-engine", "tidemill-service", "tidemill-sql"]),
    ("tidemill-realtime", &[]),
    ("tidemill-testing", &["tidemill-connect", "tidemill-core", "tidemill-journal"]),
    ("tidemill-trees", &[]),
    ("tidemill-wasm", &[]),
    (
        "tidemill-cli",
        &[
            "tidemill-allocator",
            "tidemill-bench-processes",
            "tidemill-bench-realtime",
            "tidemill-bench-server",
            "tidemill-bench-split",
            "tidemill-engine",
            "tidemill-connect",
            "tidemill-sql",
            "tidemill-service",
            "tidemill-server",
            "apps/*",
        ],
    ),
];

/// The package that tests share. It is not part of the product, so only tests may depend on it.
pub const TEST_HELPERS: &str = "tidemill-testing";

/// What an application may depend on: the public API only, like a user's own, charts for its benchmarks, and what they use.
pub const APPS_ALLOWED: &[&str] =
    &["tidemill-engine", "tidemill-connect", "tidemill-charts", "tidemill-energy"];

/// Foreign packages that few of ours may name: rule, prefix of their names, our packages.
pub const SOLE_USERS: &[(&str, &str, &[&str])] = &[
    ("timely", "timely", &["tidemill-flow"]),
    ("datafusion", "datafusion", &["tidemill-sql", "tidemill-trees"]),
    ("wasmi", "wasmi", &["tidemill-wasm"]),
];

/// A package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder, relative to the repository's root.
    pub folder: String,
    /// What it depends on, of all kinds (normal, build, development) and for all targets. Tests of all packages may use
    /// [`TEST_HELPERS`].
    pub dependencies: Vec<String>,
}

/// Reads the output of `cargo metadata --no-deps`; an error says what is missing in it.
pub fn packages(metadata: &Value) -> Result<Vec<Package>, String> {
    let text = |value: &Value, key: &str| {
        value[key]
            .as_str()
            .map(str::to_owned)
            .ok_or(format!("cargo metadata has no `{key}` where one is due"))
    };
    let root = text(metadata, "workspace_root")?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no `packages`")?;
    let package = |package: &Value| {
        let manifest = text(package, "manifest_path")?;
        let folder = manifest.trim_start_matches(&root).trim_end_matches("Cargo.toml").trim_matches('/');
        let dependencies = package["dependencies"].as_array().ok_or("a package has no `dependencies`")?;
        Ok(Package {
            name: text(package, "name")?,
            folder: folder.to_owned(),
            dependencies: dependencies
                .iter()
                .filter(|dependency| dependency["kind"] != "dev" || dependency["name"] != TEST_HELPERS)
                .map(|dependency| text(dependency, "name"))
                .collect::<Result<_, String>>()?,
        })
    };
    packages.iter().map(package).collect()
}

/// Rules `timely` and `datafusion`.
pub fn sole_users(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (rule, prefix, users) in SOLE_USERS {
        for package in packages.iter().filter(|package| !users.contains(&package.name.as_str())) {
            for dependency in package.dependencies.iter().filter(|name| name.starts_with(prefix)) {
                findings.push(finding(
                    package,
                    rule,
                    format!("{} depends on `{dependency}`", package.name),
                    format!("only {} may: let it offer what you need, in its own terms", users[0]),
                ));
            }
        }
    }
    findings
}

/// Rule `edges`.
pub fn allowed(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(allowed) = allowed_of(package) else {
            findings.push(finding(
                package,
                "edges",
                format!("nothing says what {} may depend on", package.name),
                "add it to `ALLOWED` in tests/tidy/src/edges.rs".to_owned(),
            ));
            continue;
        };
        let ours =
            package.dependencies.iter().filter_map(|name| packages.iter().find(|other| other.name == *name));
        for dependency in
            ours.filter(|dependency| !allowed.iter().any(|pattern| matches(pattern, dependency)))
        {
            findings.push(finding(
                package,
                "edges",
                format!("{} depends on {}", package.name, dependency.name),
                format!("it may depend on {allowed:?} only: move the code, or decide again (docs/decisions)"),
            ));
        }
    }
    findings
}

/// What a package may depend on; `None` if nothing is said about it.
fn allowed_of(package: &Package) -> Option<&'static [&'static str]> {
    match package.folder.split('/').next() {
        Some("apps") => Some(APPS_ALLOWED),
        Some("tests" | "examples" | "bench") => Some(&["*"]),
        _ => ALLOWED.iter().find(|(name, _)| *name == package.name).map(|(_, allowed)| *allowed),
    }
}

/// A pattern is a package's name, a folder with `/*`, or `*`.
fn matches(pattern: &str, package: &Package) -> bool {
    match pattern.strip_suffix('*') {
        Some(folder) => package.folder.starts_with(folder),
        None => package.name == pattern,
    }
}

fn finding(package: &Package, rule: &'static str, found: String, remedy: String) -> Finding {
    let file = format!("{}/Cargo.toml", package.folder);
    Finding { file, line: 0, rule, found, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
        Package { name: name.to_owned(), folder: folder.to_owned(), dependencies }
    }

    #[test]
    fn packages_are_read_from_metadata() {
        let metadata = serde_json::json!({
            "workspace_root": "/home/me/tidemill",
            "packages": [{
                "name": "tidemill-flow",
                "manifest_path": "/home/me/tidemill/crates/flow/Cargo.toml",
                "dependencies": [{ "name": "timely" }, { "name": "tidemill-testing", "kind": "dev" }],
            }],
        });
        assert_eq!(packages(&metadata), Ok(vec![package("tidemill-flow", "crates/flow", &["timely"])]));
        assert!(packages(&serde_json::json!({ "workspace_root": "/" })).is_err());
    }

    #[test]
    fn one_package_alone_names_timely() {
        let flow = package("tidemill-flow", "crates/flow", &["timely", "timely_communication"]);
        assert_eq!(sole_users(std::slice::from_ref(&flow)), []);
        let engine = package("tidemill-engine", "crates/engine", &["timely_communication"]);
        let findings = sole_users(&[flow, engine]);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].rule, findings[0].file.as_str()), ("timely", "crates/engine/Cargo.toml"));
    }

    #[test]
    fn edges_point_down_only() {
        let road = |dependencies| package("tidemill-linear-road", "apps/linear-road", dependencies);
        let core = |dependencies| package("tidemill-core", "crates/core", dependencies);
        let engine = package("tidemill-engine", "crates/engine", &["tidemill-core", "thiserror"]);
        let cli = package("tidemill-cli", "crates/cli", &["tidemill-linear-road", "tidemill-engine"]);
        let test = package("tidemill-end-to-end", "tests/end-to-end", &["tidemill-core"]);
        let good = [road(&["tidemill-engine"]), core(&[]), engine.clone(), cli, test];
        assert_eq!(allowed(&good), []);

        let bad = [road(&["tidemill-core"]), core(&["tidemill-engine"]), engine];
        let found: Vec<String> = allowed(&bad).into_iter().map(|finding| finding.found).collect();
        assert_eq!(
            found,
            ["tidemill-linear-road depends on tidemill-core", "tidemill-core depends on tidemill-engine"]
        );
    }

    #[test]
    fn an_unknown_crate_is_found() {
        let findings = allowed(&[package("tidemill-new", "crates/new", &[])]);
        assert_eq!(findings.len(), 1);
    }
}
