//! `tidemill journal skip DIR pipeline.sql --positions 120`

use std::path::PathBuf;

use tidemill_engine::{Positions, Skip as SkipPlan};

use super::{database, show};
use crate::exit::Exit;
use crate::sql::{RowFormat, SessionOptions, skip_script};
use crate::{quantity, terminal};

/// What helps where no row can be skipped.
const INSTEAD: &str = "Other queries read its rows, too, so none can be skipped. If a query stops because of a row, \
                       DROP the query, and create it again with a WHERE that leaves out such rows, or with \
                       start = 'now'";
/// More rows than this cannot be skipped at once: the command is meant for single rows.
const POSITIONS_MAX: u64 = 10_000;
/// More of them are not shown.
const SHOWN_MAX: usize = 20;

/// Skip rows that stop the pipeline, in every run from now on, and show what that changes
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Skip {
    /// The journal's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The script of the pipeline, which must not be running; its sinks report how far they are
    #[arg(value_name = "FILE")]
    script: PathBuf,
    /// The stream; needed only if there are several
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
    /// The rows to skip: 120, or 120..123 (both included), or several separated by commas
    #[arg(long, value_name = "POSITIONS", value_parser = parse_positions)]
    positions: Positions,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: SessionOptions,
}

impl Skip {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        database::refuse(&self.folder, INSTEAD)?;
        let asked = (self.stream.as_deref(), &self.positions);
        let found = skip_script(&self.script, self.options.planner(), &self.folder, asked, !self.dry_run)?;
        if found.positions.is_empty() {
            terminal::tell(&format!(
                "position {} of '{}' is already skipped; there is nothing to do",
                self.positions, found.stream
            ));
            return Ok(Exit::Done);
        }
        self.show(&found)?;
        tell(&found);
        if self.dry_run {
            terminal::tell("nothing was changed; run the command without --dry-run to do this");
            Ok(Exit::Differences)
        } else {
            terminal::tell("done: every run skips these rows from now on");
            Ok(Exit::Done)
        }
    }

    /// Shows the rows to skip.
    fn show(&self, found: &SkipPlan) -> anyhow::Result<()> {
        let rows = show::rows(&self.folder, &found.stream, &found.positions, SHOWN_MAX)?;
        RowFormat::default().show(&rows)?;
        let more = found.positions.count().saturating_sub(rows.num_rows() as u64);
        if more > 0 {
            terminal::tell(&format!("(and {} more)", quantity::count(more)));
        }
        Ok(())
    }
}

/// Tells what skipping them changes.
fn tell(found: &SkipPlan) {
    let rows = quantity::counted(found.positions.count(), "row");
    let known = match found.known {
        0 => String::new(),
        known => format!("; {} of them are already skipped", quantity::count(known)),
    };
    let (stream, positions) = (&found.stream, &found.positions);
    terminal::tell(&format!("skipping {rows} of '{stream}', at position {positions}{known}"));
    match found.of_cycles {
        None => terminal::tell("  no cycle contains them yet"),
        Some((first, last)) if first == last => terminal::tell(&format!("  they are in cycle {first}")),
        Some((first, last)) => terminal::tell(&format!("  they are in cycles {first} to {last}")),
    }
    for sink in &found.kept_by {
        terminal::tell(&format!(
            "  sink '{sink}' has already committed results of such a cycle: those stay, and later results are \
             computed without the rows"
        ));
    }
    let from = match found.snapshot {
        Some(cycle) => format!("from the state after cycle {cycle}"),
        None => "from the beginning".into(),
    };
    let cycles = quantity::counted(found.cycles, "cycle");
    terminal::tell(&format!("  the next run resumes {from} and recomputes {cycles} without them"));
    if !found.states.is_empty() {
        let states = quantity::counted(found.states.len() as u64, "later snapshot");
        terminal::tell(&format!("  {states} that may contain them {} removed", are(found.states.len())));
    }
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// `120`, `120..123`, `120,130..132`.
fn parse_positions(text: &str) -> Result<Positions, String> {
    let number = |text: &str| {
        text.trim().parse::<u64>().map_err(|_| format!("'{text}' is not a position; write 120 or 120..123"))
    };
    let mut positions = Positions::default();
    for part in text.split(',') {
        let (first, last) = match part.split_once("..") {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first {
            return Err(format!("{first} is after {last}; write {last}..{first}"));
        }
        if last - first >= POSITIONS_MAX || positions.count() + (last - first) >= POSITIONS_MAX {
            return Err(format!("these are more than {POSITIONS_MAX} rows; skip fewer at a time"));
        }
        let end = last.checked_add(1).ok_or_else(|| format!("there is no position {last}"))?;
        positions.add(first..end);
    }
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_with_both_ends() {
        let parsed = |text| {
            let ends = |positions: Positions| -> Vec<(u64, u64)> {
                positions.ranges().iter().map(|range| (range.start, range.end)).collect()
            };
            parse_positions(text).map(ends)
        };
        assert_eq!(parsed("120"), Ok(vec![(120, 121)]));
        assert_eq!(parsed("120..123"), Ok(vec![(120, 124)]));
        assert_eq!(parsed("7,120..123, 124"), Ok(vec![(7, 8), (120, 125)]));
        assert_eq!(parsed("0..9999"), Ok(vec![(0, 10_000)]));
        for wrong in
            ["", "x", "1..", "..1", "5..3", "-1", "0..10000", "0..9998,20000..20001", "18446744073709551615"]
        {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
