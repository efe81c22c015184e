//! One set of features for what is expensive to build: a package that is built by itself must not need DataFusion or
//! Arrow with other features than the workspace builds them with, or they are built twice.

use std::collections::BTreeSet;

use crate::Finding;

/// Packages whose dependencies take minutes to build. Those below them build Arrow alone, with fewer features, on purpose:
/// they are ready long before DataFusion would be.
pub const ROOTS: [&str; 3] = ["tidemill-cli", "tidemill-sql", "tidemill-bench-sql"];

/// How `cargo tree` writes a line for [`built`].
pub const FORMAT: &str = "{p}|{f}";

/// The foreign packages in the output of `cargo tree --prefix none --format '{p}|{f}'`, each with its features.
pub fn built(tree: &str) -> BTreeSet<(String, String)> {
    let package = |line: &str| {
        let (package, features) = line.split_once('|')?;
        let features = features.trim_end_matches(" (*)").trim();
        // Ours have a path behind their version; what they need is what is compared.
        (!package.contains('/'))
            .then(|| (package.trim_end_matches(" (proc-macro)").to_owned(), features.to_owned()))
    };
    tree.lines().filter_map(package).collect()
}

/// What `root` alone builds otherwise than the workspace does.
pub fn check(
    root: &str,
    alone: &BTreeSet<(String, String)>,
    workspace: &BTreeSet<(String, String)>,
) -> Vec<Finding> {
    let finding = |(package, features): &(String, String)| Finding {
        file: "Cargo.toml".to_owned(),
        line: 0,
        rule: "features",
        found: format!(
            "{root} alone builds {package} with the features [{features}], the workspace does not"
        ),
        remedy:
            "name the features that differ in [workspace.dependencies], so that all packages ask for the same"
                .to_owned(),
    };
    alone.difference(workspace).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_other_features_is_found() {
        let workspace =
            built("arrow-array v59.3.2|chrono-tz\nrustix v1.1.6|fs,std,time (*)\nours v0.1.0 (/a/b)|x\n");
        assert_eq!(workspace.len(), 2);
        let alone = built("rustix v1.1.6|fs,std\narrow-array v59.3.2|chrono-tz (*)\n");
        let found = check("tidemill-sql", &alone, &workspace);
        assert_eq!(found.len(), 1);
        assert!(found[0].found.contains("rustix v1.1.6 with the features [fs,std]"), "{}", found[0]);
        assert!(check("tidemill-sql", &workspace, &workspace).is_empty());
    }
}
