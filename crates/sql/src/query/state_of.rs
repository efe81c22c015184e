//! `state_of('2 aggregate')` in FROM: what an operator held after a cycle of the past.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::Schema;
use tidemill_engine::{Cause, OperatorRows, PastState};

use crate::generator::Generator;
use crate::relations::source_definition::SourceDefinition;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind};

/// The name of the function.
pub const STATE_OF: &str = "state_of";

const ARGUMENTS: &[OptionDefinition] = &[
    OptionDefinition::new(
        "operator",
        OptionKind::Text,
        OptionDefault::Nothing("a list of all operators"),
        "the operator, as EXPLAIN names it: '2 aggregate', or '2'",
    ),
    OptionDefinition::new(
        "rows",
        OptionKind::Text,
        OptionDefault::Nothing("the only ones that it has"),
        "which of its rows, if it has several kinds: 'left', 'right'",
    ),
];

/// The function that gives the rows which each operator held, and without an argument the list of operators.
///
/// ```
/// use tidemill_engine::Past;
/// use tidemill_sql::{PastRange, Planner, Reply, STATE_OF, parse, rows_of, state_of};
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
/// let range = PastRange { keeps_state: true, ..PastRange::default() };
/// let results = pipeline().replay(&Past::open(&journal).unwrap(), range).unwrap().results().unwrap();
/// let state = results.state.expect("it was to be kept");
/// assert_eq!(rows_of(&state, "aggregate", Some("groups")).unwrap().num_rows(), 2);
/// let mut planner = Planner::new();
/// planner.register_generator(STATE_OF, state_of(state));
/// let query = parse("SELECT n FROM state_of('aggregate')", "example").unwrap().remove(0);
/// assert!(matches!(planner.execute(&query), Ok(Reply::Rows(_) | Reply::Query(_))));
/// ```
pub fn state_of(state: PastState) -> Generator {
    let define = move |arguments: &crate::DeclaredValues| {
        let rows = match arguments.text("operator") {
            Some(operator) => rows_of(&state, operator, arguments.text("rows"))?,
            None => list(&state)?,
        };
        Ok(SourceDefinition::of_rows(STATE_OF, rows))
    };
    Generator::new("what an operator held after a cycle", ARGUMENTS, define).with_first_by_position()
}

/// The rows of one kind that an operator held.
///
/// # Errors
/// If there is no such operator, it does not show its state, or it has no such rows.
pub fn rows_of(state: &PastState, operator: &str, kind: Option<&str>) -> Result<RecordBatch, Cause> {
    let operator = resolved(state, operator)?;
    let Some(mut kinds) = state.rows(operator)? else {
        return Err(Cause::user(format!(
            "operator '{operator}' does not show its state: it is not one of windows, aggregates, joins, OVER, \
             ORDER BY or first rows, but an operator of a program; see what it writes with --sink"
        )));
    };
    let names: Vec<&str> = kinds.iter().map(|rows| rows.kind).collect();
    let listed = names.join("' or '");
    let index = match (kind, names.as_slice()) {
        (_, []) => {
            return Err(Cause::user(format!(
                "operator '{operator}' holds nothing from one cycle to the next"
            )));
        }
        (None, [_]) => 0,
        (None, _) => {
            let first = names[0];
            return Err(Cause::user(format!(
                "operator '{operator}' holds several kinds of rows, '{listed}'; choose one: \
                 {STATE_OF}('{operator}', rows => '{first}')"
            )));
        }
        (Some(kind), names) => names.iter().position(|known| *known == kind).ok_or_else(|| {
            Cause::user(format!("operator '{operator}' holds no rows '{kind}', but '{listed}'"))
        })?,
    };
    united(&kinds.swap_remove(index))
}

/// The full name of an operator that is named by its number, or by words with which its name begins, with or without the
/// number.
fn resolved<'a>(state: &'a PastState, wanted: &str) -> Result<&'a str, Cause> {
    let names: Vec<&str> = state.operators().map(|(name, _)| name).collect();
    if let Some(name) = names.iter().find(|name| **name == wanted) {
        return Ok(name);
    }
    let begins = |name: &str| {
        let after = name.strip_prefix(wanted).filter(|_| !wanted.is_empty());
        after.is_some_and(|after| !after.starts_with(char::is_alphanumeric))
    };
    let is_meant = |name: &str| {
        let unnumbered = name.split_once(' ').filter(|(number, _)| number.parse::<u32>().is_ok());
        begins(name) || unnumbered.is_some_and(|(_, rest)| begins(rest))
    };
    let meant: Vec<&str> = names.iter().copied().filter(|name| is_meant(name)).collect();
    match meant.as_slice() {
        [only] => Ok(only),
        [] if names.is_empty() => Err(Cause::user("the query has no operators, so nothing is held")),
        [] => {
            Err(Cause::user(format!("the query has no operator '{wanted}'; it has '{}'", names.join("', '"))))
        }
        several => Err(Cause::user(format!(
            "several operators are called '{wanted}': '{}'; name one of them",
            several.join("', '")
        ))),
    }
}

/// All rows in one batch, whose columns have different names: operators behind joins hold columns of the same name.
fn united(rows: &OperatorRows) -> Result<RecordBatch, Cause> {
    let error = |error| Cause::resource(format!("the rows do not fit into one table: {error}"));
    let schema = rows.rows.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
    let all = concat_batches(&schema, &rows.rows).map_err(error)?;
    let mut known = BTreeSet::new();
    let mut field = |field: &Arc<datafusion::arrow::datatypes::Field>| {
        let mut name = field.name().clone();
        let mut copy = 1;
        while !known.insert(name.clone()) {
            copy += 1;
            name = format!("{}_{copy}", field.name());
        }
        field.as_ref().clone().with_name(name).with_nullable(true)
    };
    let fields: Vec<_> = schema.fields().iter().map(&mut field).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(all.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), all.columns().to_vec(), &options)
        .map_err(error)
}

/// Each operator with the kinds of its rows, and how many there are; NULL if it does not show them.
fn list(state: &PastState) -> Result<RecordBatch, Cause> {
    let (mut names, mut kinds, mut counts, mut partitions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut add = |name: &str, of: u32, kind: Option<&'static str>, count: Option<i64>| {
        names.push(name.to_owned());
        partitions.push(i64::from(of));
        kinds.push(kind);
        counts.push(count);
    };
    for (name, of) in state.operators() {
        match state.rows(name)? {
            None => add(name, of, None, None),
            Some(held) if held.is_empty() => add(name, of, None, Some(0)),
            Some(held) => held.iter().for_each(|rows| {
                let count = rows.rows.iter().map(RecordBatch::num_rows).sum::<usize>();
                add(name, of, Some(rows.kind), Some(count as i64));
            }),
        }
    }
    let columns: [(&str, ArrayRef); 4] = [
        ("operator", Arc::new(StringArray::from(names))),
        ("partitions", Arc::new(Int64Array::from(partitions))),
        ("rows", Arc::new(StringArray::from(kinds))),
        ("count", Arc::new(Int64Array::from(counts))),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns)
        .map_err(|error| Cause::bug(error.to_string()).with_source(error))
}
