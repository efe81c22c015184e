//! `tidemill journal show DIR`

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::array::temporal_conversions::timestamp_ns_to_datetime;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::inspect::{self, Records};
use tidemill_engine::{Cut, Positions, SplitChange, SplitPlan};

use super::database;
use crate::exit::Exit;
use crate::sql::{RowFormat, user_error};
use crate::terminal;

/// Show the rows of a stream, or the logged cuts
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Show {
    /// The journal's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The stream; needed only if there are several
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
    /// Show the logged cuts instead of rows: where each cycle ends
    #[arg(long, conflicts_with_all = ["stream", "format"])]
    cuts: bool,
    /// The first position to show, or with --cuts the first cycle
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    from: u64,
    /// Show at most this many rows or cuts
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    limit: usize,
    /// How to show rows
    #[arg(long, value_enum, default_value_t)]
    format: RowFormat,
}

impl Show {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        if self.cuts {
            return self.show_cuts().map(|()| Exit::Done);
        }
        let listing = inspect::list(&self.folder)?;
        let names: Vec<&str> = listing.streams.iter().map(|stream| stream.name.as_str()).collect();
        let stream = match (&self.stream, names.as_slice()) {
            (Some(name), _) => name.as_str(),
            (None, [name]) => name,
            (None, names) => return Err(user_error(ambiguous(&self.folder.display().to_string(), names))),
        };
        let first = listing.streams.iter().find(|log| log.name == stream).map_or(0, |log| log.first);
        let records = inspect::records(&self.folder, stream, self.from.max(first))?;
        let last = self.show(records)?;
        if let Some(positions) = listing.skips.get(stream).map(|known| known.within(self.from..last))
            && !positions.is_empty()
        {
            terminal::tell(&format!(
                "(skipped in every run by `tidemill journal skip`: position {positions})"
            ));
        }
        Ok(Exit::Done)
    }

    fn show_cuts(&self) -> anyhow::Result<()> {
        let cuts = inspect::cuts(&self.folder)?;
        if let Some(sources) = database::sources(&self.folder)? {
            terminal::tell(&format!("(the positions are those of {})", sources.join(", ")));
            let listing = inspect::list(&self.folder)?;
            database::losses(&listing.epochs, &sources)
                .iter()
                .for_each(|loss| terminal::tell(&format!("({loss})")));
        }
        let mut cuts = cuts.into_iter().filter(|cut| cut.cycle >= self.from);
        let mut output = std::io::stdout().lock();
        for cut in cuts.by_ref().take(self.limit) {
            writeln!(output, "{}", cut_text(&cut))?;
        }
        if cuts.next().is_some() {
            terminal::tell(&format!(
                "(only the first {} are shown; --limit and --from show others)",
                self.limit
            ));
        }
        Ok(())
    }

    /// Shows rows, and returns the position behind the last one.
    fn show(&self, records: Records) -> anyhow::Result<u64> {
        let schema = records.schema();
        let (mut batches, mut left, mut next) = (Vec::new(), self.limit, self.from);
        for record in records {
            let record = record?;
            let before = self.from.saturating_sub(record.start) as usize;
            let rows = record.rows.slice(before, (record.rows.num_rows() - before).min(left));
            left -= rows.num_rows();
            next = record.start + (before + rows.num_rows()) as u64;
            batches.push(rows);
            if left == 0 {
                break;
            }
        }
        self.format.show(&whole(&schema, &batches)?)?;
        if left == 0 {
            terminal::tell(&format!(
                "(only the first {} are shown; --limit and --from show others)",
                self.limit
            ));
        }
        Ok(next)
    }
}

/// Up to this many of the rows at some positions.
pub(crate) fn rows(
    folder: &Path,
    stream: &str,
    positions: &Positions,
    rows_max: usize,
) -> anyhow::Result<RecordBatch> {
    let first = positions.ranges().first().map_or(0, |range| range.start);
    let records = inspect::records(folder, stream, first)?;
    let (schema, mut batches, mut left) = (records.schema(), Vec::new(), rows_max);
    for record in records {
        let record = record?;
        let end = record.start + record.rows.num_rows() as u64;
        for range in positions.within(record.start..end).ranges() {
            let count = ((range.end - range.start) as usize).min(left);
            batches.push(record.rows.slice((range.start - record.start) as usize, count));
            left -= count;
        }
        if left == 0 || positions.within(end..u64::MAX).is_empty() {
            break;
        }
    }
    whole(&schema, &batches)
}

fn whole(schema: &SchemaRef, batches: &[RecordBatch]) -> anyhow::Result<RecordBatch> {
    let rows = arrow_select::concat::concat_batches(schema, batches);
    rows.context("there are more rows than can be shown at once; use --limit")
}

fn cut_text(cut: &Cut) -> String {
    let list = |values: Vec<String>| values.join(", ");
    let positions = list(cut.positions.iter().map(u64::to_string).collect());
    let mut text =
        format!("cycle {} up to {positions}, closed at {}", cut.cycle, time_text(cut.closed_at_ns));
    let idle = (0..cut.idle.len()).filter(|source| cut.idle[*source]).map(|source| source.to_string());
    let idle = list(idle.collect());
    if !idle.is_empty() {
        text += &format!("; idle sources: {idle}");
    }
    for SplitChange { operator, input, plan } in &cut.splits {
        let plan =
            SplitPlan::from_bytes(plan).map_or("written by another version".into(), |plan| plan.to_string());
        text += &format!("; from here on, operator '{operator}', input {input}: {plan}");
    }
    if cut.snapshot {
        text += "; snapshot";
    }
    if cut.last {
        text += "; the last";
    }
    text
}

/// Nanoseconds since 1970 as a date and time.
pub(super) fn time_text(time_ns: u64) -> String {
    let time = i64::try_from(time_ns).ok().and_then(timestamp_ns_to_datetime);
    time.map_or_else(|| format!("{time_ns} ns"), |time| format!("{time} UTC"))
}

fn ambiguous(folder: &str, names: &[&str]) -> String {
    match names {
        [] => format!("'{folder}' contains no stream; is it the journal of a pipeline?"),
        names => {
            format!("'{folder}' contains several streams; choose one with --stream {}", names.join(" or "))
        }
    }
}
