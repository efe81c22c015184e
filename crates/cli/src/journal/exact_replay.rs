//! The logged cycles again: what the sinks got, and which rows a cycle had. Nothing is written.

use std::path::{Path, PathBuf};

use tidemill_engine::{Past, PastCycle, PastStart};
use tidemill_sql::{Output, PastPipeline, PastRange, Pipeline, STATE_OF};

use super::input_rows;
use super::show::time_text;
use crate::exit::Exit;
use crate::sql::{
    RowFormat, RowOptions, SessionOptions, look, past_of_query, past_of_script, time_ns, user_error,
};
use crate::{quantity, terminal};

/// Options of a replay of the logged cycles.
#[derive(Debug, clap::Args)]
pub(super) struct ExactReplay {
    /// The script that the journal belongs to: its logged cycles are computed again, exactly as they were, and what its
    /// sinks got is shown. No sink is opened, and the pipeline may be running
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "data"])]
    script: Option<PathBuf>,
    /// The folder of a server's database, instead of DIR
    #[arg(long, value_name = "FOLDER", requires = "query", conflicts_with = "file")]
    data: Option<PathBuf>,
    /// The query of the database
    #[arg(long, value_name = "NAME", requires = "data")]
    query: Option<String>,
    /// Stop after this cycle
    #[arg(long, value_name = "CYCLE", conflicts_with = "file")]
    to_cycle: Option<u64>,
    /// Stop after the last cycle that was closed at this time (UTC) or before, such as '2026-03-01 12:00:05'
    #[arg(long, value_name = "TIME", conflicts_with_all = ["to_cycle", "file"])]
    at: Option<String>,
    /// Show no cycle before this one
    #[arg(long, value_name = "CYCLE", default_value_t = 0, conflicts_with = "file")]
    from_cycle: u64,
    /// Begin with the state that was kept after this cycle, instead of with the first cycle; without a number, with the
    /// newest one before the cycles that are shown, or with the oldest
    #[arg(long, value_name = "CYCLE", num_args = 0..=1, require_equals = true, conflicts_with = "file")]
    from_snapshot: Option<Option<u64>>,
    /// The sink or view to show; needed only if there are several and the format is for programs
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    sink: Option<String>,
    /// Show one cycle with rows at a time; standard input says which one comes next
    #[arg(long, conflicts_with_all = ["from_snapshot", "look", "file"])]
    pub(super) step: bool,
    /// Answer this query over what the sinks and views had after the last cycle, under their names: of a table the last
    /// row of each key, otherwise all rows; and over what the operators held, by state_of('2 aggregate'). state_of() lists
    /// them. Nothing else is shown
    #[arg(long, value_name = "SELECT", conflicts_with_all = ["from_cycle", "sink", "file"])]
    look: Option<String>,
    /// Show the rows that went into this cycle instead, source by source, with their positions
    #[arg(
        long,
        value_name = "CYCLE",
        conflicts_with_all = ["to_cycle", "at", "from_snapshot", "from_cycle", "sink", "step", "look", "file"]
    )]
    rows_of: Option<u64>,
}

impl ExactReplay {
    /// Whether it was asked for at all.
    pub(super) fn is_asked_for(&self) -> bool {
        self.script.is_some() || self.data.is_some()
    }

    pub(super) fn run(
        &self,
        folder: Option<&Path>,
        rows: RowOptions,
        options: &SessionOptions,
    ) -> anyhow::Result<Exit> {
        let (pipeline, past) = self.open(folder, options)?;
        if let Some(cycle) = self.rows_of {
            return input_rows::show(&past, cycle, rows.format).map(|()| Exit::Done);
        }
        let last = self.last(&past)?;
        if let Some(query) = &self.look {
            return look_at((pipeline, &past), query, (self.start(last), last), options, rows);
        }
        let range = PastRange { start: self.start(last), last, ..PastRange::default() };
        self.show(pipeline.replay(&past, range)?, &past, rows.format)
    }

    pub(super) fn open(
        &self,
        folder: Option<&Path>,
        options: &SessionOptions,
    ) -> anyhow::Result<(Pipeline, Past)> {
        match (folder, &self.script, &self.data, &self.query) {
            (_, _, Some(data), Some(query)) => past_of_query(data, query, options.planner()),
            (Some(folder), Some(script), ..) => past_of_script(script, options.planner(), folder),
            _ => {
                Err(user_error("name the journal's folder and its script, or --data and --query".to_owned()))
            }
        }
    }

    /// The first cycle that is shown.
    pub(super) fn first_shown(&self) -> u64 {
        self.from_cycle
    }

    /// The last cycle; `None`: the last one that is logged.
    pub(super) fn last(&self, past: &Past) -> anyhow::Result<Option<u64>> {
        match &self.at {
            Some(time) => Ok(Some(past.cycle_at(time_ns(time)?)?)),
            None => Ok(self.to_cycle),
        }
    }

    fn start(&self, last: Option<u64>) -> PastStart {
        match (self.from_snapshot, self.from_cycle, last) {
            (None, ..) => PastStart::Beginning,
            (Some(Some(cycle)), ..) => PastStart::After(cycle),
            (Some(None), 0, None) => PastStart::Oldest,
            (Some(None), 0, Some(last)) => PastStart::Before(last),
            (Some(None), first, _) => PastStart::Before(first),
        }
    }

    fn show(&self, mut replay: PastPipeline, past: &Past, format: RowFormat) -> anyhow::Result<Exit> {
        let chosen = self.chosen(replay.outputs(), format)?;
        if let Some(cycle) = replay.after() {
            terminal::tell(&format!("(begins with the state after cycle {cycle})"));
        }
        let mut shown = Shown::new(replay.outputs(), chosen, format)?;
        while let Some(cycle) = replay.next_cycle()? {
            if cycle.cut.cycle >= self.from_cycle && !shown.cycle(&cycle)? {
                return Ok(Exit::Done);
            }
        }
        shown.end(past);
        Ok(Exit::Done)
    }

    /// The indexes of the outputs that are shown.
    pub(super) fn chosen(&self, outputs: &[Output], format: RowFormat) -> anyhow::Result<Vec<usize>> {
        let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
        let choices = names.join(" or --sink ");
        match &self.sink {
            Some(name) => match names.iter().position(|known| known == name) {
                Some(index) => Ok(vec![index]),
                None => {
                    Err(user_error(format!("there is no sink or view '{name}'; choose --sink {choices}")))
                }
            },
            None if names.len() > 1 && !format.is_for_people() => Err(user_error(format!(
                "several outputs do not fit into one text of this format; choose one: --sink {choices}"
            ))),
            None => Ok((0..names.len()).collect()),
        }
    }
}

/// Answers a query over what the outputs had and the operators held after a cycle.
pub(super) fn look_at(
    (pipeline, past): (Pipeline, &Past),
    query: &str,
    (start, last): (PastStart, Option<u64>),
    options: &SessionOptions,
    rows: RowOptions,
) -> anyhow::Result<Exit> {
    // A state takes time to write, and most queries do not ask for it.
    let keeps_state = query.to_lowercase().contains(STATE_OF);
    let replayed = pipeline.replay(past, PastRange { start, last, is_other: false, keeps_state })?;
    let after = replayed.after();
    let results = replayed.results()?;
    let cycle = results.cycle.map_or_else(String::new, |cycle| format!("as of cycle {cycle}"));
    let since = after.map_or_else(String::new, |cycle| format!("; without the results up to cycle {cycle}"));
    terminal::tell(&format!("({cycle}{since})"));
    look(query, results, options.planner(), rows)
}

/// What has been shown.
pub(super) struct Shown {
    outputs: Vec<Output>,
    chosen: Vec<usize>,
    format: RowFormat,
    /// Writes all rows as one text, if that is for programs: exactly what a file sink writes.
    encoder: Option<Box<dyn tidemill_connect::formats::encode::TextEncoder>>,
    rows: usize,
    cycles: u64,
    cycles_with_rows: u64,
}

impl Shown {
    pub(super) fn new(outputs: &[Output], chosen: Vec<usize>, format: RowFormat) -> anyhow::Result<Shown> {
        let mut encoder = match (format.is_for_people(), chosen.first()) {
            (false, Some(index)) => Some(format.encoder(&outputs[*index].schema)?),
            _ => None,
        };
        if let Some(encoder) = &mut encoder {
            let mut text = Vec::new();
            encoder.header(&mut text);
            terminal::write(&text)?;
        }
        let outputs = outputs.to_vec();
        Ok(Shown { outputs, chosen, format, encoder, rows: 0, cycles: 0, cycles_with_rows: 0 })
    }

    /// Whether a cycle has rows to be shown.
    pub(super) fn has_rows(&self, cycle: &PastCycle) -> bool {
        self.chosen.iter().any(|index| cycle.outputs[*index].iter().any(|rows| rows.num_rows() > 0))
    }

    /// Shows a cycle; false: nobody reads any more.
    pub(super) fn cycle(&mut self, cycle: &PastCycle) -> anyhow::Result<bool> {
        let mut rows_of_cycle = 0;
        for index in &self.chosen {
            let (batches, output) = (&cycle.outputs[*index], &self.outputs[*index]);
            let rows: usize = batches.iter().map(|rows| rows.num_rows()).sum();
            rows_of_cycle += rows;
            let mut text = Vec::new();
            match &mut self.encoder {
                Some(encoder) => batches.iter().try_for_each(|rows| encoder.rows(rows, &mut text))?,
                None if rows > 0 => {
                    let (number, closed) = (cycle.cut.cycle, time_text(cycle.cut.closed_at_ns));
                    let (name, rows) = (&output.name, quantity::counted(rows as u64, "row"));
                    text.extend(
                        format!("cycle {number}, closed at {closed}: {rows} to {name}\n").into_bytes(),
                    );
                    let rows = arrow_select::concat::concat_batches(&output.schema, batches)?;
                    text.extend(self.format.all(&rows)?);
                }
                None => {}
            }
            if !text.is_empty() && !terminal::write(&text)? {
                return Ok(false);
            }
        }
        self.rows += rows_of_cycle;
        self.cycles += 1;
        self.cycles_with_rows += u64::from(rows_of_cycle > 0);
        Ok(true)
    }

    fn end(&self, past: &Past) {
        let (rows, cycles) =
            (quantity::counted(self.rows as u64, "row"), quantity::counted(self.cycles, "cycle"));
        terminal::tell(&format!(
            "({rows} in {} of {cycles} of {})",
            quantity::count(self.cycles_with_rows),
            past.journal().display()
        ));
    }
}
