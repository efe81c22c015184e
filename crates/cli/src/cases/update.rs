//! `--update`: a case with what came out in place of what it expects.

use super::case_file::{Case, HEAD, SectionKind};
use super::comparison::letter_table;
use super::run::{Ended, Outcome};
use super::table::{Table, head_name};
use super::{CaseError, typed_rows};

/// Returns the text of a case that expects how this run has ended.
///
/// # Errors
/// If the case expects what the pipeline cannot give, or rows that a file has.
pub(super) fn updated(case: &Case, ended: &Ended) -> Result<String, CaseError> {
    let outcome = match ended {
        Ended::Wrong(error) => return Err(error.clone()),
        Ended::Refused(why) => {
            let inputs = case.sections.iter().filter(|section| section.kind.is_input());
            let mut text = beginning(case);
            inputs.for_each(|section| {
                push(&mut text, &section.head, &section.body.text, section.body.file.is_some())
            });
            push(&mut text, &format!("{HEAD}refused"), &format!("{}\n", why.trim_end()), false);
            return Ok(text);
        }
        Ended::Done(outcome) => outcome,
    };
    let mut text = beginning(case);
    for section in case.sections.iter().filter(|section| section.kind != SectionKind::Refused) {
        let is_file = section.body.file.is_some();
        let (head, body) = match &section.kind {
            SectionKind::Expect(_) if is_file => {
                return Err(case.error(
                    section.line,
                    "the rows are in a file, which --update does not write; put them below",
                ));
            }
            SectionKind::Expect(expected) => {
                let (came, schema) = super::comparison::output(case, section, outcome, &expected.name)?;
                let owner = format!("'{}'", expected.name);
                let names = named_columns(case, &section.body.text, schema, &owner, section.body.line)?;
                let came = names.and_then(|names| came.project(&names)).unwrap_or_else(|| came.clone());
                let came = if expected.mode == super::case_file::Mode::Exact { came } else { came.sorted() };
                (section.head.clone(), came.csv())
            }
            SectionKind::DeadLetters(name) => match outcome.dead_letters.get(name) {
                Some(letters) => (section.head.clone(), letter_table(letters).csv()),
                None => continue,
            },
            SectionKind::FailedRows if outcome.failed.0 == 0 => continue,
            SectionKind::FailedRows => (section.head.clone(), failed(outcome)),
            SectionKind::Late(_) => (format!("{HEAD}late {}", outcome.late), String::new()),
            _ => (section.head.clone(), section.body.text.clone()),
        };
        push(&mut text, &head, &body, is_file);
    }
    add_missing(&mut text, case, outcome);
    Ok(text)
}

/// Adds what the case does not mention: all rows, if it expects none, and what was left out.
fn add_missing(text: &mut String, case: &Case, outcome: &Outcome) {
    let has = |found: &dyn Fn(&SectionKind) -> bool| case.sections.iter().any(|section| found(&section.kind));
    if !has(&|kind| matches!(kind, SectionKind::Expect(_))) {
        for (name, (table, _)) in &outcome.outputs {
            let table: Table = table.clone().sorted();
            push(text, &format!("{HEAD}expect {}", head_name(name)), &table.csv(), false);
        }
    }
    for (name, letters) in &outcome.dead_letters {
        if !has(&|kind| *kind == SectionKind::DeadLetters(name.clone())) {
            push(
                text,
                &format!("{HEAD}dead letters {}", head_name(name)),
                &letter_table(letters).csv(),
                false,
            );
        }
    }
    if outcome.failed.0 > 0 && !has(&|kind| *kind == SectionKind::FailedRows) {
        push(text, &format!("{HEAD}failed rows"), &failed(outcome), false);
    }
}

fn failed(outcome: &Outcome) -> String {
    outcome.failed.1.iter().map(|sample| format!("{sample}\n")).collect()
}

fn beginning(case: &Case) -> String {
    if case.about.is_empty() { String::new() } else { format!("{}\n", case.about) }
}

/// Appends a section.
pub(super) fn push(text: &mut String, head: &str, body: &str, is_file: bool) {
    let last = text.lines().last().unwrap_or_default();
    // Heads without lines stand together, but for what is expected.
    let is_together = last.is_empty() || last.starts_with(HEAD.trim_end()) && !is_expectation(head);
    if !is_together {
        text.push('\n');
    }
    text.push_str(head);
    text.push('\n');
    if !is_file {
        text.push_str(body);
    }
}

fn is_expectation(head: &str) -> bool {
    let words = ["expect", "dead", "failed", "late", "refused"];
    head.split_whitespace().nth(1).is_some_and(|word| words.contains(&word))
}

/// The columns that a section names; `None`: it names none.
fn named_columns(
    case: &Case,
    text: &str,
    schema: &tidemill_engine::arrow::schema::Schema,
    owner: &str,
    line: usize,
) -> Result<Option<Vec<String>>, CaseError> {
    let Some(header) = text.lines().next().filter(|header| !header.trim_start().starts_with('{')) else {
        return Ok(None);
    };
    let names = typed_rows::csv_names(header);
    let known = names.iter().map(|name| {
        let field = typed_rows::column(schema, name);
        field
            .map(|field| field.name().clone())
            .map_err(|reason| case.error(line, format!("{owner} {reason}")))
    });
    known.collect::<Result<_, _>>().map(Some)
}
