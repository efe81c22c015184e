//! The integration tests of a package are one binary, `tests/integration`, so that they are linked once.

use std::collections::BTreeMap;

use crate::Finding;

/// Tests that are a binary of their own, each with the reason.
pub const ALONE: &[(&str, &str)] = &[
    ("crates/allocator/tests/given_back.rs", "measures the memory of its process"),
    ("crates/allocator/tests/threads_that_keep_little.rs", "measures the memory of its process"),
    ("crates/engine/tests/idle.rs", "measures the processor time of its process"),
    ("crates/engine/tests/pools.rs", "looks at the scheduling of all threads of its process"),
    ("crates/realtime/tests/deadlines.rs", "runs threads at real-time priority"),
    ("crates/realtime/tests/pools.rs", "runs threads at real-time priority"),
    ("crates/realtime/tests/queries.rs", "runs threads at real-time priority"),
    ("crates/server/tests/idle_sessions.rs", "counts the threads of its process"),
    ("crates/server/tests/logs.rs", "sets the log of its process"),
    ("crates/tidemill/tests/source_threads.rs", "looks at the scheduling of all threads of its process"),
];

/// Returns the binaries beyond one for each package.
pub fn check(paths: &[String]) -> Vec<Finding> {
    let mut binaries: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in paths {
        let Some((package, test)) = path.split_once("/tests/") else { continue };
        let is_binary = test.ends_with(".rs")
            && (!test.contains('/') || test.matches('/').count() == 1 && test.ends_with("/main.rs"));
        if is_binary && !ALONE.iter().any(|(alone, _)| alone == path) {
            binaries.entry(package).or_default().push(path);
        }
    }
    let mut findings = Vec::new();
    for (package, binaries) in binaries {
        let main = format!("{package}/tests/integration/main.rs");
        let spare = binaries.iter().filter(|path| binaries.len() > 1 && **path != main);
        findings.extend(spare.map(|path| Finding {
            file: (*path).to_owned(),
            line: 0,
            rule: "test-binaries",
            found: "another test binary of its package".to_owned(),
            remedy: format!(
                "make it a module of {main}, or add it to `ALONE` in tests/tidy/src/test_binaries.rs with the reason"
            ),
        }));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(paths: &[&str]) -> Vec<String> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        check(&paths).into_iter().map(|finding| finding.file).collect()
    }

    #[test]
    fn a_second_binary_is_found() {
        let main = "crates/a/tests/integration/main.rs";
        assert!(
            found(&[main, "crates/a/tests/integration/b.rs", "crates/a/tests/integration/c/mod.rs"])
                .is_empty()
        );
        assert!(found(&["crates/a/tests/one.rs", "crates/b/tests/one.rs"]).is_empty());
        assert_eq!(found(&[main, "crates/a/tests/b.rs"]), ["crates/a/tests/b.rs"]);
        assert_eq!(found(&[main, "crates/a/tests/b/main.rs"]), ["crates/a/tests/b/main.rs"]);
        assert!(
            found(&["crates/server/tests/integration/main.rs", "crates/server/tests/idle_sessions.rs"])
                .is_empty()
        );
    }
}
