//! A function of DataFusion's that fails while it adds a row, in tables, windows and sessions, and across restarts.

use datafusion::arrow::array::{Int64Array, RecordBatch, TimestampNanosecondArray};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::exec_err;
use datafusion::logical_expr::{Volatility, col, create_udaf};
use tidemill_engine::{Batch, Cut, FaultLog, Operator, Output, SnapshotReader, SnapshotWriter};
use tidemill_operators::{
    AggregateCall, AggregateSpec, FailedResults, SessionAggregate, SessionSpec, TableAggregate,
    WindowAggregate, WindowSpec,
};

use super::*;

/// Adds positive numbers. It has changed its state by the time it fails at another one.
#[derive(Debug, Default)]
struct Positives(i64);

impl ForeignAccumulator for Positives {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<datafusion::arrow::datatypes::Int64Type>().values() {
            self.0 += value;
            if *value < 0 {
                return exec_err!("{value} is negative");
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(self.0)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Int64(Some(std::mem::take(&mut self.0)))])
    }

    fn size(&self) -> usize {
        8
    }
}

fn positives() -> ForeignAggregate {
    let make = Arc::new(|_: datafusion::logical_expr::function::AccumulatorArgs<'_>| {
        Ok(Box::<Positives>::default() as Box<dyn ForeignAccumulator>)
    });
    let integer = DataType::Int64;
    let types = (vec![integer.clone()], Arc::new(integer.clone()), Arc::new(vec![integer]));
    let function = create_udaf("positives", types.0, types.1, Volatility::Immutable, make, types.2);
    let call = AggregateFunction::new_udf(Arc::new(function), vec![col("v")], false, None, vec![], None);
    ForeignAggregate::new(&call, &DFSchema::try_from(batch(&[]).schema()).unwrap()).unwrap()
}

/// Time, key and value.
type Row = (i64, i64, i64);

fn batch(rows: &[Row]) -> RecordBatch {
    let times = TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.0));
    let integers = |of: fn(&Row) -> i64| Arc::new(Int64Array::from_iter_values(rows.iter().map(of)));
    let columns = [
        ("t", Arc::new(times) as ArrayRef, false),
        ("k", integers(|row| row.1) as ArrayRef, false),
        ("v", integers(|row| row.2) as ArrayRef, false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn spec(function: impl Aggregate + 'static, names: &[&str]) -> AggregateSpec {
    AggregateSpec {
        keys: vec![1],
        calls: vec![AggregateCall { function: Arc::new(function), arguments: vec![2], filter: None }],
        names: names.iter().map(|name| name.to_string()).collect(),
        input: batch(&[]).schema(),
        partial_input: false,
        groups_max: 100,
    }
}

const WINDOWED: [&str; 4] = ["k", "window_start", "window_end", "total"];

/// What a cycle wrote: the key and the total of each row, in order.
fn cycle(operator: &mut dyn Operator, output: &mut Output, calls: &[&[Row]], watermark: i64) -> Vec<String> {
    output.begin_cycle(calls.iter().map(|rows| rows.len() as u32).sum());
    for rows in calls {
        let positions: Vec<u32> = (0..rows.len() as u32).collect();
        let rows = Batch::from_source(batch(rows), positions.into());
        operator.rows(0, rows.as_rows(), output).unwrap();
    }
    operator.end_of_cycle(&Cut { watermarks: vec![watermark], ..Cut::first() }, output).unwrap();
    let Some(written) = output.finish(0).map(|batch| batch.rows) else { return Vec::new() };
    let total = written.column(written.num_columns() - 1);
    let shown = |column: &ArrayRef, row| {
        if column.is_null(row) { "NULL".to_owned() } else { array_value_to_string(column, row).unwrap() }
    };
    let row = |row| format!("{}: {}", shown(written.column(0), row), shown(total, row));
    (0..written.num_rows()).map(row).collect()
}

fn snapshot(operator: &dyn Operator) -> Vec<u8> {
    let mut writer = SnapshotWriter::default();
    operator.snapshot(&mut writer);
    writer.finish()
}

fn restore(operator: &mut dyn Operator, bytes: &[u8]) {
    operator.restore(&mut SnapshotReader::new(bytes).unwrap()).unwrap();
}

/// Runs two cycles, with a restart between them; `divided` says whether rows come one by one.
fn run(
    make: &dyn Fn(FailedResults) -> Box<dyn Operator>,
    schema: &datafusion::arrow::datatypes::SchemaRef,
    cycles: [(&[Row], i64); 2],
    divided: bool,
) -> (Vec<Vec<String>>, FaultLog) {
    let log = FaultLog::default();
    let mut operator = make(FailedResults::Null(log.clone()));
    let mut output = Output::new(std::slice::from_ref(schema));
    let mut written = Vec::new();
    for (rows, watermark) in cycles {
        let calls: Vec<&[Row]> = if divided { rows.chunks(1).collect() } else { vec![rows] };
        written.push(cycle(operator.as_mut(), &mut output, &calls, watermark));
        let bytes = snapshot(operator.as_ref());
        operator = make(FailedResults::Null(log.clone()));
        restore(operator.as_mut(), &bytes);
    }
    (written, log)
}

#[test]
fn a_row_that_cannot_be_added_costs_its_group_and_no_other() {
    let spec = spec(positives(), &["k", "total"]);
    let schema = TableAggregate::output_schema(&spec).unwrap();
    let make = |failed| -> Box<dyn Operator> {
        Box::new(TableAggregate::new(&spec).unwrap().failed_results(failed))
    };
    let first = [(0, 1, 5), (0, 2, 7), (0, 1, -3), (0, 1, 4), (0, 3, 1)];
    let second = [(0, 1, 9), (0, 2, 1)];
    for divided in [false, true] {
        let (written, log) = run(&make, &schema, [(&first, 0), (&second, 0)], divided);
        // The state of group 1 is not known any more, and a table's groups never end.
        assert_eq!(written, [vec!["1: NULL", "2: 7", "3: 1"], vec!["1: NULL", "2: 8"]]);
        let told = log.read();
        assert_eq!(told.count, 2);
        let expected = "total is NULL for k: 1, cycle 0: positives could not add a row: -3 is negative";
        assert_eq!(told.samples[0], expected);
    }
}

#[test]
fn a_group_is_failed_in_the_windows_that_have_the_row() {
    let spec = spec(positives(), &WINDOWED);
    let window = WindowSpec { time: 0, size_ns: 20, slide_ns: 10, offset_ns: 0 };
    let schema = WindowAggregate::output_schema(&spec, &window).unwrap();
    let make = |failed| -> Box<dyn Operator> {
        let made = WindowAggregate::new(&spec, &window, vec![0], Arc::default()).unwrap();
        Box::new(made.failed_results(failed))
    };
    // The windows from -10, 0, 10, 20 and 30; the bad row is in those from 0 and 10.
    let first = [(1, 1, 1), (2, 2, 1), (11, 1, -2), (12, 2, 2)];
    let second = [(21, 1, 4), (22, 2, 4), (31, 1, 8)];
    for divided in [false, true] {
        let (written, log) = run(&make, &schema, [(&first, 10), (&second, i64::MAX)], divided);
        assert_eq!(written[0], ["1: 1", "2: 1"]);
        let later = ["1: NULL", "2: 3", "1: NULL", "2: 6", "1: 12", "2: 4", "1: 8"];
        assert_eq!(written[1], later);
        assert_eq!(log.read().count, 2);
    }
}

#[test]
fn a_session_that_is_merged_with_a_failed_one_has_failed() {
    let spec = spec(positives(), &WINDOWED);
    let session = SessionSpec { time: 0, gap_ns: 5 };
    let schema = SessionAggregate::output_schema(&spec, &session).unwrap();
    let make = |failed| -> Box<dyn Operator> {
        let made = SessionAggregate::new(&spec, &session, vec![0], Arc::default()).unwrap();
        Box::new(made.failed_results(failed))
    };
    // The row at 4 merges the sessions at 0 and 8, of which the second has failed.
    let first = [(0, 1, 1), (8, 1, -1), (1, 2, 3)];
    let second = [(4, 1, 1), (100, 1, 6)];
    for divided in [false, true] {
        let (written, log) = run(&make, &schema, [(&first, 0), (&second, i64::MAX)], divided);
        assert_eq!(written, [vec![], vec!["2: 3", "1: NULL", "1: 6"]]);
        assert_eq!(log.read().count, 1);
    }
}

#[test]
fn a_query_that_is_to_stop_stops_with_the_reason() {
    let spec = spec(positives(), &["k", "total"]);
    let mut table = TableAggregate::new(&spec).unwrap();
    let mut output = Output::new(&[TableAggregate::output_schema(&spec).unwrap()]);
    let rows = Batch::from_source(batch(&[(0, 1, -1)]), vec![0].into());
    table.rows(0, rows.as_rows(), &mut output).unwrap();
    let stopped = table.end_of_cycle(&Cut::first(), &mut output).unwrap_err();
    assert_eq!(stopped.to_string(), "positives could not add a row: -1 is negative");
}

/// The function as it was before its state said whether the group has failed.
#[derive(Debug)]
struct Older(ForeignAggregate);

struct OlderGroups(Box<dyn Accumulator>);

impl Aggregate for Older {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn result_type(&self) -> DataType {
        self.0.result_type()
    }

    fn partial_types(&self) -> Vec<DataType> {
        vec![DataType::Int64]
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(OlderGroups(self.0.accumulator()))
    }
}

impl Accumulator for OlderGroups {
    fn resize(&mut self, groups: usize) {
        self.0.resize(groups);
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> std::result::Result<(), Cause> {
        self.0.update(groups, arguments, filter)
    }

    fn merge(&mut self, _: &[u32], _: &[ArrayRef]) -> std::result::Result<(), Cause> {
        unreachable!("nothing is merged here")
    }

    fn partial(&self, groups: &[u32]) -> std::result::Result<Vec<ArrayRef>, Cause> {
        Ok(self.0.partial(groups)?[..1].to_vec())
    }

    fn evaluate(&self, groups: &[u32]) -> std::result::Result<ArrayRef, Cause> {
        self.0.evaluate(groups)
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

#[test]
fn the_state_of_an_older_version_is_read() {
    let (older, newer) = (spec(Older(positives()), &["k", "total"]), spec(positives(), &["k", "total"]));
    let schema = TableAggregate::output_schema(&newer).unwrap();
    let mut output = Output::new(&[schema]);
    let mut table = TableAggregate::new(&older).unwrap();
    cycle(&mut table, &mut output, &[&[(0, 1, 5), (0, 2, 7)]], 0);
    let bytes = snapshot(&table);
    let mut table = TableAggregate::new(&newer).unwrap();
    restore(&mut table, &bytes);
    let written = cycle(&mut table, &mut output, &[&[(0, 1, 1), (0, 2, 1)]], 0);
    assert_eq!(written, ["1: 6", "2: 8"]);
}
