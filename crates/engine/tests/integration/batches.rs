//! Whole batches of any types, nulls included, from sources through operators to sinks.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::fixture::watched;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::{Int32Type, UInt32Type, UInt64Type};
use tidemill_engine::arrow::array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, ListArray, RecordBatch, StringArray,
    StringViewArray, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{
    Batch, Cause, Chunk, Cut, CycleOutput, CyclePolicy, Engine, Failure, Fault, FlowError, Operator,
    OperatorPlan, Output, Plan, Rows, Sink, SnapshotReader, SnapshotWriter, route_by_key,
};
use tidemill_testing::random::Random;

/// A sink that keeps what it is given.
#[derive(Clone, Default)]
struct Maintained(Arc<Mutex<Vec<Batch>>>);

impl Sink for Maintained {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.0.lock().extend(output.streams.into_iter().flatten());
        Ok(())
    }
    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Rows of every kind of column: the number of the row is the key, and decides all the rest.
fn mixed(from: u32, to: u32) -> RecordBatch {
    let some = |number: u32| (number % 5 != 2).then_some(number);
    let words = |number: u32| some(number).map(|number| format!("word number {}", number % 40));
    let numbers = || from..to;
    let lists = numbers().map(|n| some(n).map(|n| (0..n % 3).map(move |i| Some((n + i) as i32))));
    let words_as_entries: Vec<Option<String>> = numbers().map(words).collect();
    let entries: DictionaryArray<Int32Type> = words_as_entries.iter().map(|word| word.as_deref()).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("key", Arc::new(UInt32Array::from_iter_values(numbers()))),
        ("text", Arc::new(numbers().map(words).collect::<StringArray>())),
        ("view", Arc::new(numbers().map(words).collect::<StringViewArray>())),
        ("entry", Arc::new(entries)),
        ("flag", Arc::new(numbers().map(|n| some(n).map(|n| n % 2 == 0)).collect::<BooleanArray>())),
        ("real", Arc::new(numbers().map(|n| some(n).map(f64::from)).collect::<Float64Array>())),
        ("time", Arc::new(numbers().map(|n| some(n).map(i64::from)).collect::<TimestampNanosecondArray>())),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
    ];
    let fields =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), *name != "key"));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

/// Writes its rows again, in batches of two; at the end of the cycle its last one once more.
#[derive(Default)]
struct Again {
    last: Option<RecordBatch>,
}

impl Operator for Again {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        for start in (0..rows.len()).step_by(2) {
            let length = 2.min(rows.len() - start);
            output
                .port(0)
                .push_batch(batch.slice(start, length), &rows.positions()[start..start + length])?;
        }
        self.last = Some(batch.slice(rows.len() - 1, 1));
        Ok(())
    }
    fn end_of_cycle(&mut self, _cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let end = output.end_position();
        self.last.take().map_or(Ok(()), |last| output.port(0).push_batch(last, &[end]))
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

/// A chunk in which every row is an event.
fn chunk(rows: RecordBatch) -> Chunk {
    let events = rows.num_rows() as u32;
    let batch = Batch::from_source(rows, (0..events).collect());
    Chunk { streams: vec![Some(batch)], events, watermark: 0, arrived_ns: None, idle: false }
}

fn run(plan: &Plan, chunks: Vec<Chunk>, workers: usize, cycle: u32) -> Result<Vec<Batch>, Failure> {
    let plan = plan.clone();
    watched("whole batches", move || {
        let sink = Maintained::default();
        let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(cycle));
        let mut running = engine.run(plan, vec![Box::new(sink.clone())]).unwrap();
        let gateway = running.gateway(0).unwrap();
        for chunk in chunks {
            if gateway.push(chunk).is_err() {
                break;
            }
        }
        drop(gateway);
        match running.join() {
            Ok(_) => Ok(std::mem::take(&mut *sink.0.lock())),
            Err(FlowError::Failed(failure)) => Err(failure),
            Err(error) => panic!("{error}"),
        }
    })
}

/// Source -> operators of this kind, one after the other -> sink.
fn plan_of(
    schema: &SchemaRef,
    operators: usize,
    output: &SchemaRef,
    factory: impl Fn() -> Box<dyn Operator> + Clone + Send + Sync + 'static,
) -> Plan {
    let mut plan = Plan::new("batches");
    let mut stream = plan.source("input", [Arc::clone(schema)])[0];
    for index in 0..operators {
        let factory = factory.clone();
        let columns: Vec<String> =
            plan.schema(stream).unwrap().fields().iter().map(|f| f.name().clone()).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let operator = OperatorPlan::new(format!("operator {index}"), 7, move |_| factory())
            .input(stream, &columns, route_by_key::<UInt32Type>(0, 7))
            .output(Arc::clone(output));
        stream = plan.operator(operator)[0];
    }
    plan.sink("output", [stream]);
    plan
}

#[test]
fn strings_nulls_dictionaries_and_lists_come_through_as_they_were() {
    let schema = mixed(0, 1).schema();
    let plan = plan_of(&schema, 2, &schema, || Box::new(Again::default()));
    for cycle in [50, 3000] {
        let mut random = Random::new(u64::from(cycle));
        let (mut chunks, mut from) = (Vec::new(), 0);
        while from < 4000 {
            let to = (from + 1 + random.below(200) as u32).min(4000);
            chunks.push(chunk(mixed(from, to)));
            from = to;
        }
        let alone = run(&plan, chunks.clone(), 1, cycle).unwrap();
        // Each row comes twice from the second operator if its first writing was the last of a partition.
        for batch in &alone {
            let keys = batch.rows.column(0).as_primitive::<UInt32Type>().values();
            for (row, key) in keys.iter().enumerate() {
                assert_eq!(batch.rows.slice(row, 1), mixed(*key, key + 1), "row {row}");
            }
        }
        let firsts: usize = alone.iter().map(Batch::len).sum();
        assert!(firsts > 4000, "{firsts} rows");
        for workers in [2, 5] {
            let other = run(&plan, chunks.clone(), workers, cycle).unwrap();
            assert_eq!(alone.len(), other.len());
            for (alone, other) in alone.iter().zip(&other) {
                assert_eq!(alone.positions, other.positions, "{workers} workers");
                assert_eq!(alone.origins, other.origins, "{workers} workers");
                assert_eq!(alone.rows, other.rows, "{workers} workers");
            }
        }
    }
}

fn numbers_schema() -> SchemaRef {
    let fields =
        vec![Field::new("key", DataType::UInt32, false), Field::new("value", DataType::UInt64, false)];
    Arc::new(Schema::new(fields))
}

fn numbers(rows: &[(u32, u64)]) -> RecordBatch {
    let keys = Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0))) as _;
    let values = Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.1))) as _;
    RecordBatch::try_new(numbers_schema(), vec![keys, values]).unwrap()
}

/// Writes even keys row by row and odd ones as batches, in the order in which they come.
struct Both;

impl Operator for Both {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let (keys, values) = (rows.column::<UInt32Type>(0), rows.column::<UInt64Type>(1));
        output.port(0).push_batch(numbers(&[]), &[])?;
        for (row, position) in rows.positions().iter().enumerate() {
            match (keys[row] / 7) % 2 {
                0 => output.port(0).push(*position, (keys[row], values[row])),
                _ => output.port(0).push_batch(numbers(&[(keys[row], values[row])]), &[*position])?,
            }
        }
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

#[test]
fn rows_and_batches_may_be_mixed_and_keep_their_order() {
    let plan = plan_of(&numbers_schema(), 1, &numbers_schema(), || Box::new(Both));
    let rows: Vec<(u32, u64)> = (0..5000u32).map(|number| (number % 300, u64::from(number))).collect();
    for (workers, cycle) in [(1, 20), (2, 20), (1, 3000), (2, 3000), (5, 3000)] {
        let given =
            run(&plan, rows.chunks(33).map(|rows| chunk(numbers(rows))).collect(), workers, cycle).unwrap();
        let got: Vec<(u32, u64)> = given
            .iter()
            .flat_map(|batch| {
                let keys = batch.rows.column(0).as_primitive::<UInt32Type>().values().to_vec();
                keys.into_iter().zip(batch.rows.column(1).as_primitive::<UInt64Type>().values().to_vec())
            })
            .collect();
        assert_eq!(got, rows, "{workers} workers, cycles of {cycle}");
    }
}

/// Writes something that its port does not have.
struct Wrong(&'static str);

impl Operator for Wrong {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        let null = || {
            let columns = vec![batch.column(0).clone(), Arc::new(UInt64Array::new_null(rows.len())) as _];
            let fields = [("key", DataType::UInt32), ("value", DataType::UInt64)];
            let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
            RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns).unwrap()
        };
        match self.0 {
            "too few columns" => output.port(0).push_batch(batch.project(&[0]).unwrap(), rows.positions()),
            "other types" => output.port(0).push_batch(batch.project(&[1, 0]).unwrap(), rows.positions()),
            "nulls" => output.port(0).push_batch(null(), rows.positions()),
            "too few positions" => output.port(0).push_batch(batch, &rows.positions()[1..]),
            _ => {
                let end = output.end_position();
                output.port(0).push_batch(batch, &vec![end + 1; rows.len()])
            }
        }
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

#[test]
fn a_batch_that_its_port_does_not_have_is_a_named_bug() {
    let cases = [
        ("too few columns", "rows that do not match its port"),
        ("other types", "rows that do not match its port"),
        ("nulls", "rows that do not match its port"),
        ("too few positions", "1 rows with 0 positions"),
        ("a position too large", "the last position of the cycle is 10"),
    ];
    for ((what, text), workers) in cases.into_iter().flat_map(|case| [1, 2, 5].map(|workers| (case, workers)))
    {
        let plan = plan_of(&numbers_schema(), 1, &numbers_schema(), move || Box::new(Wrong(what)));
        let mut rows = [(0, 0); 10];
        rows[3] = (5, 1);
        // One row of partition 5, and no other.
        let filtered: Vec<(u32, u64)> = rows.iter().copied().filter(|row| row.1 == 1).collect();
        let one = Batch::from_source(numbers(&filtered), vec![3].into());
        let chunk =
            Chunk { streams: vec![Some(one)], events: 10, watermark: 0, arrived_ns: None, idle: false };
        let Err(Failure::Operator(error)) = run(&plan, vec![chunk], workers, 10) else { panic!("{what}") };
        assert_eq!((error.operator.as_str(), error.partition, error.cycle), ("operator 0", 5, 0), "{what}");
        assert!(error.cause.fault == Fault::Bug, "{what}: {error}");
        assert!(error.to_string().contains(text), "{what}: {error}");
    }
}

#[test]
fn rows_with_strings_written_one_by_one_are_a_named_bug() {
    struct ByRow;
    impl Operator for ByRow {
        fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
            output.port(0).push(rows.positions()[0], (1u32,));
            Ok(())
        }
        fn snapshot(&self, _writer: &mut SnapshotWriter) {}
        fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
            Ok(())
        }
    }
    let schema = mixed(0, 1).schema();
    let plan = plan_of(&schema, 1, &schema, || Box::new(ByRow));
    let Err(failure) = run(&plan, vec![chunk(mixed(0, 10))], 2, 10) else { panic!() };
    assert!(failure.to_string().contains("written in batches"), "{failure}");
}

#[test]
fn rows_that_cannot_be_one_batch_stop_the_query_with_a_name() {
    // 200 different words in dictionaries of at most 127 entries: each chunk is well, the cycle is not.
    use tidemill_engine::arrow::array::types::Int8Type;
    let words = |from: u32, to: u32| {
        let words: Vec<String> = (from..to).map(|number| format!("word {number}")).collect();
        let entries: DictionaryArray<Int8Type> = words.iter().map(|word| Some(word.as_str())).collect();
        let keys = Arc::new(UInt32Array::from_iter_values(from..to)) as ArrayRef;
        RecordBatch::try_from_iter([("key", keys), ("entry", Arc::new(entries) as _)]).unwrap()
    };
    let schema = words(0, 1).schema();
    for (operators, workers, named) in
        [(0, 1, "sink 'output', cycle 0"), (0, 2, "sink 'output'"), (2, 1, "output of operator 'operator 0'")]
    {
        let plan = plan_of(&schema, operators, &schema, || Box::new(Again::default()));
        let chunks = vec![chunk(words(0, 100)), chunk(words(100, 200))];
        let Err(failure) = run(&plan, chunks, workers, 200) else { panic!("200 entries fit?") };
        let text = failure.to_string();
        assert!(
            text.contains(named) && text.contains("limit reached") && text.contains("fewer events"),
            "{text}"
        );
    }
}
