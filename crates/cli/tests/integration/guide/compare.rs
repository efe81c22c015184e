//! What is shown against what was printed.

/// What may differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rule {
    pub numbers_vary: bool,
    pub any_order: bool,
}

/// Whether a command printed what is shown.
pub fn is_as_shown(shown: &str, printed: &str, rule: Rule) -> bool {
    let (mut shown, mut printed) = (lines(shown, rule), lines(&without_progress(printed), rule));
    if rule.any_order {
        shown.sort();
        printed.sort();
    }
    matches(&shown, &printed)
}

/// Without the lines that a run prints every few seconds where nobody watches.
fn without_progress(printed: &str) -> String {
    let is_progress = |line: &&str| line.contains(" rows in, ") && line.contains(" rows/s | ");
    printed.lines().filter(|line| !is_progress(line)).map(|line| format!("{line}\n")).collect()
}

/// Line by line; `...` is any lines.
fn matches(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first.trim() == "..." => {
            (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]))
        }
        Some((first, rest)) => {
            printed.split_first().is_some_and(|(line, others)| line == first && matches(rest, others))
        }
    }
}

/// The lines with what may differ replaced.
fn lines(text: &str, rule: Rule) -> Vec<String> {
    let line = |line: &str| {
        let line = without_measures(line.trim_end());
        // How many were answered in time depends on the machine.
        let line = match line.split_once(" answered within max_latency") {
            Some((_, bound)) => format!("... answered within max_latency{bound}"),
            None => line,
        };
        if rule.numbers_vary { without_numbers(&line) } else { line }
    };
    let mut lines: Vec<String> = text.lines().map(line).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

const TIME_UNITS: [&str; 4] = ["ns", "us", "ms", "s"];
const MULTIPLES: [&str; 3] = ["k", "M", "G"];

/// `12.3 ms` becomes `<time>`, `49.8 k rows/s` becomes `<rate> rows/s`.
fn without_measures(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(|char: char| char.is_ascii_digit()) {
        let is_part_of_word =
            rest[..start].ends_with(|char: char| char.is_alphanumeric() || "_'.:-".contains(char));
        let length = rest[start..].find(|char: char| !char.is_ascii_digit() && !".,".contains(char));
        let length = length.unwrap_or(rest.len() - start);
        let (number, behind) = rest[start..].split_at(length);
        text.push_str(&rest[..start]);
        match measure(behind).filter(|_| !is_part_of_word) {
            Some((what, unit)) => {
                text.push_str(what);
                rest = &behind[unit..];
            }
            None => {
                text.push_str(number);
                rest = behind;
            }
        }
    }
    text + rest
}

/// What a number is by what follows it, and how much of that belongs to it.
fn measure(behind: &str) -> Option<(&'static str, usize)> {
    let words = behind.strip_prefix(' ')?;
    let end =
        |text: &str| text.find(|char: char| !char.is_alphanumeric() && char != '/').unwrap_or(text.len());
    let (first, others) = words.split_at(end(words));
    if TIME_UNITS.contains(&first) {
        return Some(("<time>", 1 + first.len()));
    }
    let is_rate = |word: &str| word.ends_with("/s");
    let second = others.strip_prefix(' ').map(|others| &others[..end(others)]);
    match (first, second) {
        (rate, _) if is_rate(rate) => Some(("<rate>", 0)),
        (multiple, Some(rate)) if MULTIPLES.contains(&multiple) && is_rate(rate) => {
            Some(("<rate>", 1 + multiple.len()))
        }
        _ => None,
    }
}

/// Every number becomes `#`, and blanks become one blank.
fn without_numbers(line: &str) -> String {
    let mut text = String::new();
    for word in line.split_whitespace() {
        if !text.is_empty() {
            text.push(' ');
        }
        let mut rest = word;
        while let Some(start) = rest.find(|char: char| char.is_ascii_digit()) {
            let end = rest[start..].find(|char: char| !char.is_ascii_digit() && !".,".contains(char));
            text.push_str(&rest[..start]);
            text.push('#');
            rest = &rest[end.map_or(rest.len(), |end| start + end)..];
        }
        text.push_str(rest);
    }
    // A multiple belongs to its number: `950` and `1.2 k` are both numbers.
    MULTIPLES.iter().fold(text, |text, multiple| text.replace(&format!("# {multiple} "), "# "))
}

#[test]
fn times_rates_and_dots_stand_for_others() {
    let strict = Rule::default();
    let same = |shown: &str, printed: &str, rule| is_as_shown(shown, printed, rule);
    let summary = "7 rows in, 6 rows out in 79.5 ms: 88 rows/s; p50 7.45 ms";
    assert!(same(summary, "7 rows in, 6 rows out in 1.02 s: 49.8 k rows/s; p50 870 us", strict));
    assert!(!same(summary, "7 rows in, 5 rows out in 1.02 s: 49.8 k rows/s; p50 870 us", strict));
    assert!(!same("took 5 seconds", "took 6 seconds", strict));
    let met = "every event was answered within max_latency (20.0 ms)";
    assert!(same(
        met,
        "250 k rows in, 49.9 k rows/s | 400 out\n99.1 % were answered within max_latency (20.0 ms)",
        strict
    ));
    assert!(same("a\n...\nd", "a\nb\nc\nd\n", strict));
    assert!(same("a\n...", "a\n", strict));
    assert!(!same("a\n...\nd", "a\nb\n", strict));
    assert!(!same("a", "a\nb", strict));
    assert!(!same("a\nb", "b\na", strict));
    assert!(same("a\nb", "b\na", Rule { any_order: true, ..strict }));
    let vary = Rule { numbers_vary: true, ..strict };
    assert!(same("185,160 rows in,   300 out", "2 rows in, 1,000 out", vary));
    assert!(!same("185,160 rows in", "2 rows out", vary));
    assert!(same("t12 = 100.000 % of 1.20 k x", "t9 = 99.1 % of 7 x", vary));
}
