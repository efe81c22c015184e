//! Random rows, and what a plain list of them shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tidemill_engine::arrow::schema::{DataType, Field, Schema};
use tidemill_engine::{Batch, Cause, Cut, CycleOutput, ManualClock, Sink};
use tidemill_store::{Contents, Fragmentation, Retention, StoreConfig, StoreReader};

use tidemill_testing::random::Random;

/// A car, a time, and a text.
pub type Row = (i64, i64, String);

pub fn config(contents: Contents, retention: Retention, fragments: Option<Fragmentation>) -> StoreConfig {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    let columns = [("vid", DataType::Int64), ("time", DataType::Int64), ("text", DataType::Utf8)];
    let schema = Schema::new(columns.map(|(name, data_type)| field(name, data_type)).to_vec());
    StoreConfig {
        contents,
        key: Some(vec![0]),
        time: Some(1),
        retention,
        fragments,
        ..StoreConfig::new(&Arc::new(schema))
    }
}

pub fn random_rows(random: &mut Random, now: i64) -> Vec<Row> {
    let row = |at| (random.below(20) as i64, now - random.below(15) as i64, format!("{now} {at}"));
    let count = if now % 70 == 0 { 0 } else { 1 + now % 9 };
    (0..count).map(row).collect()
}

/// Rows of different cars at the same time.
pub fn newest_rows(now: i64, count: i64) -> Vec<Row> {
    (0..count).map(|vid| (vid, now, format!("car {vid} at {now}"))).collect()
}

fn batch(rows: &[Row], config: &StoreConfig) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.2.clone())).collect::<StringArray>()),
    ];
    RecordBatch::try_new(config.schema.clone(), columns).unwrap()
}

/// Gives a sink the rows of a cycle, and commits it.
pub fn commit(sink: &mut dyn Sink, cycle: u64, rows: &[Row]) -> Result<(), Cause> {
    let batch = batch(rows, &config(Contents::AllRows, Retention::default(), None));
    let positions: Vec<u32> = (0..rows.len() as u32).collect();
    let streams = vec![Some(Batch::from_source(batch, positions.into()))];
    let cut = Arc::new(Cut { cycle, ..Cut::first() });
    let clock = Arc::new(ManualClock::default());
    sink.prepare(CycleOutput { cut, streams, arrivals: Arc::default(), clock })?;
    sink.commit(cycle..=cycle)
}

/// What these cycles show, oldest first.
pub fn shown(cycles: &[Vec<Row>], contents: Contents) -> Vec<Row> {
    let rows = cycles.iter().flatten();
    if contents == Contents::AllRows {
        return rows.cloned().collect();
    }
    let mut first = Vec::new();
    let mut newest = BTreeMap::new();
    for row in rows {
        if newest.insert(row.0, row.clone()).is_none() {
            first.push(row.0);
        }
    }
    first.iter().map(|vid| newest[vid].clone()).collect()
}

/// What the newest version has.
pub fn rows_of(reader: &StoreReader) -> Vec<Row> {
    let rows = reader.latest().read().unwrap();
    let numbers = |column: usize| rows.column(column).as_primitive::<Int64Type>();
    let (vids, times, texts) = (numbers(0), numbers(1), rows.column(2).as_string::<i32>());
    (0..rows.num_rows()).map(|row| (vids.value(row), times.value(row), texts.value(row).to_owned())).collect()
}
