//! `tidemill journal replay --step`: one cycle after the other, and back.

use std::io::BufRead as _;
use std::path::Path;

use tidemill_engine::{PastCycle, PastStart};
use tidemill_sql::{PastPipeline, PastRange};

use super::exact_replay::{ExactReplay, Shown, look_at};
use crate::exit::Exit;
use crate::sql::{RowOptions, SessionOptions, user_error};
use crate::terminal;

const HELP: &str = "(Enter: the next cycle with rows; p: the previous one; a number: the cycle from there on; \
                    SELECT ...: answered as of this cycle, over sinks, views and state_of('...'); q: the end)";

/// What was asked for.
enum Step {
    Next,
    Previous,
    To(u64),
    Look(String),
    End,
}

/// Steps through the cycles that have rows, as standard input asks.
pub(super) fn step(
    replay: &ExactReplay,
    folder: Option<&Path>,
    rows: RowOptions,
    options: &SessionOptions,
) -> anyhow::Result<Exit> {
    let format = rows.format;
    if !format.is_for_people() {
        return Err(user_error("--step shows cycles to people; use --format table or expanded".to_owned()));
    }
    let open = |first: u64| open(replay, folder, options, first);
    let mut replayed = open(replay.first_shown())?;
    let mut shown = Shown::new(replayed.outputs(), replay.chosen(replayed.outputs(), format)?, format)?;
    let (mut first, mut history) = (replay.first_shown(), Vec::new());
    terminal::tell(HELP);
    loop {
        match next_with_rows(&mut replayed, first, &shown)? {
            Some(cycle) => {
                history.push(cycle.cut.cycle);
                if !shown.cycle(&cycle)? {
                    return Ok(Exit::Done);
                }
            }
            None => terminal::tell("(no later cycle has rows)"),
        }
        let mut step = ask()?;
        while let Step::Look(query) = &step {
            look(replay, folder, query, history.last().copied(), options, rows);
            step = ask()?;
        }
        match step {
            Step::End => return Ok(Exit::Done),
            Step::Next | Step::Look(_) => continue,
            Step::Previous => {
                history.pop();
                first = history.pop().unwrap_or(replay.first_shown());
            }
            Step::To(cycle) => first = cycle,
        }
        replayed = open(first)?;
    }
}

/// Answers a query as of a cycle. What is wrong with it is shown, and the next step is asked for.
fn look(
    replay: &ExactReplay,
    folder: Option<&Path>,
    query: &str,
    cycle: Option<u64>,
    options: &SessionOptions,
    rows: RowOptions,
) {
    let answer = || {
        let (pipeline, past) = replay.open(folder, options)?;
        look_at((pipeline, &past), query, (PastStart::Beginning, cycle), options, rows)
    };
    if let Err(error) = answer() {
        terminal::tell(&format!("{error:#}"));
    }
}

/// A replay that has the cycles from this one on: from the nearest state before it, if there is one.
fn open(
    replay: &ExactReplay,
    folder: Option<&Path>,
    options: &SessionOptions,
    first: u64,
) -> anyhow::Result<PastPipeline> {
    let with = |start: PastStart| {
        let (pipeline, past) = replay.open(folder, options)?;
        let last = replay.last(&past)?;
        Ok(pipeline.replay(&past, PastRange { start, last, ..PastRange::default() })?)
    };
    match with(PastStart::Before(first)) {
        Ok(replayed) => Ok(replayed),
        Err(_) => with(PastStart::Beginning),
    }
}

fn next_with_rows(
    replayed: &mut PastPipeline,
    first: u64,
    shown: &Shown,
) -> anyhow::Result<Option<PastCycle>> {
    while let Some(cycle) = replayed.next_cycle()? {
        if cycle.cut.cycle >= first && shown.has_rows(&cycle) {
            return Ok(Some(cycle));
        }
    }
    Ok(None)
}

fn ask() -> anyhow::Result<Step> {
    loop {
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line)? == 0 {
            return Ok(Step::End);
        }
        match line.trim() {
            "" | "n" => return Ok(Step::Next),
            "p" => return Ok(Step::Previous),
            "q" => return Ok(Step::End),
            query if is_query(query) => return Ok(Step::Look(query.to_owned())),
            other => match other.parse() {
                Ok(cycle) => return Ok(Step::To(cycle)),
                Err(_) => terminal::tell(HELP),
            },
        }
    }
}

/// Whether a line is a query rather than a step.
fn is_query(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default().to_lowercase();
    ["select", "with", "values", "explain"].contains(&word.as_str())
}
