//! The repository keeps its rules. They are listed in the documentation of `tidemill_tidy`:
//!
//! * `timely`, `datafusion`: only `tidemill-flow` depends on the first, only `tidemill-sql` and `tidemill-trees` on the second.
//! * `edges`: packages depend on each other downwards only.
//! * `cycles`: modules of a crate do not import each other in circles.
//! * `decisions`: each has a status and is listed.
//! * `features`: what is expensive is built with one set of features.
//! * `glossary`: what `docs/glossary.md` names exists, and what it retires does not.
//! * `map`: `ARCHITECTURE.md` names every folder with code, and no other.
//! * `output`: libraries do not print or exit.
//! * `unsafe`: only in listed files.
//! * `file-length`, `line-length`: at most 800 lines of 120 characters.
//! * `folder-files`, `type-files`: at most 25 files in a folder, and a type's methods in at most 3.
//! * `module-files`: the module of a folder is its `mod.rs`.
//! * `names`: no `utils`, `common`, `helpers`, `misc`.
//! * `prose`: no phrase that reads as translated.
//! * `test-binaries`: one for each package.
//! * `machine-paths`: no path of one machine.

use std::fs;
use std::process::Command;

use tidemill_tidy::{
    Finding, cycles, decisions, edges, features, glossary, map, prose, sources, spread, test_binaries, tree,
};

#[test]
fn packages_depend_downwards() {
    let packages = edges::packages(&metadata()).expect("readable metadata");
    assert!(packages.iter().any(|package| package.folder == "tests/tidy"), "{packages:?}");
    let mut findings = edges::sole_users(&packages);
    findings.extend(edges::allowed(&packages));
    assert_none(findings);
}

#[test]
fn what_is_expensive_is_built_once() {
    // What the machine that builds needs has features of its own, so it would hide a difference.
    for edges in ["normal,no-proc-macro", "normal,build"] {
        assert_none(built_twice(edges));
    }
}

/// What a package builds otherwise than the workspace does, along these edges.
fn built_twice(edges: &str) -> Vec<Finding> {
    let tree = |packages: &[&str]| {
        let mut arguments = vec!["tree", "--offline", "--edges", edges, "--prefix", "none", "--format"];
        arguments.push(features::FORMAT);
        arguments.extend(packages);
        let tree = features::built(&String::from_utf8(cargo(&arguments)).expect("names are UTF-8"));
        assert!(
            tree.iter().any(|(package, _)| package.starts_with("arrow-array ")),
            "{packages:?}: {tree:?}"
        );
        tree
    };
    let workspace = tree(&["--workspace"]);
    let findings = features::ROOTS
        .iter()
        .flat_map(|root| features::check(root, &tree(&["--package", root]), &workspace));
    findings.collect()
}

#[test]
fn the_map_names_what_exists() {
    let root = tree::root();
    let Ok(text) = fs::read_to_string(root.join(map::FILE)) else {
        println!("skipped: there is no {} yet", map::FILE);
        return;
    };
    let paths = tree::paths(&root).expect("a readable tree");
    assert_none(map::check(&text, &tree::mapped_folders(&paths), |path| root.join(path).exists()));
}

#[test]
fn modules_form_no_circles() {
    assert_none(cycles::check(&rust_files()));
}

#[test]
fn folders_and_types_can_be_surveyed() {
    let paths = tree::paths(&tree::root()).expect("a readable tree");
    let mut findings = spread::folder_files(&paths, spread::LARGE_FOLDERS);
    findings.extend(spread::type_files(&rust_files(), spread::SPREAD_TYPES));
    assert_none(findings);
}

#[test]
fn the_glossary_is_true() {
    let root = tree::root();
    let text = fs::read_to_string(root.join(glossary::FILE)).expect("a glossary");
    assert!(text.contains("`tidemill_core::Cut`"), "it is looked at");
    assert_none(glossary::check(&text, &rust_files(), |path| root.join(path).exists()));
}

#[test]
fn decisions_are_listed_with_their_status() {
    let root = tree::root();
    let index = fs::read_to_string(root.join(decisions::INDEX)).expect("an index");
    let files =
        fs::read_dir(root.join(decisions::FOLDER)).expect("a folder").map(|file| file.expect("readable"));
    let pages: Vec<(String, String)> = files
        .map(|file| (file.file_name().into_string().expect("UTF-8"), file.path()))
        .filter(|(name, _)| name != "README.md")
        .map(|(name, path)| (name, fs::read_to_string(path).expect("a page")))
        .collect();
    assert!(pages.len() > 100, "all are looked at");
    assert_none(decisions::check(&index, &pages));
}

#[test]
fn a_package_has_one_test_binary() {
    assert_none(test_binaries::check(&tree::paths(&tree::root()).expect("a readable tree")));
}

/// The path and the text of every Rust file.
fn rust_files() -> Vec<(String, String)> {
    let root = tree::root();
    let paths = tree::paths(&root).expect("a readable tree").into_iter().filter(|path| path.ends_with(".rs"));
    paths.filter_map(|path| fs::read_to_string(root.join(&path)).ok().map(|text| (path, text))).collect()
}

#[test]
fn files_keep_the_rules() {
    let root = tree::root();
    let mut paths = tree::paths(&root).expect("a readable tree");
    assert!(paths.iter().any(|path| path == "tests/tidy/tests/tidy.rs"), "this file is looked at, too");
    let mut findings: Vec<Finding> = paths.iter().filter_map(|path| sources::names(path)).collect();
    findings.extend(sources::module_files(&paths));
    paths.extend(ROOT_FILES.map(str::to_owned));
    for path in paths.iter().filter(|path| root.join(path).is_file()) {
        // What is not text has no lines to look at.
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            findings.extend(sources::check(path, &text));
            findings.extend(prose::check(path, &text));
        }
    }
    assert_none(findings);
}

/// The repository's texts outside of the folders with code.
const ROOT_FILES: [&str; 8] = [
    "justfile",
    ".ci/run",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.toml",
    "README.md",
    "deny.toml",
];

fn metadata() -> serde_json::Value {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    serde_json::from_slice(&metadata).expect("cargo metadata writes JSON")
}

/// What a command of cargo's writes.
fn cargo(arguments: &[&str]) -> Vec<u8> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(tree::root()).output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {errors}");
    output.stdout
}

fn assert_none(mut findings: Vec<Finding>) {
    findings.sort();
    let list: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(list.is_empty(), "{} findings:\n{}", list.len(), list.join("\n"));
}
