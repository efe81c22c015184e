//! The text of a case: what happens to a pipeline, and what is expected of it.
//!
//! It has a description and then sections, each headed by a line that begins with `=== `. The guide (`docs/guide/testing.md`) lists
//! them.

use std::path::{Path, PathBuf};

use tidemill_connect::formats::timestamp_ns;
use tidemill_sql::parse_duration_ns;

use super::{CaseError, instead_of};

/// What a line begins with that heads a section.
pub(super) const HEAD: &str = "=== ";

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub path: PathBuf,
    /// What it is about, as written.
    pub about: String,
    pub sections: Vec<Section>,
}

/// A section of a case.
#[derive(Clone, Debug)]
pub(super) struct Section {
    /// The line of its head, counted from 1.
    pub line: usize,
    /// Its head as written.
    pub head: String,
    pub kind: SectionKind,
    /// The lines below its head, or the file that it names.
    pub body: Body,
}

/// The lines of a section.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    /// The number of the first line.
    pub line: usize,
    pub text: String,
    /// The file that has them, if the case has not.
    pub file: Option<PathBuf>,
}

/// What a section says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SectionKind {
    /// The clock is moved to this time.
    At(Moment),
    /// Rows of a source, by the names of columns.
    Rows(String),
    /// What a source's connector reads, in the source's own format.
    Text(String),
    /// A source counts as idle.
    Idle(String),
    /// A cycle ends.
    Cycle,
    /// The pipeline is stopped: no source has ended.
    Stop,
    /// The rows of a sink or view.
    Expect(ExpectedOutput),
    /// The records of a source that could not be read, and rows that may not come in.
    DeadLetters(String),
    /// Rows for which an expression could not be computed, and results that are NULL because they could not be.
    FailedRows,
    /// How many rows came too late.
    Late(u64),
    /// The pipeline does not begin, or fails.
    Refused,
}

/// A time of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Absolute(u64),
    /// This much later.
    Later(u64),
}

/// How the rows of a sink or view are compared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExpectedOutput {
    pub name: String,
    pub mode: Mode,
    /// By how much numbers may differ.
    pub within: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// All rows, in this order.
    Exact,
    /// All rows, in any order.
    Unordered,
    /// These rows and others.
    Subset,
}

impl Case {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Case, CaseError> {
        let error = |reason: String| CaseError::of_file(path, reason);
        let text = std::fs::read(path).map_err(|reason| error(format!("it cannot be read: {reason}")))?;
        let text =
            String::from_utf8(text).map_err(|_| error("it is not UTF-8 text; is it a case?".into()))?;
        Case::parse(path, &text)
    }

    /// Reads the text of a file of this name.
    pub fn parse(path: &Path, text: &str) -> Result<Case, CaseError> {
        let lines: Vec<&str> = text.lines().collect();
        let heads: Vec<usize> =
            (0..lines.len()).filter(|line| lines[*line].starts_with(HEAD.trim_end())).collect();
        let first = heads.first().copied().unwrap_or(lines.len());
        let mut case = Case { path: path.to_owned(), about: joined(&lines[..first]), sections: Vec::new() };
        for (index, head) in heads.iter().enumerate() {
            let end = heads.get(index + 1).copied().unwrap_or(lines.len());
            case.sections.push(case.section(*head, lines[*head], &lines[head + 1..end])?);
        }
        case.check()?;
        Ok(case)
    }

    /// An error at a line of the case.
    pub fn error(&self, line: usize, reason: impl Into<String>) -> CaseError {
        CaseError { place: format!("{}, line {line}", self.path.display()), reason: reason.into() }
    }

    fn section(&self, index: usize, head: &str, lines: &[&str]) -> Result<Section, CaseError> {
        let line = index + 1;
        let error = |reason: String| self.error(line, reason);
        let mut words = Words { rest: tokens(&head[HEAD.trim_end().len()..]).map_err(error)? };
        let kind = words.kind().map_err(|reason| self.error(line, reason))?;
        let file = words.file().map_err(|reason| self.error(line, reason))?;
        if let Some(word) = words.rest.first() {
            return Err(self.error(line, format!("'{word}' is not expected here; {}", usage(&kind))));
        }
        let mut body = Body { line: line + 1, text: joined(lines), file };
        match (&kind, body.file.is_some(), body.text.is_empty()) {
            (
                SectionKind::At(_)
                | SectionKind::Idle(_)
                | SectionKind::Cycle
                | SectionKind::Stop
                | SectionKind::Late(_),
                _,
                false,
            ) => {
                return Err(self.error(
                    line + 1,
                    format!("'{head}' has no lines below it; begin a section: === rows SOURCE"),
                ));
            }
            (_, true, false) => {
                return Err(self
                    .error(line + 1, "the section names a file, so it has no lines of its own".to_owned()));
            }
            (SectionKind::Rows(_) | SectionKind::Text(_) | SectionKind::Expect(_), true, true) => {
                let named = body.file.take().unwrap_or_default();
                let path = self.path.parent().unwrap_or(Path::new("")).join(named);
                body.text = std::fs::read_to_string(&path).map_err(|reason| {
                    self.error(
                        line,
                        format!(
                            "'{}' cannot be read: {reason}; files are looked for beside the case",
                            path.display()
                        ),
                    )
                })?;
                (body.line, body.file) = (1, Some(path));
            }
            (_, true, _) => {
                return Err(self.error(line, "only rows, text and expect may name a file".to_owned()));
            }
            _ => {}
        }
        Ok(Section { line, head: head.to_owned(), kind, body })
    }

    fn check(&self) -> Result<(), CaseError> {
        if self.sections.is_empty() {
            return Err(self
                .error(1, "there is no section; begin with === rows SOURCE, and end with === expect SINK"));
        }
        let stop = self.sections.iter().position(|section| section.kind == SectionKind::Stop);
        let is_input = |section: &&Section| section.kind.is_input();
        if let Some(late) = stop.and_then(|stop| self.sections[stop + 1..].iter().find(is_input)) {
            return Err(self.error(late.line, "nothing happens after === stop; move it before"));
        }
        let mut seen: Vec<&Section> = Vec::new();
        for section in self.sections.iter().filter(|section| !section.kind.is_input()) {
            if let Some(first) = seen.iter().find(|first| first.kind.is_of_same(&section.kind)) {
                return Err(
                    self.error(section.line, format!("this is expected in line {} already", first.line))
                );
            }
            seen.push(section);
        }
        Ok(())
    }
}

impl Body {
    /// What messages call the place of its first line.
    pub fn place(&self, case: &Case) -> String {
        self.file.as_deref().unwrap_or(&case.path).display().to_string()
    }
}

impl SectionKind {
    /// Whether it happens to the pipeline, and is not expected of it.
    pub fn is_input(&self) -> bool {
        matches!(
            self,
            SectionKind::At(_)
                | SectionKind::Rows(_)
                | SectionKind::Text(_)
                | SectionKind::Idle(_)
                | SectionKind::Cycle
                | SectionKind::Stop
        )
    }

    fn is_of_same(&self, other: &SectionKind) -> bool {
        match (self, other) {
            (SectionKind::Expect(one), SectionKind::Expect(other)) => one.name == other.name,
            (SectionKind::Late(_), SectionKind::Late(_)) => true,
            (one, other) => one == other,
        }
    }
}

/// The lines without the empty ones at their end, each with its end.
fn joined(lines: &[&str]) -> String {
    let end = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    lines[..end].iter().map(|line| format!("{line}\n")).collect()
}

/// The words of a head that are still to be read.
struct Words {
    rest: Vec<String>,
}

impl Words {
    fn next(&mut self) -> Option<String> {
        (!self.rest.is_empty()).then(|| self.rest.remove(0))
    }

    fn name(&mut self, what: &str) -> Result<String, String> {
        self.next().ok_or_else(|| format!("the name of a {what} is missing"))
    }

    fn kind(&mut self) -> Result<SectionKind, String> {
        let word = self.next().unwrap_or_default();
        Ok(match word.as_str() {
            "at" => SectionKind::At(self.moment()?),
            "rows" => SectionKind::Rows(self.name("source")?),
            "text" => SectionKind::Text(self.name("source")?),
            "idle" => SectionKind::Idle(self.name("source")?),
            "cycle" => SectionKind::Cycle,
            "stop" => SectionKind::Stop,
            "expect" => SectionKind::Expect(self.expected()?),
            "dead" if self.rest.first().is_some_and(|word| word == "letters") => {
                self.rest.remove(0);
                SectionKind::DeadLetters(self.name("source")?)
            }
            "failed" if self.rest.first().is_some_and(|word| word == "rows") => {
                self.rest.remove(0);
                SectionKind::FailedRows
            }
            "late" => {
                let count = self.next().unwrap_or_default();
                let wrong = |_| format!("'{count}' is not a number of rows: === late 2");
                SectionKind::Late(count.parse().map_err(wrong)?)
            }
            "refused" => SectionKind::Refused,
            other => {
                let known = [
                    "at",
                    "rows",
                    "text",
                    "idle",
                    "cycle",
                    "stop",
                    "expect",
                    "dead letters",
                    "failed rows",
                    "late",
                    "refused",
                ];
                return Err(format!("'{other}' is not a section{}", instead_of(other, &known)));
            }
        })
    }

    fn moment(&mut self) -> Result<Moment, String> {
        let text = std::mem::take(&mut self.rest).join(" ");
        if let Some(later) = text.strip_prefix('+') {
            let wrong = |why: String| format!("'{later}' is not a length of time: {why}");
            let length = parse_duration_ns(later.trim()).map_err(wrong)?;
            return Ok(Moment::Later(
                u64::try_from(length).map_err(|_| "the clock does not go back".to_owned())?,
            ));
        }
        let time = timestamp_ns(&text).and_then(|time| u64::try_from(time).ok());
        time.map(Moment::Absolute).ok_or_else(|| {
            format!("'{text}' is not a time since 1970; write 2026-03-01 12:00:00 (UTC), or +10 s")
        })
    }

    fn expected(&mut self) -> Result<ExpectedOutput, String> {
        let name = self.name("sink or view")?;
        let mut expected = ExpectedOutput { name, mode: Mode::Unordered, within: 0.0 };
        while let Some(word) = self.rest.first() {
            match word.as_str() {
                "exact" => expected.mode = Mode::Exact,
                "unordered" => expected.mode = Mode::Unordered,
                "subset" => expected.mode = Mode::Subset,
                "within" => {
                    self.rest.remove(0);
                    let text = self.rest.first().cloned().unwrap_or_default();
                    let number =
                        text.parse().ok().filter(|within: &f64| within.is_finite() && *within >= 0.0);
                    expected.within =
                        number.ok_or_else(|| format!("'{text}' is not a tolerance: within 0.001"))?;
                }
                _ => break,
            }
            self.rest.remove(0);
        }
        Ok(expected)
    }

    fn file(&mut self) -> Result<Option<PathBuf>, String> {
        if self.rest.first().is_none_or(|word| word != "from") {
            return Ok(None);
        }
        self.rest.remove(0);
        self.next()
            .map(|path| Some(path.into()))
            .ok_or_else(|| "the name of a file is missing behind 'from'".to_owned())
    }
}

fn usage(kind: &SectionKind) -> &'static str {
    match kind {
        SectionKind::Rows(_) | SectionKind::Text(_) => "write === rows SOURCE, or === rows SOURCE from FILE",
        SectionKind::Expect(_) => {
            "write === expect SINK, then exact, unordered or subset, within 0.001, and from FILE"
        }
        _ => "leave it out",
    }
}

/// The words of a head. A name in double quotes is one.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let (mut found, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(|| "a quote is not closed".to_owned())?,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        found.push(word.to_owned());
        rest = after.trim_start();
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Case, CaseError> {
        Case::parse(Path::new("a.case"), text)
    }

    #[test]
    fn sections_have_heads_lines_and_places() {
        let text = "About it.\n\n=== at 1970-01-01 00:00:01\n=== rows \"my clicks\"\na,b\n1,2\n\n\
                    === at +2 s\n=== expect out exact within 0.5\nn\n1\n";
        let case = parse(text).unwrap();
        assert_eq!(case.about, "About it.\n");
        let kinds: Vec<_> =
            case.sections.iter().map(|section| (section.line, section.kind.clone())).collect();
        let expected = ExpectedOutput { name: "out".into(), mode: Mode::Exact, within: 0.5 };
        let all = vec![
            (3, SectionKind::At(Moment::Absolute(1_000_000_000))),
            (4, SectionKind::Rows("my clicks".into())),
            (8, SectionKind::At(Moment::Later(2_000_000_000))),
            (9, SectionKind::Expect(expected)),
        ];
        assert_eq!(kinds, all);
        assert_eq!((case.sections[1].body.line, case.sections[1].body.text.as_str()), (5, "a,b\n1,2\n"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_a_remedy() {
        for (text, expected) in [
            ("only words\n", "line 1: there is no section; begin with"),
            ("=== row clicks\n", "line 1: 'row' is not a section; did you mean 'rows'?"),
            ("=== rows\n", "line 1: the name of a source is missing"),
            ("x\n=== at noon\n", "line 2: 'noon' is not a time since 1970; write"),
            ("=== at +soon\n", "line 1: 'soon' is not a length of time"),
            ("=== idle a\nb\n", "line 2: '=== idle a' has no lines below it"),
            ("=== rows a b\n", "line 1: 'b' is not expected here; write === rows SOURCE"),
            ("=== rows \"a\n", "line 1: a quote is not closed"),
            ("=== expect a within x\n", "line 1: 'x' is not a tolerance"),
            ("=== expect a\n=== expect a exact\n", "line 2: this is expected in line 1 already"),
            ("=== stop\n=== rows a\n", "line 2: nothing happens after === stop"),
            ("=== late many\n", "line 1: 'many' is not a number of rows"),
            ("=== rows a from\n", "line 1: the name of a file is missing"),
            ("=== rows a from nowhere.csv\n", "line 1: 'nowhere.csv' cannot be read"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("a.case, {expected}")), "{text:?}: {error}");
        }
    }
}
