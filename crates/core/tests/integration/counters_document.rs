//! `docs/counters.md` is generated from the registry of counters and agrees with it.
//!
//! `TIDEMILL_UPDATE=1 cargo test -p tidemill-core --test integration counters_document` rewrites it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use tidemill_core::counters::Counter;

const HEAD: &str = "\
# Counters

Every engine keeps these counters, always. `Running::status` reads them at any time, `Running::join` at the end. They
count from the start of the run. A level goes up and down; all others only go up. A status also holds two histograms of
response times: per event, from its arrival to the commit of its cycle, and per cycle, from its cut to its commit.

This page is generated from the registry in `crates/core/src/counters.rs`, and a test compares the two.
`TIDEMILL_UPDATE=1 cargo test -p tidemill-core --test integration counters_document` rewrites it.

| counter | unit | what it counts |
|---|---|---|
";

#[test]
fn the_document_says_what_the_registry_says() {
    let path = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../docs/counters.md");
    let mut expected = HEAD.to_owned();
    for counter in Counter::ALL {
        let (name, unit, meaning) = (counter.name(), counter.unit(), counter.meaning());
        writeln!(expected, "| `{name}` | {unit} | {meaning} |").expect("a string takes all");
    }
    if std::env::var_os("TIDEMILL_UPDATE").is_some_and(|value| value == "1") {
        fs::write(&path, &expected).expect("docs/counters.md can be written");
    }
    let found = fs::read_to_string(&path).expect("docs/counters.md is there");
    assert!(found == expected, "docs/counters.md is not up to date: run this test with TIDEMILL_UPDATE=1");
}
