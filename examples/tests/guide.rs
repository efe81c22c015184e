//! The guide shows code that compiles: each of its Rust blocks stands, line by line, in the example it is taken
//! from.

use std::fs;
use std::path::Path;

#[test]
fn the_guides_code_is_the_examples_code() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| lines(&fs::read_to_string(path).expect("a readable file"));
    let guide = fs::read_to_string(here.join("../docs/guide/own-operator.md")).expect("the guide");
    let example = read(&here.join("running_statistics.rs"));
    let blocks: Vec<&str> =
        guide.split("\n```rust\n").skip(1).map(|rest| rest.split("\n```").next().unwrap_or(rest)).collect();
    assert!(blocks.len() >= 4, "the guide has {} blocks of Rust", blocks.len());
    for block in blocks {
        let block_lines = lines(block);
        assert!(
            example.windows(block_lines.len()).any(|window| window == block_lines),
            "examples/running_statistics.rs does not contain this block of the guide:\n{block}"
        );
    }
}

/// Without indentation and empty lines.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
