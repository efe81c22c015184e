//! Compares the answers of one kind with the expected ones, line by line as they are read.

use std::collections::HashSet;
use std::path::Path;

use tidemill_connect::{Line, LineFile};

use super::answer::{Answer, AnswerKind, Key};
use super::expected::{Expectation, Expected};
use super::report::{Difference, KindReport};
use super::{CheckError, CheckOptions};
use crate::bad_lines::{BadLine, excerpt};
use crate::text_read::parse_file_line;

const NANOSECONDS_F64: f64 = 1e9;

/// Compares the answers in a file (`None`: it does not exist) with the expected ones.
pub(super) fn compare<E: Expectation>(
    kind: AnswerKind,
    answers: Option<&Path>,
    expected: Expected<E>,
    options: &CheckOptions,
) -> Result<KindReport, CheckError> {
    let report = KindReport::new(kind, answers, expected.len(), options.examples);
    let limit_s = options.limits_s.map(|limits| limits[usize::from(kind.number())]);
    let mut comparison = Comparison { kind, expected, limit_s, tolerated: HashSet::new(), report };
    if let Some(path) = answers {
        let mut file = LineFile::open(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        while let Some(chunk) = file.next_chunk()? {
            for line in chunk.lines() {
                comparison.line(&name, &line);
            }
        }
    }
    Ok(comparison.finish())
}

struct Comparison<E> {
    kind: AnswerKind,
    expected: Expected<E>,
    limit_s: Option<u16>,
    /// Answers of 0 where none is expected, each of which may also come once.
    tolerated: HashSet<Key>,
    report: KindReport,
}

impl<E: Expectation> Comparison<E> {
    fn line(&mut self, file: &str, line: &Line<'_>) {
        self.report.answers += 1;
        match parse_file_line(line, |bytes| Answer::parse(self.kind, bytes)) {
            Ok(answer) => self.answer(file, line, &answer),
            Err(error) => {
                let example = || BadLine::new(file, line, error).to_string();
                self.report.add(Difference::Malformed, example);
            }
        }
    }

    fn answer(&mut self, file: &str, line: &Line<'_>, answer: &Answer) {
        let kind = self.kind;
        let place = || {
            let key = answer.key.describe(kind, answer.content.time);
            format!("{file}:{}: {key}", line.number)
        };
        self.check_delay(answer, &place);
        let Some(index) = self.expected.find(answer.key) else {
            return self.unexpected(line, answer, &place);
        };
        if self.expected.answer(index) {
            self.report.add(Difference::Duplicate, || format!("{}: {}", place(), excerpt(line.bytes)));
            return;
        }
        let expectation = self.expected.expectation(index);
        match expectation.difference(kind, &self.expected.steps, &answer.content) {
            Some(difference) => self.report.add(Difference::Wrong, || format!("{}: {difference}", place())),
            None => self.report.right += 1,
        }
    }

    fn check_delay(&mut self, answer: &Answer, place: &dyn Fn() -> String) {
        let Some(limit_s) = self.limit_s else { return };
        let delay_ns = answer.delay_ns();
        let delay_s = delay_ns as f64 / NANOSECONDS_F64;
        self.report.delay_max_s = Some(self.report.delay_max_s.map_or(delay_s, |max| max.max(delay_s)));
        if delay_ns > i64::from(limit_s) * 1_000_000_000 {
            let example = || format!("{}: after {delay_s} s, the limit is {limit_s} s", place());
            self.report.add(Difference::Late, example);
        }
    }

    fn unexpected(&mut self, line: &Line<'_>, answer: &Answer, place: &dyn Fn() -> String) {
        let example = || format!("{}: {}", place(), excerpt(line.bytes));
        if self.kind != AnswerKind::Expenditure || answer.content.value != 0 {
            self.report.add(Difference::Extra, example);
        } else if self.tolerated.insert(answer.key) {
            self.report.tolerated += 1;
        } else {
            self.report.add(Difference::Duplicate, example);
        }
    }

    fn finish(mut self) -> KindReport {
        for (key, expectation) in self.expected.unanswered() {
            self.report.add(Difference::Missing, || {
                let wanted = expectation.describe(self.kind, &self.expected.steps);
                format!("{}: {wanted}", key.describe(self.kind, expectation.time()))
            });
        }
        self.report
    }
}
