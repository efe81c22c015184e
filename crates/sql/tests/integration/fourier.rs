//! fft() and fft_combine() against the transform as it is defined, alone and divided among processes.

use std::f64::consts::PI;
use std::sync::Arc;

use crate::memory_source::Batches;
use datafusion::arrow::array::{
    ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, TimestampNanosecondArray,
};
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use fastrand::Rng;
use tidemill_connect::memory::MemorySink;
use tidemill_engine::EventTime;
use tidemill_sql::{Generator, Planner, Projected, Reply, SourceDefinition, parse};

/// Vectors of this many pseudo-random numbers each.
fn signals(lengths: &[usize]) -> Vec<Vec<f64>> {
    let mut random = Rng::with_seed(7);
    lengths.iter().map(|length| (0..*length).map(|_| random.f64() * 2.0 - 1.0).collect()).collect()
}

fn table(signals: &[Vec<f64>]) -> RecordBatch {
    let vectors = signals.iter().map(|signal| Some(signal.iter().copied().map(Some).collect::<Vec<_>>()));
    let signal = ListArray::from_iter_primitive::<Float64Type, _, _>(vectors);
    let number = Int64Array::from_iter_values(0..signals.len() as i64);
    let at = TimestampNanosecondArray::from_iter_values((0..signals.len() as i64).map(|row| row * 1000));
    let column = |name: &str, column: ArrayRef| (name.to_string(), column, true);
    let columns =
        [column("number", Arc::new(number)), column("at", Arc::new(at)), column("signal", Arc::new(signal))];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Real and imaginary parts by the number of the signal, from a query over `signals()` with the columns number, spectrum.
fn spectra(signals: &[Vec<f64>], script: &str) -> Vec<Option<(Vec<f64>, Vec<f64>)>> {
    let rows = table(signals);
    let mut planner = Planner::new();
    planner.settings_mut().workers = 3;
    let generator = move |_: &_| {
        let (schema, rows) = (rows.schema(), rows.clone());
        let open = move |columns: Option<&[usize]>| {
            Projected::open(Batches { schema: rows.schema(), left: [rows.clone()].into() }, columns)
        };
        let definition = SourceDefinition::new("signals", schema, Arc::new(open));
        let event_time = Some(EventTime { column: 1, delay_ns: 0 });
        Ok(SourceDefinition { is_finite: true, event_time, ..definition })
    };
    planner.register_generator("signals", Generator::new("rows of a test", &[], generator));
    for statement in parse(script, "test.sql").unwrap() {
        let reply = planner.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
        let Reply::Query(query) = reply else { continue };
        let (sink, kept) = MemorySink::new(&query.outputs()[0].schema, 1000);
        query.open(vec![Box::new(sink)]).unwrap().start().unwrap().wait().unwrap();
        return by_number(&kept.read().unwrap(), signals.len());
    }
    panic!("there is no query");
}

fn by_number(rows: &RecordBatch, count: usize) -> Vec<Option<(Vec<f64>, Vec<f64>)>> {
    let numbers = rows.column(0).as_primitive::<Int64Type>();
    let spectrum = rows.column(1).as_struct();
    let vector = |part: usize, row| {
        let vector = spectrum.column(part).as_list::<i32>().value(row);
        vector.as_primitive::<Float64Type>().values().to_vec()
    };
    let mut found = vec![None; count];
    for row in 0..rows.num_rows() {
        found[numbers.value(row) as usize] = Some((vector(0, row), vector(1, row)));
    }
    found
}

/// As it is defined.
fn naive(signal: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let length = signal.len();
    let part = |of: fn(f64) -> f64| {
        let at = |k: usize| {
            let terms = signal.iter().enumerate();
            terms.map(|(j, value)| value * of(-2.0 * PI * (j as f64) * (k as f64) / length as f64)).sum()
        };
        (0..length).map(at).collect::<Vec<f64>>()
    };
    (part(f64::cos), part(f64::sin))
}

fn assert_close(found: &(Vec<f64>, Vec<f64>), signal: &[f64]) {
    let expected = naive(signal);
    for (found, expected) in [(&found.0, &expected.0), (&found.1, &expected.1)] {
        assert_eq!(found.len(), expected.len());
        let largest = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // The naive sum is the less exact one: its angles grow with the square of the length.
        assert!(largest < 1e-9 * (1 + signal.len()) as f64, "{} numbers: off by {largest}", signal.len());
    }
}

#[test]
fn it_is_the_transform_as_it_is_defined() {
    let lengths: Vec<usize> = (0..40).chain([64, 96, 100, 127, 128, 256, 500]).collect();
    let signals = signals(&lengths);
    let found = spectra(&signals, "SELECT number, fft(signal) FROM signals()");
    for (found, signal) in found.iter().zip(&signals) {
        assert_close(found.as_ref().expect("every signal has a spectrum"), signal);
    }
}

#[test]
fn processes_that_transform_halves_and_quarters_find_the_same_to_the_last_bit() {
    let signals = signals(&[4, 8, 12, 64, 128, 20]);
    let whole = spectra(&signals, "SELECT number, fft(signal) FROM signals()");
    let divided = spectra(
        &signals,
        "CREATE PROCESS c PREFER 0 AS SELECT number, at, signal FROM signals();
         CREATE PROCESS leaf FOR k IN generate_series(0, 3) AS
             SELECT number, at, fft(array_slice(signal, k + 1, -1, 4)) AS part FROM c;
         CREATE PROCESS pair FOR k IN (0, 1) AS
             SELECT e.number, e.at, fft_combine(e.part, o.part) AS part
             FROM leaf(k) e JOIN leaf(k + 2) o ON e.number = o.number AND e.at = o.at;
         SELECT e.number, fft_combine(e.part, o.part)
         FROM pair(0) e JOIN pair(1) o ON e.number = o.number AND e.at = o.at",
    );
    assert!(whole.iter().all(Option::is_some));
    assert_eq!(divided, whole);
}

#[test]
fn vectors_of_other_types_are_taken_and_long_ones_of_odd_length_are_not() {
    let found = spectra(&signals(&[1]), "SELECT number, fft([1, 2, 4]) FROM signals()");
    assert_close(found[0].as_ref().unwrap(), &[1.0, 2.0, 4.0]);
    let long = signals(&[4097, 8192]);
    let found = spectra(&long, "SELECT number, fft(signal) FROM signals()");
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
}
