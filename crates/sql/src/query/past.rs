//! A durable pipeline over its past.

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::memory::TableStore;
use tidemill_engine::{Cause, Engine, Past, PastCycle, PastQuery, PastRun, PastStart, PastState};
use tidemill_operators::changes::changelog_schema;
use tidemill_store::{Contents, Retention, StoreConfig, StoreWriter};

use crate::query::pipeline::Pipeline;
use crate::query::prepared::{Output, Prepared};

/// A durable pipeline that runs over its past: it writes to none of its sinks, and what they got comes out here.
///
/// See [`Pipeline::replay`].
pub struct PastPipeline {
    run: PastRun,
    outputs: Vec<Output>,
    rows_max: usize,
}

/// What the sinks and views of a pipeline had after a cycle.
pub struct PastResults {
    /// The cycle; `None`: there was none.
    pub cycle: Option<u64>,
    /// By name: of a table the last row of each key, otherwise all rows.
    pub rows: Vec<(String, RecordBatch)>,
    /// What the operators held, if the range says that it is kept; see [`state_of`](crate::state_of).
    pub state: Option<PastState>,
}

/// Which part of the past is replayed, and by what.
#[derive(Clone, Copy, Debug, Default)]
pub struct PastRange {
    /// Where it begins.
    pub start: PastStart,
    /// The last cycle; `None`: the last one that is logged.
    pub last: Option<u64>,
    /// Whether the pipeline is not the one that the journal belongs to, but another version of it.
    pub is_other: bool,
    /// Whether what the operators held after the last cycle is kept.
    pub keeps_state: bool,
}

impl Pipeline {
    /// Runs it over its past, which is only read: it may be running meanwhile. Its sinks are not opened.
    ///
    /// # Errors
    /// If it is not durable, or [`Engine::run_past`] fails.
    ///
    /// ```
    /// use tidemill_engine::Past;
    /// use tidemill_sql::{PastRange, Planner, parse};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (input, journal) = (folder.path().join("in.csv"), folder.path().join("p.journal"));
    /// # std::fs::write(&input, "n\n1\n2\n").unwrap();
    /// let script = format!(
    ///     "CREATE SOURCE numbers (n BIGINT) WITH (path = '{}', durable = true); SET journal = '{}';
    ///      CREATE SINK doubled AS SELECT 2 * n AS n FROM numbers WITH (connector = 'blackhole')",
    ///     input.display(), journal.display());
    /// let pipeline = || {
    ///     let mut planner = Planner::new();
    ///     for statement in parse(&script, "example").unwrap() {
    ///         planner.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
    ///     }
    ///     planner.pipeline().unwrap().expect("there is a sink")
    /// };
    /// pipeline().open().unwrap().start().unwrap().wait().unwrap();
    ///
    /// let mut past = pipeline().replay(&Past::open(&journal).unwrap(), PastRange::default()).unwrap();
    /// let mut rows = 0;
    /// while let Some(cycle) = past.next_cycle().unwrap() {
    ///     rows += cycle.outputs[0].iter().map(|rows| rows.num_rows()).sum::<usize>();
    /// }
    /// assert_eq!(rows, 2);
    /// ```
    pub fn replay(self, past: &Past, range: PastRange) -> Result<PastPipeline, Cause> {
        let Pipeline { prepared, durable, .. } = self;
        let durable = durable.ok_or_else(|| {
            Cause::user(
                "the pipeline has no durable source, so there is no past to replay; add durable = true",
            )
        })?;
        let Prepared { dataflow, outputs, settings, memory, .. } = prepared;
        let used = dataflow.sources.iter().zip(&dataflow.plan.sources);
        let sources = used.map(|(source, planned)| source.past(planned, past.is_of_database()));
        let query = PastQuery {
            sources: sources.collect::<Result<_, Cause>>()?,
            plan: dataflow.plan,
            durability: durable.durability,
            is_other: range.is_other,
            keeps_state: range.keeps_state,
        };
        let engine = Engine::new().workers(settings.workers).memory(memory);
        let run = engine.run_past(past, query, range.start, range.last)?;
        Ok(PastPipeline { run, outputs, rows_max: settings.max_result_rows })
    }
}

impl PastPipeline {
    /// Its outputs, in the order of [`PastCycle::outputs`].
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The cycle with whose state it began; `None`: it began at the beginning.
    pub fn after(&self) -> Option<u64> {
        self.run.after()
    }

    /// The next cycle, with what each sink got; `None`: that was the last one.
    ///
    /// # Errors
    /// Why it stopped before its end.
    pub fn next_cycle(&mut self) -> Result<Option<PastCycle>, Cause> {
        let Some(mut cycle) = self.run.next_cycle()? else { return Ok(None) };
        for (batches, output) in cycle.outputs.iter_mut().zip(&self.outputs) {
            let schema = if output.is_changing {
                changelog_schema(&output.schema)
            } else {
                SchemaRef::clone(&output.schema)
            };
            for rows in batches {
                *rows = with_schema(rows, &schema)?;
            }
        }
        Ok(Some(cycle))
    }

    /// Runs to the last cycle, and gives what the sinks and views had then of all that came since the first one.
    ///
    /// # Errors
    /// As [`next_cycle`](PastPipeline::next_cycle), and if they had too many rows.
    pub fn results(mut self) -> Result<PastResults, Cause> {
        let new = |output: &Output| CollectedOutput::new(output, self.rows_max);
        let mut collected = self.outputs.iter().map(new).collect::<Result<Vec<_>, Cause>>()?;
        let mut last = None;
        while let Some(cycle) = self.next_cycle()? {
            last = Some(cycle.cut.cycle);
            let number = cycle.cut.cycle;
            collected
                .iter_mut()
                .zip(&cycle.outputs)
                .try_for_each(|(output, rows)| output.add(number, rows))?;
        }
        let named =
            self.outputs.iter().zip(&collected).map(|(output, rows)| Ok((output.name.clone(), rows.read()?)));
        let rows = named.collect::<Result<_, Cause>>()?;
        Ok(PastResults { cycle: last, rows, state: self.run.take_state() })
    }
}

/// What an output had.
enum CollectedOutput {
    Table(TableStore),
    Changes(Box<StoreWriter>),
    Rows { schema: SchemaRef, batches: Vec<RecordBatch>, rows: usize, rows_max: usize },
}

impl CollectedOutput {
    fn new(output: &Output, rows_max: usize) -> Result<CollectedOutput, Cause> {
        match &output.table_key {
            None if output.is_changing => {
                let retention =
                    Retention { rows_max, is_strict: true, bytes_max: usize::MAX, ..Retention::default() };
                let config = StoreConfig {
                    contents: Contents::Changes,
                    retention,
                    ..StoreConfig::new(&output.schema)
                };
                StoreWriter::new(config).map(|(writer, _)| CollectedOutput::Changes(Box::new(writer)))
            }
            Some(Some(key)) => {
                TableStore::new(&output.schema, key.clone(), rows_max).map(CollectedOutput::Table)
            }
            // Without the columns of its key, nobody knows which row replaces which: all of them are kept.
            Some(None) | None => {
                let schema = SchemaRef::clone(&output.schema);
                Ok(CollectedOutput::Rows { schema, batches: Vec::new(), rows: 0, rows_max })
            }
        }
    }

    fn add(&mut self, cycle: u64, new: &[RecordBatch]) -> Result<(), Cause> {
        match self {
            CollectedOutput::Changes(writer) => writer.append(cycle, new),
            CollectedOutput::Table(table) => table.upsert(new),
            CollectedOutput::Rows { batches, rows, rows_max, .. } => {
                *rows += new.iter().map(RecordBatch::num_rows).sum::<usize>();
                if *rows > *rows_max {
                    return Err(Cause::resource(format!(
                        "an output has more than {rows_max} rows; begin with a later state, or raise the limit: SET \
                         max_result_rows"
                    )));
                }
                batches.extend_from_slice(new);
                Ok(())
            }
        }
    }

    fn read(&self) -> Result<RecordBatch, Cause> {
        match self {
            CollectedOutput::Table(table) => table.handle().read(),
            CollectedOutput::Changes(writer) => writer.reader().latest().read(),
            CollectedOutput::Rows { schema, batches, .. } => concat_batches(schema, batches)
                .map_err(|error| Cause::resource(format!("the rows do not fit into one table: {error}"))),
        }
    }
}

/// The rows with the names that the output gives their columns.
fn with_schema(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Cause> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(SchemaRef::clone(schema), rows.columns().to_vec(), &options)
        .map_err(|error| Cause::bug(error.to_string()).with_source(error))
}
