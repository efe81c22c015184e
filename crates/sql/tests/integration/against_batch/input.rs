//! Random finite input: two streams out of order, a table, and the lengths that queries use.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

pub const MS: i64 = 1_000_000;

/// A row of a stream; its place in it is its `id`.
#[derive(Clone, Debug)]
pub struct Row {
    pub key: Option<i64>,
    pub name: Option<&'static str>,
    pub value: Option<i64>,
    pub price: Option<f64>,
    pub flag: Option<bool>,
    pub at_ms: Option<i64>,
}

/// A stream with the delay of its watermark.
#[derive(Clone, Debug)]
pub struct Stream {
    pub rows: Vec<Row>,
    pub delay_ms: i64,
}

/// Everything that a case reads.
#[derive(Clone, Debug)]
pub struct Input {
    pub a: Stream,
    pub b: Stream,
    pub dimension: Vec<(Option<i64>, Option<&'static str>, f64)>,
    pub slide_ms: i64,
    /// The size of windows, in slides.
    pub slides: i64,
    pub gap_ms: i64,
    pub before_ms: i64,
    pub after_ms: i64,
}

/// How a query is run.
#[derive(Clone, Debug)]
pub struct Run {
    pub workers: usize,
    pub cycle_events: u32,
    /// The sizes of batches, repeated as needed.
    pub batches: Vec<usize>,
}

pub fn inputs() -> impl Strategy<Value = Input> {
    let slide_ms = prop::sample::select(vec![250, 500, 1000, 1500, 4000]);
    let dimension = vec((weighted(0.9, 0..6i64), weighted(0.8, names()), eighths()), 0..8);
    let bounds = (0..8i64, 0..8i64);
    (streams(), streams(), dimension, slide_ms, 1..5i64, 1..12i64, bounds).prop_map(
        |(a, b, dimension, slide_ms, slides, gap, (before, after))| Input {
            a,
            b,
            dimension,
            slide_ms,
            slides,
            gap_ms: gap * 250,
            before_ms: before * 250,
            after_ms: after * 250,
        },
    )
}

pub fn runs() -> impl Strategy<Value = Run> {
    let workers = prop::sample::select(vec![1, 2, 5]);
    (workers, 1..40u32, vec(1..20usize, 1..5)).prop_map(|(workers, cycle_events, batches)| Run {
        workers,
        cycle_events,
        batches,
    })
}

fn names() -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(vec!["", "a", "b", "Ähre", "a longer name than fits in twelve bytes"])
}

/// Prices whose sums are exact in any order.
fn eighths() -> impl Strategy<Value = f64> + Clone {
    (-400..4000i32).prop_map(|eighths| f64::from(eighths) / 8.0)
}

fn streams() -> impl Strategy<Value = Stream> {
    let row = (
        weighted(0.85, 0..5i64),
        weighted(0.8, names()),
        weighted(0.8, -20..100i64),
        weighted(0.8, eighths()),
        weighted(0.8, any::<bool>()),
        // Off the even path of time, in steps in which equal times are common; now and then far ahead.
        weighted(0.97, prop_oneof![12 => -8..8i64, 1 => 20..40i64]),
    );
    let delay_ms = prop::sample::select(vec![0, 250, 1000, 3000, 20_000]);
    (vec(row, 0..50), -10..10i64, delay_ms).prop_map(|(rows, first, delay_ms)| {
        let rows = rows.into_iter().enumerate();
        let rows = rows.map(|(index, (key, name, value, price, flag, steps))| {
            let at_ms = steps.map(|steps| (first + index as i64 + steps) * 250);
            Row { key, name, value, price, flag, at_ms }
        });
        Stream { rows: rows.collect(), delay_ms }
    })
}

impl Stream {
    /// For each row whether its event time is more than the delay before the largest of the rows before it; `None`
    /// for rows without event time.
    pub fn late(&self) -> Vec<Option<bool>> {
        let mut latest_ms = None;
        let is_late = |row: &Row| {
            let at_ms = row.at_ms?;
            let late = latest_ms.is_some_and(|latest_ms: i64| latest_ms - at_ms > self.delay_ms);
            latest_ms = latest_ms.max(Some(at_ms));
            Some(late)
        };
        self.rows.iter().map(is_late).collect()
    }

    /// The rows that are there in time.
    pub fn in_time(&self) -> Vec<(usize, Row)> {
        let rows = self.rows.iter().cloned().enumerate().zip(self.late());
        rows.filter(|(_, late)| *late == Some(false)).map(|(row, _)| row).collect()
    }

    /// All rows with their numbers.
    pub fn all(&self) -> Vec<(usize, Row)> {
        self.rows.iter().cloned().enumerate().collect()
    }
}

pub fn stream_schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("key", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("value", DataType::Int64, true),
        Field::new("price", DataType::Float64, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("at", time, true),
    ]))
}

pub fn stream_batch(rows: &[(usize, Row)]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|(id, _)| Some(*id as i64)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|(_, row)| row.key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|(_, row)| row.name).collect::<StringArray>()),
        Arc::new(rows.iter().map(|(_, row)| row.value).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|(_, row)| row.price).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|(_, row)| row.flag).collect::<BooleanArray>()),
        Arc::new(
            rows.iter().map(|(_, row)| row.at_ms.map(|ms| ms * MS)).collect::<TimestampNanosecondArray>(),
        ),
    ];
    RecordBatch::try_new(stream_schema(), columns).expect("the columns are those of the schema")
}

pub fn dimension_batch(input: &Input) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("key", DataType::Int64, true),
        Field::new("label", DataType::Utf8, true),
        Field::new("weight", DataType::Float64, false),
    ]);
    let rows = &input.dimension;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).expect("the columns are those of the schema")
}
