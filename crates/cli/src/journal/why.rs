//! `tidemill journal why`: the rows that make an answer.

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidemill_engine::{Cause, Past, Positions};
use tidemill_sql::{Pipeline, WhyQuestion, Witness, parse, why};

use super::input_rows::with_positions;
use super::show::rows;
use crate::exit::Exit;
use crate::sql::{RowFormat, SessionOptions, past_of_query, past_of_script, time_ns, user_error};
use crate::{quantity, terminal};

/// More rows of one source than this are not shown.
const ROWS_MAX: usize = 1_000;

/// Show the rows that made an answer: they alone give it, and without any one of them it is another. Found by replays; nothing
/// is written, and the pipeline may be running
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Why {
    /// The journal's folder
    #[arg(
        value_name = "DIR",
        required_unless_present = "data",
        conflicts_with = "data",
        requires = "script"
    )]
    folder: Option<PathBuf>,
    /// The script that the journal belongs to
    #[arg(long, value_name = "FILE", requires = "folder")]
    script: Option<PathBuf>,
    /// The folder of a server's database, instead of DIR
    #[arg(long, value_name = "FOLDER", requires = "query")]
    data: Option<PathBuf>,
    /// The query of the database
    #[arg(long, value_name = "NAME", requires = "data")]
    query: Option<String>,
    /// The query whose answer is explained, over what the sinks and views had, under their names
    #[arg(long, value_name = "SELECT", required = true)]
    look: String,
    /// Explain the answer after this cycle, instead of the last one
    #[arg(long, value_name = "CYCLE")]
    to_cycle: Option<u64>,
    /// Explain the answer after the last cycle that was closed at this time (UTC) or before, such as '2026-03-01 12:00:05'
    #[arg(long, value_name = "TIME", conflicts_with = "to_cycle")]
    at: Option<String>,
    /// End the search after this many replays, even if fewer rows might do
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000)]
    replays_max: usize,
    /// How to show rows
    #[arg(long, value_enum, default_value_t)]
    format: RowFormat,
    #[command(flatten)]
    options: SessionOptions,
}

impl Why {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        if !self.format.is_for_people() {
            return Err(user_error(
                "the answer and the rows of its sources do not fit into one text of this format; use --format table"
                    .to_owned(),
            ));
        }
        let statements = parse(&self.look, "--look").map_err(|error| user_error(error.to_string()))?;
        let [query] = &statements[..] else {
            return Err(user_error("one query can be explained at a time: --look 'SELECT ...'".to_owned()));
        };
        let (_, past) = self.open()?;
        let last = match &self.at {
            Some(time) => Some(past.cycle_at(time_ns(time)?)?),
            None => self.to_cycle,
        };
        let line = progress_line();
        let witness = why(&WhyQuestion {
            open: &|| self.open(),
            planner: &self.options.planner(),
            query,
            last,
            replays_max: self.replays_max,
            progress: &|replays, rows| {
                let rows = quantity::counted(rows, "row");
                line.set_message(format!("{}: {rows}", quantity::counted(replays as u64, "replay")));
                line.tick();
                Ok(())
            },
        });
        line.finish_and_clear();
        show(&witness?, &past, self.format)?;
        Ok(Exit::Done)
    }

    fn open(&self) -> Result<(Pipeline, Past), Cause> {
        let opened = match (&self.folder, &self.script, &self.data, &self.query) {
            (_, _, Some(data), Some(query)) => past_of_query(data, query, self.options.planner()),
            (Some(folder), Some(script), ..) => past_of_script(script, self.options.planner(), folder),
            _ => {
                Err(user_error("name the journal's folder and its script, or --data and --query".to_owned()))
            }
        };
        opened.map_err(|error| match error.downcast::<Cause>() {
            Ok(cause) => cause,
            Err(error) => Cause::user(format!("{error:#}")),
        })
    }
}

/// A line that changes while it is searched, if a person watches.
fn progress_line() -> ProgressBar {
    let target =
        if terminal::is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style =
        ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::with_draw_target(None, target).with_style(style)
}

fn show(witness: &Witness, past: &Past, format: RowFormat) -> anyhow::Result<()> {
    format.show(&witness.answer)?;
    let replays = quantity::counted(witness.replays as u64, "replay");
    terminal::tell(&format!("(as of cycle {}; {replays})", witness.cycle));
    if let Some(cycle) = witness.after {
        terminal::tell(&format!(
            "(the replays begin with the state after cycle {cycle}: rows up to it are not shown)"
        ));
    }
    if witness.rows.is_empty() {
        terminal::show("No row of the sources is needed for that answer.")?;
    }
    for (stream, positions) in &witness.rows {
        let count = positions.count();
        terminal::show(&format!("made by {} of {stream}:", quantity::counted(count, "row")))?;
        let rows = rows(past.journal(), stream, positions, ROWS_MAX)?;
        format.show(&with_positions(&rows, positions.ranges().iter().cloned().flatten())?)?;
        if count > ROWS_MAX as u64 {
            terminal::tell(&format!("(only the first {ROWS_MAX} are shown)"));
        }
    }
    terminal::show(if witness.is_minimal {
        "These rows alone give the answer; without any one of them it is another."
    } else {
        "These rows alone give the answer. The search ended before it was known whether all are needed; a larger \
         --replays-max lets it continue."
    })?;
    for (stream, positions) in &witness.alike {
        let of_stream = witness.keys.iter().filter(|(source, _)| source == stream);
        let columns: Vec<&str> = of_stream.map(|(_, column)| column.as_str()).collect();
        terminal::show(&format!(
            "{} of {stream} with the same {} changed nothing, at {}.",
            quantity::counted(positions.count(), "other row"),
            columns.join(" and "),
            shortened(positions)
        ))?;
    }
    Ok(())
}

/// Positions as people write them, the first of them if there are many.
fn shortened(positions: &Positions) -> String {
    const RANGES_MAX: usize = 20;
    let first: Positions = positions.ranges().iter().take(RANGES_MAX).cloned().collect();
    let more = if positions.ranges().len() > RANGES_MAX { " ..." } else { "" };
    format!("{first}{more}")
}
