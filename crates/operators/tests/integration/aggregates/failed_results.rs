//! Sums that their type cannot hold: NULL, counted, reported with their group, and back when they fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::DataType;
use proptest::prelude::*;
use tidemill_core::{Cause, Fault, FaultLog, Operator, Output};
use tidemill_operators::aggregate::Sum;
use tidemill_operators::{
    AggregateSpec, Combine, FailedResults, SessionAggregate, SessionSpec, TableAggregate, WindowAggregate,
    WindowSpec,
};

use crate::aggregates::harness::{
    Cycle, NUMBER, Row, TEXT, TIME, batch, call, cycles, divided, run, run_cycle, spec, undivided,
};

/// `sum(number)` by text, with the names of a window's bounds if there is one.
fn sums(window: bool) -> AggregateSpec {
    let bounds: &[&str] = if window { &["window_start", "window_end"] } else { &[] };
    let names = [&["text"], bounds, &["total"]].concat();
    AggregateSpec {
        calls: vec![call(Sum::new(&DataType::Int64).unwrap(), &[NUMBER], None)],
        names: names.into_iter().map(str::to_owned).collect(),
        ..spec(&[TEXT], 2)
    }
}

/// The sum of some rows as it is shown, and whether it is too large.
fn total<'a>(rows: impl Iterator<Item = &'a Row>) -> (String, bool) {
    let numbers: Vec<i128> = rows.filter_map(|row| row.number.map(i128::from)).collect();
    let sum = numbers.iter().sum::<i128>();
    match i64::try_from(sum) {
        _ if numbers.is_empty() => ("\n".into(), false),
        Ok(sum) => (sum.to_string(), false),
        Err(_) => ("\n".into(), true),
    }
}

fn shown(text: Option<&str>) -> &str {
    text.unwrap_or("\n")
}

/// All cycles with a watermark that lets every row in, and one more that ends everything.
fn in_time(given: Vec<Cycle>) -> Vec<Cycle> {
    let open = given.into_iter().map(|(calls, _)| (calls, i64::MIN));
    open.chain([(Vec::new(), i64::MAX)]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_window_whose_sum_does_not_fit_has_null(
        given in cycles(0..100),
        slide_ns in prop_oneof![Just(40_i64), Just(10)],
    ) {
        let given = in_time(given);
        let rows: Vec<Row> = given.iter().flat_map(|(calls, _)| calls.concat()).collect();
        let rows: Vec<&Row> = rows.iter().filter(|row| row.time.is_some()).collect();
        let (mut expected, mut too_large) = (Vec::new(), 0);
        for start in (-40..100).filter(|start| start % slide_ns == 0) {
            let inside = rows.iter().filter(|row| (start..start + 40).contains(&row.time.unwrap()));
            let mut groups: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
            inside.for_each(|row| groups.entry(shown(row.text)).or_default().push(row));
            for (text, rows) in groups {
                let (sum, does_not_fit) = total(rows.into_iter());
                too_large += u64::from(does_not_fit);
                expected.push(format!("{text}|{}|{}|{sum}", time(start), time(start + 40)));
            }
        }
        expected.sort();
        let window = WindowSpec { time: TIME, size_ns: 40, slide_ns, offset_ns: 0 };
        let spec = sums(true);
        let schema = WindowAggregate::output_schema(&spec, &window).unwrap();
        for (cycles, restored_after) in [(divided(&given), Some(1)), (undivided(&given), None)] {
            let log = FaultLog::default();
            let make = || -> Box<dyn Operator> {
                let made = WindowAggregate::new(&spec, &window, vec![0], Arc::default()).unwrap();
                Box::new(made.failed_results(FailedResults::Null(log.clone())))
            };
            let mut found = run(&make, schema.clone(), &cycles, restored_after).concat();
            found.sort();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(log.read().count, too_large);
        }
    }

    #[test]
    fn a_table_whose_sum_does_not_fit_has_null_until_it_fits(given in cycles(0..100)) {
        let spec = sums(false);
        let schema = TableAggregate::output_schema(&spec).unwrap();
        let mut so_far: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
        let mut expected = Vec::new();
        for (calls, _) in &given {
            let rows = calls.concat();
            rows.iter().for_each(|row| so_far.entry(shown(row.text)).or_default().push(row.clone()));
            let touched = rows.iter().map(|row| shown(row.text));
            let touched: std::collections::BTreeSet<&str> = touched.collect();
            let row = |text: &&str| format!("{text}|{}", total(so_far[text].iter()).0);
            let mut lines: Vec<String> = touched.iter().map(row).collect();
            lines.sort();
            expected.push(lines);
        }
        for restored_after in [None, Some(1)] {
            let log = FaultLog::default();
            let make = || -> Box<dyn Operator> {
                Box::new(TableAggregate::new(&spec).unwrap().failed_results(FailedResults::Null(log.clone())))
            };
            let mut found = run(&make, schema.clone(), &divided(&given), restored_after);
            found.iter_mut().for_each(|lines| lines.sort());
            prop_assert_eq!(&found, &expected);
        }
    }
}

fn time(time_ns: i64) -> String {
    use arrow_array::TimestampNanosecondArray;
    use arrow_cast::display::array_value_to_string;
    array_value_to_string(&TimestampNanosecondArray::from(vec![time_ns]), 0).unwrap()
}

fn row(time: i64, text: &'static str, number: i64) -> Row {
    Row { time: Some(time), number: Some(number), text: Some(text), value: None, real: None, flag: None }
}

#[test]
fn a_session_is_told_of_with_its_key_its_bounds_and_the_cycle() {
    let (spec, session) = (sums(true), SessionSpec { time: TIME, gap_ns: 10 });
    let log = FaultLog::default();
    let schema = SessionAggregate::output_schema(&spec, &session).unwrap();
    let made = SessionAggregate::new(&spec, &session, vec![0], Arc::default()).unwrap();
    let mut operator = made.failed_results(FailedResults::Null(log.clone()));
    let rows = [row(1, "a", i64::MAX), row(2, "b", 7), row(3, "a", 1), row(50, "a", 5)];
    let written = run_cycle(&mut operator, &mut Output::new(&[schema]), (9, &[batch(&rows)], i64::MAX));
    let totals: Vec<&str> = written.iter().map(|line| line.rsplit('|').next().unwrap()).collect();
    assert_eq!(totals, ["7", "\n", "5"]);
    let told = log.read();
    assert_eq!(told.count, 1);
    let expected = format!(
        "total is NULL for text: a, window_start: {}, window_end: {}, cycle 9: sum: a result does not fit into Int64",
        time(1),
        time(13)
    );
    assert!(told.samples[0].starts_with(&expected), "{told:?}");
}

#[test]
fn combined_rows_and_plain_ones_give_the_same() {
    let plain = sums(false);
    let combined = AggregateSpec { partial_input: true, ..plain.clone() };
    let rows = batch(&[row(1, "a", i64::MAX), row(2, "b", 1), row(3, "a", i64::MAX), row(4, "a", -i64::MAX)]);
    let schema = TableAggregate::output_schema(&plain).unwrap();
    let of = |spec: &AggregateSpec, rows: &[arrow_array::RecordBatch]| {
        let made = TableAggregate::new(spec).unwrap();
        let mut table = made.failed_results(FailedResults::Null(FaultLog::default()));
        run_cycle(&mut table, &mut Output::new(std::slice::from_ref(&schema)), (0, rows, 0))
    };
    let mut combine = Combine::new(&plain, None).unwrap();
    let mut part = |from: usize, rows_: usize| {
        let cut = tidemill_core::Cut::first();
        tidemill_core::Transform::apply(&mut combine, &rows.slice(from, rows_), &cut).unwrap().rows
    };
    let parts = [part(0, 3), part(3, 1)];
    assert_eq!(of(&plain, std::slice::from_ref(&rows)), of(&combined, &parts));
    assert_eq!(of(&plain, &[rows.slice(0, 3)]), ["a|\n", "b|1"]);
}

#[test]
fn a_query_that_is_to_stop_stops() {
    let spec = sums(false);
    let schema = TableAggregate::output_schema(&spec).unwrap();
    let mut table = TableAggregate::new(&spec).unwrap();
    let mut output = Output::new(&[schema]);
    let rows = batch(&[row(1, "a", i64::MAX), row(2, "a", 1)]);
    let batch = tidemill_core::Batch::from_source(rows, vec![0, 1].into());
    table.rows(0, batch.as_rows(), &mut output).unwrap();
    let stopped = table.end_of_cycle(&tidemill_core::Cut::first(), &mut output);
    assert!(matches!(stopped, Err(Cause { fault: Fault::User, .. })), "{stopped:?}");
}
