//! Regions that follow the points: whatever the cycles, calls and restarts are, each row has the region that it would
//! have if all rows came in the order of time.
#![allow(missing_docs)]

use crate::cycles;

use std::sync::Arc;

use crate::cycles::{DIVISIONS, Event, events, in_event_order, run, schema};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;
use tidemill_core::error::Cause;
use tidemill_core::{Batch, Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter};
use tidemill_operators::regions::{Regions, RegionsSpec, output_schema};
use tidemill_operators::watermark::LateRows;
use tidemill_split::spatial::{AdaptiveRegions, Cuts, Method};

/// Passes rows on to the operator, with key and value as floating-point numbers behind them.
struct AsPoints(Regions);

fn with_points(rows: &RecordBatch) -> RecordBatch {
    let float = |column: usize| {
        let values = rows.column(column).as_primitive::<Int64Type>().iter();
        Arc::new(values.map(|value| Some(value? as f64)).collect::<Float64Array>()) as ArrayRef
    };
    let columns = rows.columns().iter().cloned().chain([float(1), float(3)]).collect();
    RecordBatch::try_new(points_schema(), columns).unwrap()
}

fn points_schema() -> SchemaRef {
    let float = |name: &str| Arc::new(Field::new(name, DataType::Float64, true));
    let own = schema().fields().iter().cloned().collect::<Vec<_>>();
    Arc::new(Schema::new(own.into_iter().chain([float("x"), float("y")]).collect::<Vec<_>>()))
}

impl Operator for AsPoints {
    fn rows(&mut self, input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let batch = Batch::from_source(with_points(&rows.to_batch()), rows.positions().to_vec().into());
        self.0.rows(input, batch.as_rows(), output)
    }
    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        self.0.end_of_cycle(cut, output)
    }
    fn next_timer(&self) -> Option<i64> {
        self.0.next_timer()
    }
    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.0.snapshot(writer);
    }
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.0.restore(reader)
    }
}

fn spec(method: Method, late: &LateRows) -> RegionsSpec {
    RegionsSpec {
        schema: points_schema(),
        event_time: 0,
        coordinates: vec![4, 5],
        columns: 4,
        method,
        history_ns: 12,
        every_ns: 7,
        points_max: 5,
        watermark: vec![0].into(),
        rows_max: 1000,
        late: late.clone(),
    }
}

/// The region of each event, in order of time.
fn naive(method: Method, events: &[&Event]) -> Vec<Option<u32>> {
    let mut regions = AdaptiveRegions::new(method, 12, 7, 5);
    let region = |event: &&Event| Some(regions.region(event.time, &[event.key? as f64, event.value? as f64]));
    events.iter().map(region).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn regions_do_not_depend_on_cycles_and_restarts(events in events(2, 60), levels in 0..4_u32, least in 0.0..0.5) {
        let trees = [Cuts::Median, Cuts::Sparse { least }].map(|cuts| Method::KdTree { levels, cuts });
        for method in [Method::PointQuad, trees[0], trees[1]] {
            let ordered = in_event_order(&events);
            let rows = cycles::show_events(&ordered);
            let expected: Vec<String> = rows
                .iter()
                .zip(naive(method, &ordered))
                .map(|(row, region)| format!("{row}|{}", region.map_or("NULL".into(), |region| region.to_string())))
                .collect();
            for division in DIVISIONS {
                let late = LateRows::default();
                let make = || Box::new(AsPoints(Regions::new(spec(method, &late)))) as Box<dyn Operator>;
                let found = run(make, output_schema(&spec(method, &late)), &events, division).unwrap();
                prop_assert_eq!(found.into_iter().map(|row| row.2).collect::<Vec<_>>(), expected.clone());
                prop_assert_eq!(late.count(), 0);
            }
        }
    }
}
