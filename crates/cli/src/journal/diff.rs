//! `tidemill journal diff`: two versions of a query over the same past, or the results of one query after two cycles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tidemill_connect::formats::encode::{TextEncoder, TextFormat};
use tidemill_engine::PastCycle;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_sql::{Output, PastPipeline, PastRange, rows_of};

use super::database;
use super::show::time_text;
use crate::exit::Exit;
use crate::sql::{SessionOptions, past_of_script, user_error};
use crate::{quantity, terminal};

/// What compares there.
const INSTEAD: &str = "Compare what `tidemill journal replay --data FOLDER --query NAME --look` answers";

/// Compare two versions of a query over the same past, cycle by cycle, or the results of one query after two cycles
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Diff {
    /// The journal's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The script that the journal belongs to
    #[arg(long, value_name = "FILE")]
    script: PathBuf,
    /// Another version of the script. It reads the same sources with the same event times
    #[arg(long, value_name = "FILE", required_unless_present = "cycles", conflicts_with = "cycles")]
    with: Option<PathBuf>,
    /// Compare what a sink or view had after these two cycles, or with --state what an operator held
    #[arg(long, value_names = ["CYCLE", "CYCLE"], num_args = 2)]
    cycles: Option<Vec<u64>>,
    /// Compare what this operator held after the two cycles; EXPLAIN names the operators, such as '2 aggregate'
    #[arg(long, value_name = "OPERATOR", requires = "cycles", conflicts_with = "sink")]
    state: Option<String>,
    /// Which of its rows, if it holds several kinds, such as left
    #[arg(long, value_name = "KIND", requires = "state")]
    rows: Option<String>,
    /// Stop after this cycle
    #[arg(long, value_name = "CYCLE", conflicts_with = "cycles")]
    to_cycle: Option<u64>,
    /// The sink or view to compare; needed only if there are several
    #[arg(long, value_name = "NAME")]
    sink: Option<String>,
    #[command(flatten)]
    options: SessionOptions,
}

/// How many times each row occurs, as text: more often in the second version, or less often.
type Balance = BTreeMap<String, i64>;

impl Diff {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        database::refuse(&self.folder, INSTEAD)?;
        let differences = match (&self.with, self.cycles.as_deref()) {
            (Some(with), _) => self.versions(with)?,
            (None, Some([first, second])) => self.two_cycles(*first.min(second), *first.max(second))?,
            (None, _) => return Err(user_error("name the other version: --with FILE".to_owned())),
        };
        terminal::tell(&format!("({})", quantity::counted(differences, "difference")));
        Ok(if differences == 0 { Exit::Done } else { Exit::Differences })
    }

    /// Compares two versions cycle by cycle; the number of rows that only one of them gave.
    fn versions(&self, with: &Path) -> anyhow::Result<u64> {
        let (mut old, mut new) =
            (self.side(&self.script, self.to_cycle, false)?, self.side(with, self.to_cycle, true)?);
        terminal::show(&format!("--- {}\n+++ {}", self.script.display(), with.display()))?;
        let mut differences = 0;
        loop {
            let (left, right) = (old.next()?, new.next()?);
            // Both are given the same logged cycles.
            let (Some(left), Some(right)) = (left, right) else { return Ok(differences) };
            let mut balance = Balance::new();
            old.count(&left, -1, &mut balance)?;
            new.count(&right, 1, &mut balance)?;
            let (cycle, closed) = (left.cut.cycle, time_text(left.cut.closed_at_ns));
            differences += show(&format!("cycle {cycle}, closed at {closed}"), &balance)?;
        }
    }

    /// Compares the results after two cycles.
    fn two_cycles(&self, first: u64, second: u64) -> anyhow::Result<u64> {
        let mut balance = Balance::new();
        for (cycle, sign) in [(first, -1), (second, 1)] {
            let rows = match &self.state {
                Some(operator) => self.held(operator, cycle)?,
                None => {
                    let side = self.side(&self.script, Some(cycle), false)?;
                    side.replayed.results()?.rows.swap_remove(side.index).1
                }
            };
            count(&mut *TextFormat::csv().encoder(&rows.schema())?, &rows, sign, &mut balance)?;
        }
        terminal::show(&format!("--- after cycle {first}\n+++ after cycle {second}"))?;
        show("", &balance)
    }

    /// What an operator held after a cycle.
    fn held(&self, operator: &str, cycle: u64) -> anyhow::Result<RecordBatch> {
        let (pipeline, past) = past_of_script(&self.script, self.options.planner(), &self.folder)?;
        let range = PastRange { last: Some(cycle), keeps_state: true, ..PastRange::default() };
        let state = pipeline.replay(&past, range)?.results()?.state;
        let state = state.ok_or_else(|| user_error(format!("cycle {cycle} left no state")))?;
        Ok(rows_of(&state, operator, self.rows.as_deref())?)
    }

    fn side(&self, script: &Path, last: Option<u64>, is_other: bool) -> anyhow::Result<Side> {
        let (pipeline, past) = past_of_script(script, self.options.planner(), &self.folder)?;
        let replayed = pipeline.replay(&past, PastRange { last, is_other, ..PastRange::default() })?;
        let index = self.index(script, replayed.outputs())?;
        let encoder = TextFormat::csv().encoder(&replayed.outputs()[index].schema)?;
        Ok(Side { replayed, index, encoder })
    }

    /// The output of a script that is compared.
    fn index(&self, script: &Path, outputs: &[Output]) -> anyhow::Result<usize> {
        let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
        let (script, choices) = (script.display(), names.join(" or --sink "));
        match (&self.sink, names.as_slice()) {
            (Some(name), names) => names.iter().position(|known| known == name).ok_or_else(|| {
                user_error(format!("'{script}' has no sink or view '{name}'; choose --sink {choices}"))
            }),
            (None, [_]) => Ok(0),
            (None, _) => Err(user_error(format!(
                "'{script}' has several sinks and views; choose one: --sink {choices}"
            ))),
        }
    }
}

/// One version of a query, and the output that is compared.
struct Side {
    replayed: PastPipeline,
    index: usize,
    encoder: Box<dyn TextEncoder>,
}

impl Side {
    fn next(&mut self) -> anyhow::Result<Option<PastCycle>> {
        Ok(self.replayed.next_cycle()?)
    }

    fn count(&mut self, cycle: &PastCycle, sign: i64, balance: &mut Balance) -> anyhow::Result<()> {
        cycle.outputs[self.index].iter().try_for_each(|rows| count(&mut *self.encoder, rows, sign, balance))
    }
}

/// Counts rows by their text.
fn count(
    encoder: &mut dyn TextEncoder,
    rows: &RecordBatch,
    sign: i64,
    balance: &mut Balance,
) -> anyhow::Result<()> {
    for row in 0..rows.num_rows() {
        let mut text = Vec::new();
        encoder.rows(&rows.slice(row, 1), &mut text)?;
        let text = String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned();
        *balance.entry(text).or_default() += sign;
    }
    Ok(())
}

/// Shows the rows that one side has more often, below a title if there are any; how many they are.
fn show(title: &str, balance: &Balance) -> anyhow::Result<u64> {
    let mut text = String::new();
    let mut differences = 0;
    for (row, count) in balance.iter().filter(|(_, count)| **count != 0) {
        let sign = if *count < 0 { '-' } else { '+' };
        for _ in 0..count.unsigned_abs() {
            text.push_str(&format!("{sign}{row}\n"));
        }
        differences += count.unsigned_abs();
    }
    if differences > 0 {
        let title = if title.is_empty() { String::new() } else { format!("{title}\n") };
        terminal::show(format!("{title}{text}").trim_end_matches('\n'))?;
    }
    Ok(differences)
}
