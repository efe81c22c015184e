//! Damaged line protocol: the decoder reads what a slow parser reads, whatever the pieces.

use tidemill_fuzz::{cases, corpus, damage};
use tidemill_testing::line_protocol::{compared, oracle};

/// What the slow parser reads, which knows texts only.
fn expected(bytes: &[u8]) -> (Vec<oracle::Point>, u64) {
    let lines: Vec<Option<&str>> =
        bytes.split(|byte| *byte == b'\n').map(|line| std::str::from_utf8(line).ok()).collect();
    let good: Vec<&str> = lines.iter().flatten().copied().collect();
    let (points, bad) = compared::expected(&good.join("\n"));
    (points, bad + (lines.len() - good.len()) as u64)
}

#[test]
fn the_corpus_is_read_as_by_the_slow_parser() {
    for (name, bytes) in corpus::files("line_protocol") {
        assert_eq!(compared::read(&bytes, usize::MAX), expected(&bytes), "{}", name.display());
    }
}

#[test]
fn damaged_lines_are_read_as_by_the_slow_parser() {
    let files = corpus::contents("line_protocol");
    cases::run("line protocol", move |random| {
        let mut bytes = files[random.index(files.len())].clone();
        damage::text(random, &mut bytes, &files);
        let pieces = random.one_of(&[1, 7, 64, usize::MAX]);
        let shown = String::from_utf8_lossy(&bytes);
        assert_eq!(compared::read(&bytes, pieces), expected(&bytes), "in pieces of {pieces}: {shown}");
    });
}
