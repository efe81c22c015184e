//! The stream `cars`, and the same rows as the table `plain`.
#![allow(dead_code)]

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use tidemill_engine::{Cause, EventTime, Source};
use tidemill_sql::{Generator, Planner, Reply, SourceDefinition, ViewHandle, parse};
use tidemill_testing::random::Random;

use crate::memory_source::Batches;

pub const ROWS: usize = 6000;
pub const CYCLE_ROWS: u32 = 50;

/// Gives a value, or now and then none.
pub fn some<T>(random: &mut Random, value: T) -> Option<T> {
    (random.below(20) > 0).then_some(value)
}

/// Cars, one in 100 ms, some without a coordinate.
pub fn rows() -> RecordBatch {
    let mut random = Random::new(11);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let times: ArrayRef =
        Arc::new(TimestampNanosecondArray::from_iter_values((0..ROWS as i64).map(|id| id * 100_000_000)));
    let vids: ArrayRef = Arc::new(
        (0..ROWS)
            .map(|_| {
                let vid = random.below(40) as i64;
                some(&mut random, vid)
            })
            .collect::<Int64Array>(),
    );
    let mut coordinate = || -> ArrayRef {
        let value = |random: &mut Random| match random.below(200) {
            0 => Some(f64::NAN),
            1 => Some(f64::INFINITY),
            2 => Some(-0.0),
            value => some(random, value as f64 / 2.0),
        };
        Arc::new((0..ROWS).map(|_| value(&mut random)).collect::<Float64Array>())
    };
    let (x, y) = (coordinate(), coordinate());
    let names: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|id| format!("car {}", id % 7))));
    RecordBatch::try_from_iter_with_nullable([
        ("id", ids, true),
        ("at", times, true),
        ("vid", vids, true),
        ("x", x, true),
        ("y", y, true),
        ("name", names, true),
    ])
    .unwrap()
}

/// A planner with the stream `cars`, and the same rows as the table `plain`.
pub fn planner() -> Planner {
    let mut planner = Planner::new();
    let settings = planner.settings_mut();
    (settings.workers, settings.cycle_events, settings.cycle_fixed) = (2, CYCLE_ROWS, true);
    let open = |columns: Option<&[usize]>| -> Result<Box<dyn Source>, Cause> {
        let rows = columns.map_or_else(rows, |columns| rows().project(columns).unwrap());
        let left = (0..rows.num_rows()).step_by(500).map(|start| rows.slice(start, 500)).collect();
        Ok(Box::new(Batches { schema: rows.schema(), left }))
    };
    let cars = SourceDefinition {
        event_time: Some(EventTime { column: 1, delay_ns: 0 }),
        is_finite: true,
        is_repeatable: true,
        ..SourceDefinition::new("cars", rows().schema(), Arc::new(open))
    };
    let table = SourceDefinition { is_table: true, event_time: None, ..cars.clone() };
    let generator = Generator::new("rows of a test", &[], move |_| Ok(cars.clone()));
    planner.register_generator("car_rows", generator);
    let generator = Generator::new("rows of a test", &[], move |_| Ok(table.clone()));
    planner.register_generator("table_rows", generator);
    execute(&mut planner, "CREATE VIEW cars AS SELECT * FROM car_rows()").unwrap();
    execute(&mut planner, "CREATE VIEW plain AS SELECT *, st_point(x, y) AS point FROM table_rows()")
        .unwrap();
    planner
}

pub fn execute(planner: &mut Planner, sql: &str) -> Result<Reply, String> {
    let statements = parse(sql, "case").map_err(|error| error.to_string())?;
    let [statement] = statements.as_slice() else { panic!("one statement: {sql}") };
    planner.execute(statement).map_err(|error| error.to_string())
}

/// Runs the pipeline of the defined view to its end, and lets queries read its rows.
pub fn run(planner: &mut Planner) -> ViewHandle {
    let running = planner.pipeline().unwrap().unwrap().open().unwrap().start().unwrap();
    let view = running.views()[0].clone();
    running.wait().unwrap();
    let mut catalog = planner.catalog().clone();
    catalog.attach_view(&view);
    planner.set_catalog(catalog);
    view
}

pub fn lines(planner: &mut Planner, sql: &str) -> Result<Vec<String>, String> {
    let Reply::Rows(rows) = execute(planner, sql)? else { panic!("it reads only tables: {sql}") };
    Ok(shown(&rows))
}

/// Rows as lines.
pub fn shown(rows: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> =
        rows.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let line = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" ");
    (0..rows.num_rows()).map(line).collect()
}

pub fn explained(planner: &mut Planner, sql: &str) -> String {
    match execute(planner, &format!("EXPLAIN {sql}")) {
        Ok(Reply::Text(text)) => text,
        Ok(_) => panic!("a text"),
        Err(error) => panic!("{error}"),
    }
}
