//! Linear Road's input as tuples of 64 bytes, made up: its columns and proportions, not its traffic.

use std::sync::Arc;

use tidemill_engine::arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use tidemill_engine::arrow::array::{cast::AsArray, types::UInt32Type};
use tidemill_engine::arrow::buffer::BooleanBuffer;
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{Batch, Route, route_by_value, route_or_broadcast};

/// The columns of the benchmark's input, and one more that numbers the rows of a batch: 16 of 4 bytes.
const COLUMNS: [&str; 16] = [
    "type", "time", "vid", "speed", "xway", "lane", "dir", "seg", "pos", "qid", "sinit", "send", "dow",
    "tod", "day", "number",
];
const TYPE: usize = 0;
const XWAY: usize = 4;
/// The column that numbers the rows.
pub const NUMBER: usize = 15;
/// The bytes of a tuple.
pub const TUPLE_BYTES: usize = 4 * COLUMNS.len();

pub fn schema() -> SchemaRef {
    let field = |name: &&str| Field::new(*name, DataType::UInt32, false);
    Arc::new(Schema::new(COLUMNS.iter().map(field).collect::<Vec<_>>()))
}

/// All columns' names.
pub fn columns() -> &'static [&'static str] {
    &COLUMNS
}

/// Reports go to their expressway, balance queries (type 2) to all.
pub fn route() -> Arc<Route> {
    let is_query = |rows: &RecordBatch| {
        let types = rows.column(TYPE).as_primitive::<UInt32Type>().values();
        BooleanArray::new(BooleanBuffer::collect_bool(types.len(), |row| types[row] == 2), None)
    };
    route_or_broadcast(route_by_value::<UInt32Type>(XWAY), is_query).into()
}

/// The same where nothing is ever broadcast: without a broadcast function.
pub fn route_only() -> Arc<Route> {
    route_by_value::<UInt32Type>(XWAY).into()
}

/// Batches of tuples over this many expressways, of which the share `broadcast` goes to all.
pub fn batches(count: usize, rows: usize, expressways: u32, broadcast: f64) -> Vec<Batch> {
    let mut random = fastrand::Rng::with_seed(42);
    let broadcast_below = (broadcast * f64::from(u32::MAX)) as u32;
    let mut batch = || {
        let mut columns: Vec<Vec<u32>> = (0..COLUMNS.len()).map(|_| Vec::with_capacity(rows)).collect();
        for row in 0..rows as u32 {
            for (index, column) in columns.iter_mut().enumerate() {
                column.push(match index {
                    TYPE if broadcast > 0.0 && random.u32(..) <= broadcast_below => 2,
                    TYPE => 0,
                    XWAY => random.u32(..expressways),
                    NUMBER => row,
                    _ => random.u32(..1 << 16),
                });
            }
        }
        let columns = columns.into_iter().map(|values| Arc::new(UInt32Array::from(values)) as ArrayRef);
        let rows = RecordBatch::try_new(schema(), columns.collect()).expect("the columns fit the schema");
        let positions = (0..rows.num_rows() as u32).collect();
        Batch::from_source(rows, positions)
    };
    (0..count).map(|_| batch()).collect()
}

/// The same batches with all rows on one expressway.
pub fn all_on(expressway: u32, batches: &[Batch]) -> Vec<Batch> {
    let moved = |batch: &Batch| {
        let mut columns = batch.rows.columns().to_vec();
        columns[XWAY] = Arc::new(UInt32Array::from(vec![expressway; batch.len()]));
        let rows = RecordBatch::try_new(schema(), columns).expect("the columns fit the schema");
        Batch::from_source(rows, batch.positions.clone())
    };
    batches.iter().map(moved).collect()
}

/// What a partition received: how many rows, the sum of their numbers, how often a number was below the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub rows: u64,
    pub sum: u64,
    pub disorder: u64,
}

impl Tally {
    pub fn add(&mut self, numbers: &[u32]) {
        self.rows += numbers.len() as u64;
        self.sum += numbers.iter().map(|number| u64::from(*number)).sum::<u64>();
        let back = numbers.iter().zip(&numbers[1.min(numbers.len())..]).filter(|(a, b)| a >= b);
        self.disorder += back.count() as u64;
    }
}

/// What each partition must receive of the batches, each `times[i]` times, determined row by row.
pub fn expected(batches: &[Batch], times: &[u64], expressways: u32) -> Vec<Tally> {
    let mut tallies = vec![Tally::default(); expressways as usize];
    for (batch, times) in batches.iter().zip(times) {
        let column = |index: usize| batch.rows.column(index).as_primitive::<UInt32Type>().values();
        for row in 0..batch.len() {
            let number = u64::from(column(NUMBER)[row]);
            let give = |tally: &mut Tally| {
                tally.rows += times;
                tally.sum += number * times;
            };
            match column(TYPE)[row] {
                2 => tallies.iter_mut().for_each(give),
                _ => give(&mut tallies[column(XWAY)[row] as usize]),
            }
        }
    }
    tallies
}
