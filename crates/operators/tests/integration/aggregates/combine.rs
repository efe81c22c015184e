//! Combined rows give the results of the rows themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use proptest::prelude::*;
use tidemill_core::{Cut, Operator, Transform};
use tidemill_operators::{
    AggregateSpec, Combine, TableAggregate, WindowAggregate, WindowSpec, combined_schema,
};

use crate::aggregates::harness::{TIME, cycles, divided, keys, run, sorted, spec, undivided};

/// The cycles after combining each call's rows.
fn combined(
    spec: &AggregateSpec,
    window: Option<&WindowSpec>,
    cycles: Vec<(Vec<RecordBatch>, i64)>,
) -> Vec<(Vec<RecordBatch>, i64)> {
    let mut combine = Combine::new(spec, window).unwrap();
    let schema = combined_schema(spec, window).unwrap();
    let mut apply = |rows: RecordBatch| {
        let made = combine.apply(&rows, &Cut::first()).unwrap();
        let causes = made.causes.unwrap();
        assert_eq!((made.rows.schema(), made.rows.num_rows()), (schema.clone(), causes.len()));
        assert!(causes.windows(2).all(|pair| pair[0] < pair[1]), "ascending: {causes:?}");
        assert!(causes.iter().all(|cause| (*cause as usize) < rows.num_rows()));
        made.rows
    };
    cycles
        .into_iter()
        .map(|(calls, watermark)| (calls.into_iter().map(&mut apply).collect(), watermark))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn windows_of_combined_rows_are_the_same(
        lengths in prop_oneof![(1..40_i64).prop_map(|size| (size, size)), (1..60_i64, 1..40_i64)],
        offset_ns in -10..10_i64,
        keys in keys(),
        cycles in cycles(-100..100),
    ) {
        let window = WindowSpec { time: TIME, size_ns: lengths.0, slide_ns: lengths.1, offset_ns };
        let spec = spec(&keys, 2);
        let partial = AggregateSpec { partial_input: true, ..spec.clone() };
        let schema = WindowAggregate::output_schema(&spec, &window).unwrap();
        let late = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
        let run = |spec: &AggregateSpec, late: &Arc<AtomicU64>, cycles: &[(Vec<RecordBatch>, i64)]| {
            let make = || -> Box<dyn Operator> {
                Box::new(WindowAggregate::new(spec, &window, vec![0], Arc::clone(late)).unwrap())
            };
            sorted(run(&make, schema.clone(), cycles, Some(2)))
        };
        let direct = run(&spec, &late[0], &divided(&cycles));
        let calls = combined(&spec, Some(&window), divided(&cycles));
        prop_assert_eq!(&run(&partial, &late[1], &calls), &direct);
        let whole = combined(&spec, Some(&window), undivided(&cycles));
        prop_assert_eq!(&run(&partial, &late[2], &whole), &direct);
        let dropped = late[0].load(Ordering::Relaxed);
        prop_assert_eq!(late[1].load(Ordering::Relaxed), dropped);
        prop_assert_eq!(late[2].load(Ordering::Relaxed), dropped);
    }

    #[test]
    fn tables_of_combined_rows_are_the_same(keys in keys(), cycles in cycles(0..10)) {
        let spec = spec(&keys, 0);
        let partial = AggregateSpec { partial_input: true, ..spec.clone() };
        let schema = TableAggregate::output_schema(&spec).unwrap();
        let run = |spec: &AggregateSpec, cycles: &[(Vec<RecordBatch>, i64)]| {
            let make = || -> Box<dyn Operator> { Box::new(TableAggregate::new(spec).unwrap()) };
            run(&make, schema.clone(), cycles, None)
        };
        let direct = run(&spec, &divided(&cycles));
        prop_assert_eq!(&run(&partial, &combined(&spec, None, divided(&cycles))), &direct);
        prop_assert_eq!(&run(&partial, &combined(&spec, None, undivided(&cycles))), &direct);
    }
}
