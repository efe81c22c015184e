//! The result of a comparison: numbers for programs and a table for people.

use std::fmt;
use std::path::{Path, PathBuf};

use super::AnswerKind;

/// The ways in which answers can differ from the expected ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// An expected answer did not come.
    Missing,
    /// An answer that nothing asked for.
    Extra,
    /// A second answer to the same input line.
    Duplicate,
    /// An answer with another content than the expected one.
    Wrong,
    /// An answer that left the system too late; it may otherwise be right.
    Late,
    /// A line that is not an answer of its file's type.
    Malformed,
}

impl Difference {
    /// All differences in the order of the table's columns.
    pub const ALL: [Difference; 6] = [
        Difference::Missing,
        Difference::Extra,
        Difference::Duplicate,
        Difference::Wrong,
        Difference::Late,
        Difference::Malformed,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        ["missing", "extra", "duplicate", "wrong", "late", "malformed"][self as usize]
    }
}

#[derive(Clone, Debug, Default)]
struct Tally {
    count: u64,
    examples: Vec<String>,
}

/// The comparison of the answers of one kind.
#[derive(Clone, Debug)]
pub struct KindReport {
    /// The kind of answers.
    pub kind: AnswerKind,
    /// The file with the answers; `None` if the run wrote no such file.
    pub answers_file: Option<PathBuf>,
    /// How many answers are expected.
    pub expected: u64,
    /// Lines in the file of answers.
    pub answers: u64,
    /// Answers with the expected content, in time or not.
    pub right: u64,
    /// Answers of 0 to type-3 queries without a row in the history: neither needed nor wrong.
    pub tolerated: u64,
    /// The longest delay from the input's second to Emit, in seconds; `None` if delays were not checked.
    pub delay_max_s: Option<f64>,
    tallies: [Tally; 6],
    examples_max: usize,
}

impl KindReport {
    pub(super) fn new(
        kind: AnswerKind,
        answers_file: Option<&Path>,
        expected: u64,
        examples_max: usize,
    ) -> KindReport {
        KindReport {
            kind,
            answers_file: answers_file.map(Path::to_owned),
            expected,
            answers: 0,
            right: 0,
            tolerated: 0,
            delay_max_s: None,
            tallies: Default::default(),
            examples_max,
        }
    }

    pub(super) fn add(&mut self, difference: Difference, example: impl FnOnce() -> String) {
        let tally = &mut self.tallies[difference as usize];
        tally.count += 1;
        if tally.examples.len() < self.examples_max {
            tally.examples.push(example());
        }
    }

    /// How many answers differ in this way.
    pub fn count(&self, difference: Difference) -> u64 {
        self.tallies[difference as usize].count
    }

    /// Descriptions of the first ones.
    pub fn examples(&self, difference: Difference) -> &[String] {
        &self.tallies[difference as usize].examples
    }
}

/// The comparison of all answers of a run. Its `Display` is a table, the examples and a verdict.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// Types 0 to 3.
    pub kinds: [KindReport; 4],
}

impl CheckReport {
    /// How many answers of all kinds differ in this way.
    pub fn count(&self, difference: Difference) -> u64 {
        self.kinds.iter().map(|kind| kind.count(difference)).sum()
    }

    /// Nothing is missing, extra, duplicate, wrong, late or malformed.
    pub fn is_exact(&self) -> bool {
        Difference::ALL.iter().all(|difference| self.count(*difference) == 0)
    }

    fn verdict(&self) -> String {
        let right: u64 = self.kinds.iter().map(|kind| kind.right).sum();
        let delays_checked = self.kinds.iter().any(|kind| kind.delay_max_s.is_some());
        if !self.is_exact() {
            let counts =
                Difference::ALL.iter().map(|difference| (self.count(*difference), difference.name()));
            let found = counts.filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}"));
            return format!("NOT EXACT: {}", found.collect::<Vec<_>>().join(", "));
        }
        match (right, delays_checked) {
            (0, _) => "exact, but empty: no answer was expected, and there is none".to_owned(),
            (_, true) => format!("EXACT: all {right} expected answers are there, right and in time"),
            (_, false) => {
                format!("EXACT: all {right} expected answers are there and right; delays not checked")
            }
        }
    }

    fn write_examples(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in &self.kinds {
            for difference in Difference::ALL {
                let (count, examples) = (kind.count(difference), kind.examples(difference));
                if count == 0 || examples.is_empty() {
                    continue;
                }
                writeln!(formatter, "\ntype {}, {}:", kind.kind.number(), difference.name())?;
                for example in examples {
                    writeln!(formatter, "  {example}")?;
                }
                let hidden = count - examples.len() as u64;
                if hidden > 0 {
                    writeln!(formatter, "  and {hidden} more")?;
                }
            }
        }
        Ok(())
    }

    fn write_notes(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in &self.kinds {
            let number = kind.kind.number();
            if kind.answers_file.is_none() {
                writeln!(
                    formatter,
                    "type {number}: the run wrote no type{number}.csv or type{number}.csv.zst"
                )?;
            }
            if kind.tolerated > 0 {
                let count = kind.tolerated;
                writeln!(formatter, "type {number}: {count} answers of 0 without a history row, tolerated")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<24}{:>10}{:>10}{:>10}", "type", "expected", "answers", "right")?;
        for difference in Difference::ALL {
            write!(formatter, "{:>10}", difference.name())?;
        }
        writeln!(formatter, "{:>12}", "max delay")?;
        for kind in &self.kinds {
            let name = format!("{} {}", kind.kind.number(), kind.kind.name());
            write!(formatter, "{name:<24}{:>10}{:>10}{:>10}", kind.expected, kind.answers, kind.right)?;
            for difference in Difference::ALL {
                write!(formatter, "{:>10}", kind.count(difference))?;
            }
            match kind.delay_max_s {
                Some(delay_s) => writeln!(formatter, "{delay_s:>10.3} s")?,
                None => writeln!(formatter, "{:>12}", "-")?,
            }
        }
        self.write_notes(formatter)?;
        self.write_examples(formatter)?;
        write!(formatter, "\n{}", self.verdict())
    }
}
