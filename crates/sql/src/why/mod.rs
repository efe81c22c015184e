//! Why an answer is what it is: rows of the sources that make it, found by replaying the past without the others.
//!
//! The rows are a *minimal witness* (Buneman, Khanna and Tan, "Why and Where", 2001): alone they give the answer, and without
//! any one of them it is another. Nothing is assumed of the query: joins, windows, operators of programs and sub-queries are
//! asked alike (decision 0198).

mod minimal;
mod shown;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, UInt64Array};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use tidemill_engine::{Cause, Fault, Past, PastStart, Positions, Skips, inspect};

use self::minimal::{Minimal, minimal};
use crate::planner::{Planner, Reply};
use crate::query::past::PastRange;
use crate::query::pipeline::Pipeline;
use crate::statement::Statement;

/// The most rows among which single ones are looked for.
const ROWS_MAX: usize = 2_000_000;
/// The names under which rows and answer are compared.
const ROWS: &str = "$rows";
const ANSWER: &str = "$answer";
const POSITION: &str = "$position";

/// What is to be explained.
pub struct WhyQuestion<'a> {
    /// The pipeline and its past. Each replay opens both again.
    pub open: &'a dyn Fn() -> Result<(Pipeline, Past), Cause>,
    /// Answers the query, over what the sinks and views had.
    pub planner: &'a Planner,
    /// A query over what the sinks and views had after the last cycle.
    pub query: &'a Statement,
    /// The last cycle; `None`: the last one that is logged.
    pub last: Option<u64>,
    /// After how many replays the search ends, even if fewer rows might do.
    pub replays_max: usize,
    /// Is told after each replay how many there were, and among how many rows is looked. An error ends the search.
    pub progress: &'a dyn Fn(usize, u64) -> Result<(), Cause>,
}

/// Why an answer is what it is.
pub struct Witness {
    /// The answer.
    pub answer: RecordBatch,
    /// The cycle after which it was given.
    pub cycle: u64,
    /// The cycle with whose state the replays began: rows up to it were not left out. `None`: they began at the beginning.
    pub after: Option<u64>,
    /// For each source that has any, the positions of rows that alone give the answer.
    pub rows: Skips,
    /// Whether without any one of the rows the answer is another one; false: the search ended before that was known.
    pub is_minimal: bool,
    /// The columns of sources that have values of the answer, in all of the rows.
    pub keys: Vec<(String, String)>,
    /// For each source with such columns, the positions of other rows with these values. They change nothing.
    pub alike: Skips,
    /// How many replays it took.
    pub replays: usize,
}

/// Finds the rows that make an answer.
///
/// # Errors
/// If the past cannot be replayed, the query is none over what the sinks and views had, or its answer has no rows.
///
/// ```
/// use tidemill_engine::Past;
/// use tidemill_sql::{Planner, WhyQuestion, parse, why};
/// # let folder = tempfile::tempdir().unwrap();
/// # let (input, journal) = (folder.path().join("in.csv"), folder.path().join("p.journal"));
/// # std::fs::write(&input, "n\n1\n2\n1\n").unwrap();
/// let script = format!(
///     "CREATE SOURCE numbers (n BIGINT) WITH (path = '{}', durable = true); SET journal = '{}';
///      CREATE SINK counts AS SELECT n, count(*) AS times FROM numbers GROUP BY n WITH (connector = 'blackhole')",
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
/// let query = parse("SELECT times FROM counts WHERE n = 1", "question").unwrap().remove(0);
/// let witness = why(&WhyQuestion {
///     open: &|| Ok((pipeline(), Past::open(&journal)?)),
///     planner: &Planner::new(),
///     query: &query,
///     last: None,
///     replays_max: 100,
///     progress: &|_, _| Ok(()),
/// });
/// let witness = witness.unwrap();
/// assert_eq!(witness.rows["numbers"].ranges(), [0..1, 2..3]);
/// assert!(witness.is_minimal);
/// ```
pub fn why(question: &WhyQuestion<'_>) -> Result<Witness, Cause> {
    let mut search = Search::begin(question)?;
    let Narrowed { keys, rows: with_key } = search.by_values()?;
    let candidates: Vec<(usize, u64)> = with_key
        .iter()
        .enumerate()
        .flat_map(|(source, rows)| rows.ranges().iter().cloned().flatten().map(move |row| (source, row)))
        .take(ROWS_MAX + 1)
        .collect();
    if candidates.len() > ROWS_MAX {
        return Err(Cause::resource(format!(
            "more than {ROWS_MAX} rows may have made that answer; ask for one as of an earlier cycle, or for a part of \
             it that a condition on a column of the source picks out"
        )));
    }
    let left = question.replays_max.saturating_sub(search.replays);
    let Minimal { items, is_minimal } = minimal(candidates, left, |rows| {
        let rows = search.positions(rows);
        search.gives_answer(&rows)
    })?;
    let rows = search.positions(&items);
    let is_of_key = |source: usize| keys.iter().any(|(name, _)| *name == search.sources[source].0);
    let others = |source: usize| {
        let of_source = with_key[source].ranges().iter();
        of_source.flat_map(|range| rows[source].outside(range.clone()).ranges().to_vec()).collect()
    };
    let alike =
        (0..rows.len()).map(|source| if is_of_key(source) { others(source) } else { Positions::default() });
    let alike = search.named(alike.collect());
    Ok(Witness {
        answer: search.answer.clone(),
        cycle: search.cycle,
        after: search.after,
        rows: search.named(rows),
        is_minimal,
        keys,
        alike,
        replays: search.replays,
    })
}

/// The rows that are left after guesses.
struct Narrowed {
    /// The sources and their columns that proved right.
    keys: Vec<(String, String)>,
    /// Of each source.
    rows: Vec<Positions>,
}

struct Search<'a> {
    question: &'a WhyQuestion<'a>,
    start: PastStart,
    cycle: u64,
    after: Option<u64>,
    /// For each source its name in the journal and the positions that are replayed.
    sources: Vec<(String, Range<u64>)>,
    /// The folder of their rows.
    journal: PathBuf,
    answer: RecordBatch,
    /// The rows of the answer in a defined order.
    expected: Vec<OwnedRow>,
    converter: RowConverter,
    replays: usize,
}

impl<'a> Search<'a> {
    fn begin(question: &'a WhyQuestion<'a>) -> Result<Search<'a>, Cause> {
        let (start, replayed) = match replay(question, PastStart::Beginning, Skips::new()) {
            // What is before its oldest state may be gone.
            Err(cause) => match replay(question, PastStart::Oldest, Skips::new()) {
                Ok(replayed) => (PastStart::Oldest, replayed),
                Err(_) => return Err(cause),
            },
            Ok(replayed) => (PastStart::Beginning, replayed),
        };
        let Replayed { answer, cycle, after } = replayed;
        let cycle =
            cycle.ok_or_else(|| Cause::user("there is no cycle yet, so there is nothing to explain"))?;
        if answer.num_rows() == 0 {
            return Err(Cause::user(
                "the answer has no rows, so no rows made it; ask for what is there. Rows that are missing are not \
                 explained",
            ));
        }
        let (_, past) = (question.open)()?;
        let (sources, journal) = (past.rows_between(after, cycle)?.sources, past.journal().to_owned());
        let fields =
            answer.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(cannot_compare)?;
        let mut search = Search {
            question,
            start,
            cycle,
            after,
            sources,
            journal,
            expected: Vec::new(),
            answer,
            converter,
            replays: 1,
        };
        search.expected = search.sorted(&search.answer)?;
        Ok(search)
    }

    /// The rows of an answer in a defined order.
    fn sorted(&self, answer: &RecordBatch) -> Result<Vec<OwnedRow>, Cause> {
        let rows = self.converter.convert_columns(answer.columns()).map_err(cannot_compare)?;
        let mut rows: Vec<OwnedRow> = rows.iter().map(|row| row.owned()).collect();
        rows.sort_unstable();
        Ok(rows)
    }

    /// All rows of all sources.
    fn all(&self) -> Vec<Positions> {
        self.sources.iter().map(|(_, range)| std::iter::once(range.clone()).collect()).collect()
    }

    /// Rows, each of a source, as positions of each source.
    fn positions(&self, rows: &[(usize, u64)]) -> Vec<Positions> {
        let mut positions = vec![Positions::default(); self.sources.len()];
        rows.iter().for_each(|(source, row)| positions[*source].add(*row..*row + 1));
        positions
    }

    /// By the names of the sources, without those that have none.
    fn named(&self, positions: Vec<Positions>) -> Skips {
        let named = self.sources.iter().map(|(name, _)| name.clone()).zip(positions);
        named.filter(|(_, positions)| !positions.is_empty()).collect()
    }

    /// Whether these rows alone give the answer. A query that fails without the others gives another one.
    fn gives_answer(&mut self, rows: &[Positions]) -> Result<bool, Cause> {
        let left_out = self.sources.iter().zip(rows).map(|((_, range), rows)| rows.outside(range.clone()));
        let left_out = self.named(left_out.collect());
        self.replays += 1;
        let gives = match replay(self.question, self.start, left_out) {
            Ok(replayed) => self.sorted(&replayed.answer)? == self.expected,
            Err(cause) if cause.fault == Fault::User => false,
            Err(cause) => return Err(cause),
        };
        (self.question.progress)(self.replays, rows.iter().map(Positions::count).sum())?;
        Ok(gives)
    }

    /// Of each source the rows whose values in some columns are those of columns of the answer, if they alone give it: most
    /// answers are asked for by a key. Each guess is checked by a replay; the columns are those that proved right.
    fn by_values(&mut self) -> Result<Narrowed, Cause> {
        let (mut keys, mut rows) = (Vec::new(), self.all());
        for source in 0..self.sources.len() {
            let (stream, range) = self.sources[source].clone();
            if range.is_empty() {
                continue;
            }
            let journaled = self.journaled(&stream, &range)?;
            for (own, column) in guesses(&journaled, &self.answer) {
                let Some(alike) = self.with_values(&journaled, &own, &column)? else { continue };
                let narrowed: Positions = alike
                    .ranges()
                    .iter()
                    .flat_map(|range| rows[source].within(range.clone()).ranges().to_vec())
                    .collect();
                if narrowed.count() == rows[source].count() {
                    continue;
                }
                let mut tried = rows.clone();
                tried[source] = narrowed;
                if self.gives_answer(&tried)? {
                    rows = tried;
                    keys.push((stream.clone(), own));
                }
            }
        }
        Ok(Narrowed { keys, rows })
    }

    /// The rows of a source, with their positions as the last column.
    fn journaled(&self, stream: &str, range: &Range<u64>) -> Result<RecordBatch, Cause> {
        let records = inspect::records(&self.journal, stream, range.start)?;
        let (schema, mut batches, mut rows) = (records.schema(), Vec::new(), 0);
        let mut fields = schema.fields().to_vec();
        fields.push(Arc::new(Field::new(POSITION, DataType::UInt64, false)));
        let schema = Arc::new(Schema::new(fields));
        for record in records {
            let record = record?;
            if record.start >= range.end || rows > ROWS_MAX {
                break;
            }
            let (count, first) = (record.rows.num_rows() as u64, record.start.max(range.start));
            let count = (record.start + count).min(range.end) - first;
            let kept = record.rows.slice((first - record.start) as usize, count as usize);
            let positions: ArrayRef = Arc::new(UInt64Array::from_iter_values(first..first + count));
            let columns = kept.columns().iter().cloned().chain([positions]).collect();
            batches.push(RecordBatch::try_new(Arc::clone(&schema), columns).map_err(bug)?);
            rows += count as usize;
        }
        concat_batches(&schema, &batches).map_err(bug)
    }

    /// The positions of rows whose value in a column is one of the answer's in another; `None`: their types do not compare.
    fn with_values(&self, rows: &RecordBatch, own: &str, column: &str) -> Result<Option<Positions>, Cause> {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let text = format!(
            "SELECT r.{} FROM {} r WHERE r.{} IN (SELECT a.{} FROM {} a)",
            quoted(POSITION),
            quoted(ROWS),
            quoted(own),
            quoted(column),
            quoted(ANSWER)
        );
        let Some(statement) = crate::statement::parse(&text, "a guess").ok().and_then(|mut all| all.pop())
        else {
            return Ok(None);
        };
        let named = [(ROWS.to_owned(), rows.clone()), (ANSWER.to_owned(), self.answer.clone())];
        let Ok(found) = answer(self.question.planner, &statement, named) else { return Ok(None) };
        let positions = found.column(0).as_primitive::<UInt64Type>().values();
        let positions: BTreeSet<u64> = positions.iter().copied().collect();
        Ok(Some(positions.into_iter().map(|position| position..position + 1).collect()))
    }
}

/// Pairs of columns of a source and of the answer that may have the same values: of the same type, those of the same name first.
fn guesses(rows: &RecordBatch, answer: &RecordBatch) -> Vec<(String, String)> {
    let (rows, answer) = (rows.schema(), answer.schema());
    let mut pairs = Vec::new();
    for own in rows.fields().iter().filter(|own| own.name() != POSITION) {
        for column in answer.fields().iter().filter(|column| column.data_type() == own.data_type()) {
            pairs.push((own.name().clone(), column.name().clone()));
        }
    }
    pairs.sort_by_key(|(own, column)| own != column);
    pairs
}

struct Replayed {
    answer: RecordBatch,
    cycle: Option<u64>,
    after: Option<u64>,
}

/// Replays without some rows, and answers the query.
fn replay(question: &WhyQuestion<'_>, start: PastStart, left_out: Skips) -> Result<Replayed, Cause> {
    let (pipeline, past) = (question.open)()?;
    let range = PastRange { start, last: question.last, ..PastRange::default() };
    let replayed = pipeline.replay(&past.without(left_out), range)?;
    let after = replayed.after();
    let results = replayed.results()?;
    let answer = answer(question.planner, question.query, results.rows)?;
    Ok(Replayed { answer, cycle: results.cycle, after })
}

/// Answers a query over named rows.
fn answer(
    planner: &Planner,
    query: &Statement,
    rows: impl IntoIterator<Item = (String, RecordBatch)>,
) -> Result<RecordBatch, Cause> {
    let mut catalog = planner.catalog().clone();
    rows.into_iter().for_each(|(name, rows)| catalog.attach_rows(&name, rows));
    let mut planner = Planner::at(catalog, planner.settings().clone());
    match planner.execute(query).map_err(|error| Cause::user(error.to_string()))? {
        Reply::Rows(rows) => Ok(rows),
        _ => Err(Cause::user("only the answer of a query over sinks and views can be explained")),
    }
}

fn cannot_compare(error: datafusion::arrow::error::ArrowError) -> Cause {
    Cause::user(format!("answers with these columns cannot be compared: {error}; leave out those with parts"))
}

fn bug(error: datafusion::arrow::error::ArrowError) -> Cause {
    Cause::bug(error.to_string()).with_source(error)
}
