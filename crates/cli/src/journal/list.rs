//! `tidemill journal ls DIR`

use std::fmt::Write as _;
use std::path::PathBuf;

use tidemill_engine::inspect::{self, LogListing};

use super::database;
use crate::exit::Exit;
use crate::{quantity, terminal};

/// List streams, cuts, snapshots and commits
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct List {
    /// The journal's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Also list every segment of each stream
    #[arg(long)]
    segments: bool,
}

impl List {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let listing = inspect::list(&self.folder)?;
        let mut text = String::new();
        for stream in &listing.streams {
            let what = format!("stream {}", stream.name);
            self.describe(&what, "positions", stream, &mut text);
        }
        self.describe("cuts", "cycles", &listing.cuts, &mut text);
        if let Some(sources) = database::sources(&self.folder)? {
            let _ = writeln!(
                text,
                "it is the journal of a database: snapshots and commits are in the folders of its queries"
            );
            for loss in database::losses(&listing.epochs, &sources) {
                let _ = writeln!(text, "{loss}");
            }
            terminal::show(text.trim_end())?;
            return Ok(Exit::Done);
        }
        let snapshots: Vec<String> = listing.snapshots.iter().map(u64::to_string).collect();
        let _ = writeln!(text, "snapshots after cycles: {}", shown(&snapshots));
        let commits = listing.commits.iter().map(|(sink, cycle)| format!("{sink} up to cycle {cycle}"));
        let commits: Vec<String> = commits.collect();
        let _ = writeln!(text, "commits recorded here: {}", shown(&commits));
        for (stream, positions) in &listing.skips {
            let _ = writeln!(text, "skipped in {stream} by `tidemill journal skip`: position {positions}");
        }
        if listing.has_replacement {
            let _ = writeln!(
                text,
                "another query is being computed, and will replace the query of these cycles (tidemill run --replace)"
            );
        }
        terminal::show(text.trim_end())?;
        Ok(Exit::Done)
    }

    fn describe(&self, what: &str, unit: &str, log: &LogListing, text: &mut String) {
        let segments = quantity::counted(log.segments.len() as u64, "segment");
        let range = if log.first == log.end {
            "empty".to_string()
        } else {
            format!("{unit} {} to {}", quantity::count(log.first), quantity::count(log.end - 1))
        };
        let _ = writeln!(text, "{what}: {range}, {} in {segments}", quantity::bytes(log.bytes));
        for segment in log.segments.iter().filter(|_| self.segments) {
            let (path, bytes) = (segment.path.display(), quantity::bytes(segment.bytes));
            let _ = writeln!(text, "  {path}: from {}, {bytes}", quantity::count(segment.first));
        }
    }
}

fn shown(all: &[String]) -> String {
    if all.is_empty() { "none".into() } else { all.join(", ") }
}
