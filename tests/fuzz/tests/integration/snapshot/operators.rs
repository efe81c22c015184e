//! The operators' state, with many kinds of keys and functions.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow_schema::SchemaRef;
use tidemill_core::{Batch, Cut, Operator, Output, SnapshotReader, SnapshotWriter};
use tidemill_fuzz::cases;
use tidemill_operators::aggregate::{Average, Count, CountDistinct, Extreme, Sum};
use tidemill_operators::count_windows::{self, CountWindows, CountWindowsSpec};
use tidemill_operators::interval_join::{self, IntervalJoin, IntervalJoinSpec};
use tidemill_operators::join::JoinKind;
use tidemill_operators::over::{self, Frame, Function, FunctionSpec, Over, OverSpec, RunningAggregate};
use tidemill_operators::round_robin::{self, RoundRobin, RoundRobinSpec};
use tidemill_operators::sort::{self, Ordering, OrderingSpec};
use tidemill_operators::table_join::{self, TableJoin, TableJoinSpec};
use tidemill_operators::top::{self, Numbering, OrderBy, Top, TopSpec};
use tidemill_operators::{
    Aggregate, AggregateCall, AggregateSpec, SessionAggregate, SessionSpec, TableAggregate, WindowAggregate,
    WindowSpec,
};

use super::{damaged, sealed};

const TIME: usize = 0;
const NUMBER: usize = 1;
const TEXT: usize = 2;
const VALUE: usize = 3;

fn rows() -> RecordBatch {
    let numbers = (0..40).map(|row| (row % 7 != 0).then_some(row % 5));
    let texts = (0..40).map(|row| (row % 6 != 0).then(|| format!("text {}", row % 4)));
    let values = (0..40).map(|row| (row % 9 != 0).then_some(f64::from(row) * 0.5));
    let columns: [(&str, ArrayRef); 4] = [
        ("time", Arc::new(TimestampNanosecondArray::from((0..40).collect::<Vec<i64>>()))),
        ("number", Arc::new(numbers.collect::<Int64Array>())),
        ("text", Arc::new(texts.collect::<StringArray>())),
        ("value", Arc::new(values.collect::<Float64Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, name != "time")))
        .unwrap()
}

fn aggregates(schema: &SchemaRef, keys: &[usize], bounds: &[&str]) -> AggregateSpec {
    let call = |function: Arc<dyn Aggregate>, argument| AggregateCall {
        function,
        arguments: Vec::from_iter(argument),
        filter: None,
    };
    let kind = |column: usize| schema.field(column).data_type().clone();
    let calls = vec![
        call(Arc::new(Count::rows()), None),
        call(Arc::new(Sum::new(&kind(NUMBER)).unwrap()), Some(NUMBER)),
        call(Arc::new(Average::new(&kind(VALUE)).unwrap()), Some(VALUE)),
        call(Arc::new(CountDistinct::new(&kind(TEXT), 1000).unwrap()), Some(TEXT)),
        call(Arc::new(Extreme::minimum(&kind(TEXT)).unwrap()), Some(TEXT)),
        call(Arc::new(Extreme::maximum(&kind(VALUE)).unwrap()), Some(VALUE)),
    ];
    let keyed = keys.iter().map(|key| format!("key {key}"));
    let results = (0..calls.len()).map(|call| format!("result {call}"));
    let names = keyed.chain(bounds.iter().map(|&bound| bound.to_owned())).chain(results).collect();
    let input = Arc::clone(schema);
    AggregateSpec { keys: keys.to_vec(), calls, names, input, partial_input: false, groups_max: 1000 }
}

fn running(schema: &SchemaRef, keys: &[usize]) -> OverSpec {
    let aggregate = |aggregate, column, frame| Function::Aggregate { aggregate, column, filter: None, frame };
    let all = Frame::Range { preceding_ns: None };
    let functions = [
        Function::RowNumber,
        Function::Rank,
        Function::DenseRank,
        Function::Lag { column: TEXT, rows: 2, default: None },
        Function::FirstValue { column: TEXT, frame: Frame::Rows { preceding: Some(3) } },
        Function::NthValue { column: VALUE, n: 2, frame: all },
        aggregate(RunningAggregate::Sum, Some(NUMBER), Frame::Rows { preceding: Some(4) }),
        aggregate(RunningAggregate::Avg, Some(VALUE), Frame::Range { preceding_ns: Some(9) }),
        aggregate(RunningAggregate::Max, Some(TEXT), Frame::Range { preceding_ns: Some(9) }),
        aggregate(RunningAggregate::Count, None, all),
    ];
    let named = functions.into_iter().enumerate();
    OverSpec {
        schema: Arc::clone(schema),
        keys: keys.to_vec(),
        event_time: TIME,
        functions: named.map(|(at, function)| FunctionSpec { name: format!("f{at}"), function }).collect(),
        ordered: false,
        watermark: vec![0].into(),
        rows_max: 1000,
        late: Default::default(),
    }
}

fn top(schema: &SchemaRef) -> TopSpec {
    TopSpec {
        schema: Arc::clone(schema),
        partition: vec![TEXT],
        order: vec![OrderBy { column: VALUE, descending: true, nulls_first: false }],
        count: 3,
        numbering: Numbering::Rank,
        number_column: Some("rank".into()),
        window_end: TIME,
        watermark: vec![0].into(),
        rows_max: 1000,
        late: Default::default(),
    }
}

fn interval_join(schema: &SchemaRef, keys: &[usize]) -> IntervalJoinSpec {
    IntervalJoinSpec {
        left: Arc::clone(schema),
        right: Arc::clone(schema),
        left_keys: keys.to_vec(),
        right_keys: keys.to_vec(),
        left_time: TIME,
        right_time: TIME,
        low_ns: -5,
        high_ns: 5,
        kind: JoinKind::Left,
        residual: None,
        watermark: vec![0, 0].into(),
        rows_max: 1000,
        late: Default::default(),
    }
}

fn table_join(schema: &SchemaRef) -> TableJoinSpec {
    TableJoinSpec {
        stream: Arc::clone(schema),
        table: Arc::clone(schema),
        stream_keys: vec![NUMBER, TEXT],
        table_keys: vec![NUMBER, TEXT],
        kind: JoinKind::Left,
        residual: None,
        rows_max: 1000,
    }
}

type Make = Box<dyn Fn() -> (Box<dyn Operator>, SchemaRef) + Send>;

/// A way to make each operator, empty, and the columns of its output.
fn operators(schema: &SchemaRef) -> Vec<Make> {
    let mut all: Vec<Make> = Vec::new();
    for keys in [&[][..], &[NUMBER], &[TEXT], &[NUMBER, TEXT]] {
        let table = aggregates(schema, keys, &[]);
        all.push(Box::new(move || {
            let columns = TableAggregate::output_schema(&table).unwrap();
            (Box::new(TableAggregate::new(&table).unwrap()), columns)
        }));
        let (windowed, window) = (
            aggregates(schema, keys, &["start", "end"]),
            WindowSpec { time: TIME, size_ns: 20, slide_ns: 10, offset_ns: 0 },
        );
        let sessions = windowed.clone();
        all.push(Box::new(move || {
            let columns = WindowAggregate::output_schema(&windowed, &window).unwrap();
            (Box::new(WindowAggregate::new(&windowed, &window, vec![0], Arc::default()).unwrap()), columns)
        }));
        let gap = SessionSpec { time: TIME, gap_ns: 3 };
        all.push(Box::new(move || {
            let columns = SessionAggregate::output_schema(&sessions, &gap).unwrap();
            (Box::new(SessionAggregate::new(&sessions, &gap, vec![0], Arc::default()).unwrap()), columns)
        }));
        let over = running(schema, keys);
        all.push(Box::new(move || {
            (Box::new(Over::new(over.clone()).unwrap()), over::output_schema(&over).unwrap())
        }));
        let counted = CountWindowsSpec {
            schema: Arc::clone(schema),
            keys: keys.to_vec(),
            size: 7,
            slide: 3,
            watermark: vec![0].into(),
            rows_max: 1000,
        };
        all.push(Box::new(move || {
            (Box::new(CountWindows::new(counted.clone()).unwrap()), count_windows::output_schema(&counted))
        }));
        let join = interval_join(schema, keys);
        all.push(Box::new(move || {
            (Box::new(IntervalJoin::new(join.clone()).unwrap()), interval_join::output_schema(&join))
        }));
    }
    let dealt = RoundRobinSpec { schema: Arc::clone(schema), sub_streams: 3, broadcast: None };
    all.push(Box::new(move || {
        (Box::new(RoundRobin::new(dealt.clone())), round_robin::output_schema(&dealt))
    }));
    let top = top(schema);
    all.push(Box::new(move || (Box::new(Top::new(top.clone()).unwrap()), top::output_schema(&top))));
    let join = table_join(schema);
    all.push(Box::new(move || {
        (Box::new(TableJoin::new(join.clone()).unwrap()), table_join::output_schema(&join))
    }));
    let ordering = OrderingSpec {
        schema: Arc::clone(schema),
        event_time: TIME,
        watermark: vec![0].into(),
        rows_max: 1000,
        late: Default::default(),
    };
    all.push(Box::new(move || (Box::new(Ordering::new(ordering.clone())), sort::output_schema(&ordering))));
    all
}

/// The state after some rows, up to the middle of their times.
fn snapshot(make: &Make) -> Vec<u8> {
    let (mut operator, columns) = make();
    let mut output = Output::new(&[columns]);
    let rows = rows();
    let positions: Vec<u32> = (0..rows.num_rows() as u32).collect();
    output.begin_cycle(rows.num_rows() as u32);
    let batch = Batch::from_source(rows, positions.into());
    operator.rows(0, batch.as_rows(), &mut output).unwrap();
    let cut = Cut { watermarks: vec![17], positions: vec![40], ..Cut::first() };
    operator.end_of_cycle(&cut, &mut output).unwrap();
    written(operator.as_ref())
}

fn written(operator: &dyn Operator) -> Vec<u8> {
    let mut writer = SnapshotWriter::default();
    operator.snapshot(&mut writer);
    writer.finish()
}

#[test]
fn damaged_state_of_an_operator_is_restored_or_refused() {
    let schema = rows().schema();
    let operators: Vec<(Make, Vec<u8>)> = operators(&schema)
        .into_iter()
        .map(|make| {
            let state = snapshot(&make);
            (make, state)
        })
        .collect();
    for (make, state) in &operators {
        let (mut operator, _) = make();
        operator.restore(&mut SnapshotReader::new(state).unwrap()).unwrap();
        assert_eq!(&written(operator.as_ref()), state, "what is restored is written as before");
    }
    let states: Vec<Vec<u8>> = operators.iter().map(|(_, state)| state.clone()).collect();
    cases::run("snapshot: operators", move |random| {
        let (make, state) = &operators[random.index(operators.len())];
        let bytes = if random.is_once_in(8) {
            sealed((0..random.index(200)).map(|_| random.next() as u8).collect())
        } else {
            damaged(random, state, &states)
        };
        let (mut operator, _) = make();
        let _ = operator.restore(&mut SnapshotReader::new(&bytes).unwrap());
    });
}
