//! Runs the scripts of a case.

use std::collections::BTreeMap;
use std::fmt::Write;

use tidemill_connect::memory::MemorySink;
use tidemill_engine::{Cause, Rebalancing, Sink};
use tidemill_sql::{Planner, Prepared, Reply, Statement, StatementKind, TextError, parse_all};

use super::case::{Case, HEAD};
use crate::golden_support::show;

/// Workers and events in a cycle. The first three have the same cuts.
const RUNS: [(usize, u32); 5] = [(1, 50), (2, 50), (5, 50), (2, 3), (1, 100_000)];
const ROWS_MAX: usize = 1_000_000;

type Rows = Vec<Vec<String>>;

/// The result of a query.
#[derive(Debug, PartialEq)]
struct Outcome {
    names: Vec<String>,
    rows: Rows,
    /// The columns of the key if it is a table.
    key: Option<Vec<usize>>,
    late: u64,
    faults: u64,
    samples: Vec<String>,
    /// Rows of all sources, if there is one.
    rows_in: Option<u64>,
}

/// The text of the case's file, with the results of its scripts.
pub fn case(case: &Case) -> Result<String, String> {
    let folder = case.write_inputs();
    let directory = folder.path.display().to_string();
    let mut text = format!("{}\n", case.about);
    for input in &case.inputs {
        write!(text, "\n{HEAD}{}\n{}\n", input.head, input.text).unwrap();
    }
    for script in &case.scripts {
        write!(text, "\n{HEAD}sql\n{script}\n").unwrap();
        let came = run_script(&case.name, &script.replace("$DIR", &directory))?;
        text.push_str(&came.replace(&directory, "$DIR"));
    }
    // A long line is shown in part, and which part depends on the length of the folder's name.
    let depends =
        |line: &&str| line.contains("tidemill-golden-") || (line.contains("| ... ") && line.contains("$DIR"));
    match text.lines().find(depends) {
        Some(line) => {
            Err(format!("the folder's name moves what is shown; break the statement's line:\n  {line}"))
        }
        None => Ok(text),
    }
}

fn run_script(name: &str, script: &str) -> Result<String, String> {
    let mut text = String::new();
    let (statements, errors) = parse_all(script, &format!("{name}.sql"));
    for error in errors {
        refused(&mut text, &error);
    }
    let mut planner = Planner::new();
    for statement in &statements {
        one_statement(&mut text, &mut planner, statement)?;
    }
    match planner.pipeline() {
        Err(cause) => write!(text, "\n{HEAD}pipeline refused\n{cause}\n").unwrap(),
        Ok(None) => {}
        Ok(Some(pipeline)) => {
            let plan = without_settings(&pipeline.explain());
            match pipeline.open() {
                Err(cause) => write!(text, "\n{HEAD}pipeline refused\n{cause}\n").unwrap(),
                Ok(opened) => {
                    write!(text, "\n{HEAD}pipeline\n{plan}").unwrap();
                    match opened.start().and_then(|running| running.wait()) {
                        Ok((status, _)) => {
                            counts(&mut text, status.late, status.faults.count, &status.faults.samples);
                        }
                        Err(cause) => writeln!(text, "failed: {cause}").unwrap(),
                    }
                }
            }
        }
    }
    Ok(text)
}

fn refused(text: &mut String, error: &TextError) {
    write!(text, "\n{HEAD}refused\n{error}\n").unwrap();
}

fn one_statement(text: &mut String, planner: &mut Planner, statement: &Statement) -> Result<(), String> {
    match planner.execute(statement) {
        Err(error) => refused(text, &error),
        Ok(Reply::Done(done)) => {
            if matches!(statement.kind, StatementKind::Drop { .. }) {
                write!(text, "\n{HEAD}done\n{done}\n").unwrap();
            }
        }
        Ok(Reply::Rows(rows)) => {
            let names: Vec<String> =
                rows.schema().fields().iter().map(|field| field.name().clone()).collect();
            let mut shown = show::rows(&rows);
            if !is_ordered(statement) {
                shown = show::sorted(shown);
            }
            write!(text, "\n{HEAD}rows at once\n{}", show::table(&names, &shown)).unwrap();
        }
        Ok(Reply::Batches(_)) => return Err("nobody has asked for an answer in batches".to_owned()),
        Ok(Reply::Text(shown)) => write!(text, "\n{HEAD}text\n{}", without_settings(&shown)).unwrap(),
        Ok(Reply::Query(prepared) | Reply::Analyze(prepared)) => {
            write!(text, "\n{HEAD}plan\n{}", plan(&prepared)).unwrap();
            if prepared.is_finite() {
                query(text, planner, statement)?
            } else {
                text.push_str("it runs until it is stopped\n")
            }
        }
    }
    Ok(())
}

/// A plan without what differs between machines and runs.
fn plan(prepared: &Prepared) -> String {
    without_settings(&prepared.explain())
}

fn without_settings(text: &str) -> String {
    let is_setting =
        |line: &&str| ["workers: ", "cycles: ", "late rows: "].iter().any(|name| line.starts_with(name));
    let kept = text.lines().filter(|line| !is_setting(line));
    kept.map(|line| format!("{line}\n")).collect()
}

fn query(text: &mut String, planner: &mut Planner, statement: &Statement) -> Result<(), String> {
    let before = planner.settings().clone();
    let mut outcomes = Vec::new();
    for (workers, events) in RUNS {
        let settings = planner.settings_mut();
        (settings.workers, settings.cycle_events, settings.cycle_fixed) = (workers, events, true);
        // No answer may depend on where partitions are.
        settings.rebalancing = Rebalancing::Random { seed: u64::from(events), every_cycles: 1 };
        let Ok(Reply::Query(prepared)) = planner.execute(statement) else {
            return Err(format!("'{}' is a query in one run and none in another", statement.text));
        };
        outcomes.push(run(*prepared).map_err(|cause| cause.to_string()));
    }
    *planner.settings_mut() = before;
    compare(&outcomes, statement)?;
    match outcomes.swap_remove(0) {
        Err(cause) => write!(text, "\n{HEAD}failed\n{cause}\n").unwrap(),
        Ok(outcome) => {
            let rows = match (&outcome.key, is_ordered(statement)) {
                (None, true) => outcome.rows,
                (None, false) => show::sorted(outcome.rows),
                (Some(key), _) => last_of_each(&outcome.rows, key),
            };
            let head = if outcome.key.is_some() { "last rows" } else { "rows" };
            write!(text, "\n{HEAD}{head}\n{}", show::table(&outcome.names, &rows)).unwrap();
            counts(text, outcome.late, outcome.faults, &outcome.samples);
        }
    }
    Ok(())
}

fn counts(text: &mut String, late: u64, faults: u64, samples: &[String]) {
    if late + faults > 0 {
        writeln!(text, "late: {late}, bad: {faults}").unwrap();
        samples.iter().for_each(|sample| writeln!(text, "  {sample}").unwrap());
    }
}

fn run(prepared: Prepared) -> Result<Outcome, Cause> {
    let outputs = prepared.outputs().to_vec();
    let (sinks, kept): (Vec<Box<dyn Sink>>, Vec<_>) = outputs
        .iter()
        .map(|output| {
            let (sink, rows) = MemorySink::new(&output.schema, ROWS_MAX);
            (Box::new(sink) as Box<dyn Sink>, rows)
        })
        .unzip();
    let (status, answer) = prepared.open(sinks)?.start()?.wait()?;
    let batch = match answer {
        Some(answer) => answer,
        None => kept[0].read()?,
    };
    let key = outputs.first().and_then(|output| output.table_key.clone());
    Ok(Outcome {
        names: batch.schema().fields().iter().map(|field| field.name().clone()).collect(),
        rows: show::rows(&batch),
        // A table without its key: all rows are compared.
        key: key.map(|key| key.unwrap_or((0..batch.num_columns()).collect())),
        late: status.late,
        faults: status.faults.count,
        samples: status.faults.samples.clone(),
        rows_in: (status.sources.len() == 1).then(|| status.rows_in()),
    })
}

fn compare(outcomes: &[Result<Outcome, String>], statement: &Statement) -> Result<(), String> {
    let differ = |index: usize, what: &str| {
        let (workers, events) = RUNS[index];
        let shown = |outcome: &Result<Outcome, String>| match outcome {
            Ok(outcome) => format!(
                "{}late {}, bad {}",
                show::table(&outcome.names, &outcome.rows),
                outcome.late,
                outcome.faults
            ),
            Err(cause) => cause.clone(),
        };
        Err(format!(
            "{}\nat {workers} workers in cycles of {events} events, {what} than at {} in cycles of {}:\n{}\nand\n{}",
            statement.text,
            RUNS[0].0,
            RUNS[0].1,
            shown(&outcomes[index]),
            shown(&outcomes[0])
        ))
    };
    for index in 1..outcomes.len() {
        let same_cuts = RUNS[index].1 == RUNS[0].1;
        match (&outcomes[0], &outcomes[index]) {
            // Where an error is found depends on the cuts; that it is one does not.
            (Err(_), Err(_)) => {}
            (Ok(first), Ok(other)) => {
                if (first.late, first.faults) != (other.late, other.faults) {
                    return differ(index, "other counts");
                }
                // Rows of several sources come in whatever order their threads have; and whether the end of a source
                // is known when its last cycle closes depends on time if that cycle is full.
                let cuts_known = first.rows_in.is_some_and(|rows| rows % u64::from(RUNS[0].1) != 0);
                if same_cuts && cuts_known && first.rows != other.rows {
                    return differ(index, "other rows, or in another order,");
                }
                if comparable(first, statement) != comparable(other, statement) {
                    return differ(index, "other rows");
                }
            }
            _ => return differ(index, "another outcome"),
        }
    }
    Ok(())
}

/// What must not depend on the cuts.
fn comparable(outcome: &Outcome, statement: &Statement) -> Rows {
    match &outcome.key {
        Some(key) => last_of_each(&outcome.rows, key),
        None if is_ordered(statement) => outcome.rows.clone(),
        None => show::sorted(outcome.rows.clone()),
    }
}

fn last_of_each(rows: &Rows, key: &[usize]) -> Rows {
    let mut last = BTreeMap::new();
    for row in rows {
        let key: Vec<&String> = key.iter().map(|column| &row[*column]).collect();
        last.insert(key, row.clone());
    }
    show::sorted(last.into_values().collect())
}

fn is_ordered(statement: &Statement) -> bool {
    matches!(&statement.kind, StatementKind::Query(query, _) if query.order_by.is_some())
}
