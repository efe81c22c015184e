//! The guide shows code that compiles: each of its Rust blocks stands, line by line, in the example it is taken
//! from.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn the_guides_code_is_the_examples_code() {
    check(
        "rust.md",
        &["word_count.rs", "typed_streams.rs", "sql_in_a_program.rs", "database_in_a_program.rs"],
        8,
    );
    check("real-time.md", &["real_time.rs"], 1);
    check("own-connectors.md", &["own_source.rs", "own_sink.rs", "own_format.rs"], 11);
    check("own-operator.md", &["running_statistics.rs"], 4);
    let own_code = [
        "own_function.rs",
        "own_aggregate.rs",
        "own_table_operator.rs",
        "wasm/wind_chill.rs",
        "wasm/initials.rs",
        "wasm/geometric_mean.rs",
        "wasm/changes.rs",
    ];
    check("sql-your-own-code.md", &own_code, 8);
}

/// Every block of Rust of a page is in one of these examples.
fn check(page: &str, examples: &[&str], blocks_min: usize) {
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap());
    let read = |path: &Path| lines(&fs::read_to_string(path).expect("a readable file"));
    let guide = fs::read_to_string(here.join("../docs/guide").join(page)).expect("the guide");
    let texts: Vec<Vec<String>> = examples.iter().map(|example| read(&here.join(example))).collect();
    let blocks: Vec<&str> =
        guide.split("\n```rust\n").skip(1).map(|rest| rest.split("\n```").next().unwrap_or(rest)).collect();
    assert!(blocks.len() >= blocks_min, "{page} has {} blocks of Rust", blocks.len());
    for block in blocks {
        let block_lines = lines(block);
        let stands_in =
            |text: &Vec<String>| text.windows(block_lines.len()).any(|window| window == block_lines);
        assert!(texts.iter().any(stands_in), "{examples:?} do not contain this block of {page}:\n{block}");
    }
}

/// Without indentation and empty lines.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
