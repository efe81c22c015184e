//! The result of a run, beside what a case expects.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::case_file::{Case, ExpectedOutput, Mode, Section, SectionKind};
use super::given_rows::DeadLetter;
use super::run::{Ended, Outcome};
use super::table::{Row, Table, quoted};
use super::typed_rows;
use super::{CaseError, instead_of};

/// The most rows of a difference that are shown.
const SHOWN_MAX: usize = 20;

/// What differs from an expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The line of the section; 0 if the case says nothing of it.
    pub line: usize,
    pub text: String,
}

/// Compares the end of a run with what a case expects.
///
/// # Errors
/// If the case expects what the pipeline cannot give, such as an unknown sink.
pub(super) fn compare(case: &Case, ended: &Ended) -> Result<Vec<Difference>, CaseError> {
    let refused = case.sections.iter().find(|section| section.kind == SectionKind::Refused);
    let outcome = match (ended, refused) {
        (Ended::Wrong(error), _) => return Err(error.clone()),
        (Ended::Refused(why), Some(section)) => {
            let text = section.body.text.trim();
            let is_same = plain(why).contains(&plain(text));
            let text = format!("another reason is given:\n  - {text}\n  + {}", why.replace('\n', "\n  + "));
            return Ok(if is_same { Vec::new() } else { vec![Difference { line: section.line, text }] });
        }
        (Ended::Refused(why), None) => {
            return Ok(vec![Difference { line: 0, text: format!("the pipeline is refused: {why}") }]);
        }
        (Ended::Done(_), Some(section)) => {
            let text = "the pipeline is not refused, and runs to its end".to_owned();
            return Ok(vec![Difference { line: section.line, text }]);
        }
        (Ended::Done(outcome), None) => outcome,
    };
    let mut differences = Vec::new();
    for section in &case.sections {
        let text = match &section.kind {
            SectionKind::Expect(expected) => expect(case, section, expected, outcome)?,
            SectionKind::DeadLetters(name) => {
                let none = Vec::new();
                dead_letters(case, section, outcome.dead_letters.get(name).unwrap_or(&none))?
            }
            SectionKind::FailedRows => failed_rows(&section.body.text, &outcome.failed),
            SectionKind::Late(count) if *count != outcome.late => {
                Some(format!("{} came too late", crate::quantity::counted(outcome.late, "row")))
            }
            _ => None,
        };
        differences.extend(text.map(|text| Difference { line: section.line, text }));
    }
    differences.extend(unexpected(case, outcome));
    Ok(differences)
}

/// What nobody would have missed: records and rows that are left out although the case does not say so.
fn unexpected(case: &Case, outcome: &Outcome) -> Vec<Difference> {
    let mut found = Vec::new();
    for (name, letters) in &outcome.dead_letters {
        let is_expected = |section: &Section| section.kind == SectionKind::DeadLetters(name.clone());
        if !case.sections.iter().any(is_expected) {
            let text = format!(
                "source '{name}' has records that could not be used; expect them with === dead letters {name}:\n{}",
                lines('+', &letter_table(letters).rows)
            );
            found.push(Difference { line: 0, text });
        }
    }
    let (count, samples) = &outcome.failed;
    if *count > 0 && !case.sections.iter().any(|section| section.kind == SectionKind::FailedRows) {
        let count = crate::quantity::counted(*count, "row");
        let text = format!(
            "{count} could not be computed; expect that with === failed rows:\n  + {}",
            samples.join("\n  + ")
        );
        found.push(Difference { line: 0, text });
    }
    found
}

/// The rows that a section expects, with the columns that it names.
pub(super) fn expected_rows(
    case: &Case,
    section: &Section,
    outcome: &Outcome,
    expected: &ExpectedOutput,
) -> Result<(Table, Table), CaseError> {
    let (came, schema) = output(case, section, outcome, &expected.name)?;
    let owner = format!("'{}'", expected.name);
    let batch = typed_rows::read(case, &section.body, schema, &owner)?;
    let wrong = |reason: String| case.error(section.line, reason);
    let rows = Table::of(&batch).map_err(|cause| wrong(cause.to_string()))?;
    let came = came.project(&rows.columns).ok_or_else(|| wrong(format!("{owner} has other columns")))?;
    Ok((rows, came))
}

/// The rows of a sink or view.
pub(super) fn output<'a>(
    case: &Case,
    section: &Section,
    outcome: &'a Outcome,
    name: &str,
) -> Result<&'a (Table, tidemill_engine::arrow::schema::SchemaRef), CaseError> {
    let outputs = &outcome.outputs;
    outputs.get(name).or_else(|| outputs.get(&name.to_lowercase())).ok_or_else(|| {
        let known: Vec<&str> = outputs.keys().map(String::as_str).collect();
        let reason =
            format!("the script has no sink or materialized view '{name}'{}", instead_of(name, &known));
        case.error(section.line, reason)
    })
}

fn expect(
    case: &Case,
    section: &Section,
    expected: &ExpectedOutput,
    outcome: &Outcome,
) -> Result<Option<String>, CaseError> {
    let (wanted, came) = expected_rows(case, section, outcome, expected)?;
    Ok(difference(&wanted, &came, expected))
}

/// What differs between the rows that are wanted and those that came; `None`: nothing that the expectation forbids.
pub(super) fn difference(wanted: &Table, came: &Table, expected: &ExpectedOutput) -> Option<String> {
    let name = &expected.name;
    if expected.mode == Mode::Exact {
        let is_same = |(one, other): (&Row, &Row)| is_equal(one, other, expected.within);
        let first = wanted.rows.iter().zip(&came.rows).position(|both| !is_same(both));
        let is_all = wanted.rows.len() == came.rows.len();
        if first.is_none() && is_all {
            return None;
        }
        let unordered = ExpectedOutput { mode: Mode::Unordered, ..expected.clone() };
        return difference(wanted, came, &unordered).or_else(|| {
            let at = first.unwrap_or_default();
            Some(format!(
                "'{name}' has the same rows in another order; row {} is\n{}{}",
                at + 1,
                lines('-', &wanted.rows[at..=at]),
                lines('+', &came.rows[at..=at])
            ))
        });
    }
    let (missing, unexpected) = unmatched(&wanted.rows, &came.rows, expected.within);
    let unexpected = if expected.mode == Mode::Subset { Vec::new() } else { unexpected };
    if missing.is_empty() && unexpected.is_empty() {
        return None;
    }
    let mut text = format!("'{name}' has other rows ({})\n", wanted.columns.join(","));
    text += &lines('-', &missing);
    text += &lines('+', &unexpected);
    Some(text.trim_end().to_owned())
}

/// The rows of each that the other one has not.
fn unmatched(wanted: &[Row], came: &[Row], within: f64) -> (Vec<Row>, Vec<Row>) {
    // Rows that are equal to the letter first, so that a tolerance takes none from another.
    let mut left: BTreeMap<&Row, usize> = BTreeMap::new();
    came.iter().for_each(|row| *left.entry(row).or_default() += 1);
    let mut missing = Vec::new();
    for row in wanted {
        match left.get_mut(row) {
            Some(count) if *count > 0 => *count -= 1,
            _ => missing.push(row.clone()),
        }
    }
    let mut unexpected = Vec::new();
    for row in came {
        if let Some(count) = left.get_mut(row).filter(|count| **count > 0) {
            *count -= 1;
            unexpected.push(row.clone());
        }
    }
    if within > 0.0 {
        missing.retain(|row| match unexpected.iter().position(|other| is_equal(row, other, within)) {
            Some(place) => {
                unexpected.remove(place);
                false
            }
            None => true,
        });
    }
    (missing, unexpected)
}

fn is_equal(one: &Row, other: &Row, within: f64) -> bool {
    let near = |one: &str, other: &str| match (one.parse::<f64>(), other.parse::<f64>()) {
        // A little is allowed for the subtraction itself.
        (Ok(one), Ok(other)) => (one - other).abs() <= within * (1.0 + 1e-9),
        _ => false,
    };
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one == other || (within > 0.0 && near(one, other)))
}

fn lines(sign: char, rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "  {sign} {}", row.join(","));
    }
    if rows.len() > SHOWN_MAX {
        let _ = writeln!(text, "  {sign} ... and {} more", rows.len() - SHOWN_MAX);
    }
    text
}

/// Dead letters as rows of reason and record.
pub(super) fn letter_table(letters: &[DeadLetter]) -> Table {
    let rows = letters.iter().map(|letter| vec![quoted(&letter.reason), quoted(&letter.record)]);
    Table { columns: vec!["reason".into(), "record".into()], rows: rows.collect() }
}

fn dead_letters(case: &Case, section: &Section, letters: &[DeadLetter]) -> Result<Option<String>, CaseError> {
    let mut lines_of = section.body.text.lines();
    let names = typed_rows::csv_names(lines_of.next().unwrap_or("reason,record"));
    if let Some(wrong) = names.iter().find(|name| *name != "reason" && *name != "record") {
        let reason = format!("dead letters have no column '{wrong}'; they have reason, record");
        return Err(case.error(section.body.line, reason));
    }
    let place = |wanted: &str| names.iter().position(|name| name == wanted);
    let (reason_at, record_at) = (place("reason"), place("record"));
    let mut left = letters.to_vec();
    let mut missing = Vec::new();
    for line in lines_of {
        let fields = typed_rows::csv_names(line);
        let field = |at: Option<usize>| at.and_then(|at| fields.get(at));
        let fits = |letter: &DeadLetter| {
            field(reason_at).is_none_or(|reason| letter.reason.contains(reason.as_str()))
                && field(record_at).is_none_or(|record| letter.record == *record)
        };
        match left.iter().position(fits) {
            Some(found) => drop(left.remove(found)),
            None => missing.push(vec![line.to_owned()]),
        }
    }
    let differs = !missing.is_empty() || !left.is_empty();
    Ok(differs.then(|| {
        let came = letter_table(&left).rows;
        format!("the dead letters are others (reason,record)\n{}{}", lines('-', &missing), lines('+', &came))
    }))
}

fn failed_rows(text: &str, (count, samples): &(u64, Vec<String>)) -> Option<String> {
    let mut left = samples.clone();
    let mut missing: Vec<Row> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match left.iter().position(|sample| sample.contains(line.trim())) {
            Some(found) => drop(left.remove(found)),
            None => missing.push(vec![line.to_owned()]),
        }
    }
    // Of many only the first are known.
    let unknown = count.saturating_sub(samples.len() as u64);
    if missing.len() as u64 <= unknown && left.is_empty() {
        return None;
    }
    let left: Vec<Row> = left.into_iter().map(|sample| vec![sample]).collect();
    Some(format!(
        "the rows that could not be computed are others\n{}{}",
        lines('-', &missing),
        lines('+', &left)
    ))
}

/// A message as one line.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&str]) -> Table {
        let row = |row: &&str| row.split(',').map(str::to_owned).collect();
        Table { columns: vec!["k".into(), "n".into()], rows: rows.iter().map(row).collect() }
    }

    fn differs(mode: Mode, within: f64, wanted: &[&str], came: &[&str]) -> Option<String> {
        let expected = ExpectedOutput { name: "out".into(), mode, within };
        difference(&table(wanted), &table(came), &expected)
    }

    #[test]
    fn each_mode_allows_what_it_says() {
        assert_eq!(differs(Mode::Unordered, 0.0, &["a,1", "b,2"], &["b,2", "a,1"]), None);
        assert_eq!(differs(Mode::Exact, 0.0, &["a,1", "b,2"], &["a,1", "b,2"]), None);
        let order = differs(Mode::Exact, 0.0, &["a,1", "b,2"], &["b,2", "a,1"]).unwrap();
        assert_eq!(order, "'out' has the same rows in another order; row 1 is\n  - a,1\n  + b,2\n");
        let twice = differs(Mode::Unordered, 0.0, &["a,1"], &["a,1", "a,1"]).unwrap();
        assert_eq!(twice, "'out' has other rows (k,n)\n  + a,1");
        assert_eq!(differs(Mode::Subset, 0.0, &["a,1"], &["a,1", "a,1", "c,3"]), None);
        let missing = differs(Mode::Subset, 0.0, &["a,1", "d,4"], &["a,1"]).unwrap();
        assert_eq!(missing, "'out' has other rows (k,n)\n  - d,4");
        assert!(differs(Mode::Exact, 0.0, &["a,1"], &["a,1", "b,1"]).is_some());
    }

    #[test]
    fn a_tolerance_is_for_numbers_only() {
        assert_eq!(differs(Mode::Unordered, 0.1, &["a,1.0", "a,1.1"], &["a,1.1", "a,0.9"]), None);
        assert!(differs(Mode::Unordered, 0.1, &["a,1.0"], &["a,1.2"]).is_some());
        assert!(differs(Mode::Exact, 0.1, &["a,x"], &["a,y"]).is_some());
        assert!(differs(Mode::Exact, 0.0, &["a,1.0"], &["a,1.00"]).is_some());
    }
}
