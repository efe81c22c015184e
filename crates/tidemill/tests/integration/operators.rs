//! The operators of SQL through the typed interface, compared with plain loops, at several numbers of workers and cycle
//! sizes.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidemill::aggregate::{average, count, maximum, minimum, sum};
use tidemill::{CyclePolicy, Engine, Order, Query, Summary, Table, Timestamp, Trailing, Window, rows_of};

const SECOND: i64 = 1_000_000_000;

fn engines() -> impl Iterator<Item = Engine> {
    [(1, 7), (2, 64), (5, 3)]
        .into_iter()
        .map(|(workers, events)| Engine::new().workers(workers).cycles(CyclePolicy::fixed(events)))
}

/// Rows of (key, time, value) in the order of their times, so that none is late.
fn rows() -> impl Strategy<Value = Vec<(u32, Timestamp, i64)>> {
    prop::collection::vec((0_u32..4, 0_i64..40, -50_i64..50), 0..100).prop_map(|mut rows| {
        rows.sort_by_key(|row| row.1);
        rows.into_iter().map(|(key, time, value)| (key, Timestamp(time * SECOND), value)).collect()
    })
}

/// Runs a query over rows of (key, time, value), and gives the rows that `add` collects.
fn run<R: tidemill::Row>(
    engine: Engine,
    rows: &[(u32, Timestamp, i64)],
    columns: &[&str],
    add: impl FnOnce(&tidemill::Stream) -> tidemill::Stream,
) -> (Vec<R>, Summary) {
    let mut query = Query::new("operators").partitions(3);
    let input = query.rows::<(u32, Timestamp, i64)>("input", ["key", "time", "value"]);
    let input = input.event_time("time", Duration::from_secs(5));
    let collected = add(&input).collect("collected", 10_000);
    let run = engine.start(query).unwrap();
    run.input(&input).unwrap().push(rows.to_vec()).unwrap();
    let summary = run.finish().unwrap();
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    (rows_of::<R>(&collected.read().unwrap(), columns).unwrap(), summary)
}

type Aggregates = (i64, Option<i64>, Option<i64>, Option<i64>, Option<f64>);

fn aggregates(values: &[i64]) -> Aggregates {
    let sum: i64 = values.iter().sum();
    let mean = sum as f64 / values.len() as f64;
    (values.len() as i64, Some(sum), values.iter().min().copied(), values.iter().max().copied(), Some(mean))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn trailing_rows_are_what_a_loop_says(rows in rows(), extent in 0_usize..7) {
        // Rows of equal times are in the order of arrival.
        let before = |row: usize| -> Vec<i64> {
            let (key, time, _) = rows[row];
            let of_key: Vec<usize> = (0..=row).filter(|other| rows[*other].0 == key).collect();
            let values = |rows_of_key: &[usize]| rows_of_key.iter().map(|other| rows[*other].2).collect();
            match extent {
                0 => values(&of_key),
                6 => rows.iter().filter(|other| other.0 == key && (time.0 - 3 * SECOND..=time.0).contains(&other.1.0))
                    .map(|other| other.2).collect(),
                rows => values(&of_key[of_key.len().saturating_sub(rows)..]),
            }
        };
        let mut expected: Vec<_> = (0..rows.len()).map(|row| {
            let (count, sum, least, most, mean) = aggregates(&before(row));
            let mean = mean.map(|mean| (mean * 1e6).round() as i64);
            (rows[row].0, rows[row].1.0, rows[row].2, count, sum, least, most, mean)
        }).collect();
        expected.sort();
        for engine in engines() {
            let trailing = match extent {
                0 => Trailing::all("time"),
                6 => Trailing::within("time", Duration::from_secs(3)),
                rows => Trailing::rows("time", rows),
            };
            let columns = ["key", "time", "value", "rows", "sum", "least", "most", "mean"];
            type ResultRow = (u32, Timestamp, i64, i64, Option<i64>, Option<i64>, Option<i64>, Option<f64>);
            let (found, summary) = run::<ResultRow>(
                engine, &rows, &columns, |input| {
                    input.key_by("key").trailing(trailing).aggregate([
                        count().named("rows"),
                        sum("value").named("sum"),
                        minimum("value").named("least"),
                        maximum("value").named("most"),
                        average("value").named("mean"),
                    ])
                },
            );
            prop_assert_eq!(summary.late, 0);
            // Each key's rows come in the order of their times.
            for key in 0..4 {
                prop_assert!(found.iter().filter(|row| row.0 == key).map(|row| row.1.0).is_sorted());
            }
            let mut found: Vec<_> = found.into_iter().map(|(key, time, value, rows, sum, least, most, mean)| {
                (key, time.0, value, rows, sum, least, most, mean.map(|mean| (mean * 1e6).round() as i64))
            }).collect();
            found.sort();
            prop_assert_eq!(&found, &expected);
        }
    }

    #[test]
    fn windows_by_count_are_what_a_loop_says(rows in rows(), size in 1_u32..6, slide in 1_u32..6) {
        let slide = slide.min(size);
        let mut of_keys = BTreeMap::<u32, Vec<i64>>::new();
        rows.iter().for_each(|(key, _, value)| of_keys.entry(*key).or_default().push(*value));
        let mut expected = Vec::new();
        for (key, values) in &of_keys {
            for start in (0..values.len()).step_by(slide as usize) {
                let end = (start + size as usize).min(values.len());
                let (count, sum, ..) = aggregates(&values[start..end]);
                expected.push((*key, start as i64, start as i64 + i64::from(size), Some(count), sum));
            }
        }
        expected.sort();
        for engine in engines() {
            let columns = ["key", "window_start", "window_end", "rows", "sum"];
            let (mut found, _) = run::<(u32, i64, i64, Option<i64>, Option<i64>)>(engine, &rows, &columns, |input| {
                input.key_by("key").window(Window::sliding_rows(size, slide))
                    .aggregate([count().named("rows"), sum("value").named("sum")])
            });
            found.sort();
            prop_assert_eq!(&found, &expected);
        }
    }

    #[test]
    fn the_first_rows_of_windows_are_what_a_loop_says(rows in rows(), most in 1_usize..4, by_parity: bool) {
        let mut sums = BTreeMap::<(i64, u32), i64>::new();
        for (key, time, value) in &rows {
            *sums.entry((time.0 / (10 * SECOND) * 10 + 10, *key)).or_default() += value;
        }
        // Sums and keys together are different for all, so there are no ties.
        let mut windows = BTreeMap::<(i64, u32), Vec<(i64, u32)>>::new();
        for ((end, key), sum) in sums {
            windows.entry((end, if by_parity { key % 2 } else { 0 })).or_default().push((-sum, key));
        }
        let mut expected = Vec::new();
        for ((end, _), mut sums) in windows {
            sums.sort_unstable();
            expected.extend(sums.iter().take(most).map(|(sum, key)| (end * SECOND, *key, Some(-sum))));
        }
        expected.sort_unstable();
        for engine in engines() {
            let columns = ["window_end", "key", "sum"];
            let (found, summary) = run::<(Timestamp, u32, Option<i64>)>(engine, &rows, &columns, |input| {
                let sums = input.key_by("key").window(Window::tumbling("time", Duration::from_secs(10)))
                    .aggregate([sum("value").named("sum")])
                    .with("key", "parity", |(key,): (u32,)| (key % 2,));
                let order = [Order::descending("sum"), Order::ascending("key")];
                if by_parity { sums.key_by("parity").top(most, order) } else { sums.key_by(()).top(most, order) }
            });
            prop_assert_eq!(summary.late, 0);
            let mut found: Vec<_> = found.into_iter().map(|(end, key, sum)| (end.0, key, sum)).collect();
            found.sort_unstable();
            prop_assert_eq!(&found, &expected);
        }
    }

    #[test]
    fn lookups_are_what_two_loops_say(
        rows in rows(),
        table in prop::collection::vec((0_u32..5, any::<bool>(), 0_i64..9), 0..8),
        keeps: bool,
    ) {
        // A key that may be NULL in the table equals nothing.
        let table: Vec<(Option<u32>, i64)> =
            table.into_iter().map(|(key, is_null, weight)| ((!is_null).then_some(key), weight)).collect();
        let mut expected = Vec::new();
        for (key, time, value) in &rows {
            let weights: Vec<i64> = table.iter().filter(|row| row.0 == Some(*key)).map(|row| row.1).collect();
            expected.extend(weights.iter().map(|weight| (*key, time.0, *value, Some(*weight))));
            if weights.is_empty() && keeps {
                expected.push((*key, time.0, *value, None));
            }
        }
        expected.sort_unstable();
        for engine in engines() {
            let weights = Table::of(["id", "weight"], table.iter().map(|(id, weight)| (*id, Some(*weight))));
            let columns = ["key", "time", "value", "weight"];
            let (found, _) = run::<(u32, Timestamp, i64, Option<i64>)>(engine, &rows, &columns, |input| {
                if keeps {
                    input.left_lookup("key", &weights, "id")
                } else {
                    input.lookup("key", &weights, "id")
                }
            });
            let mut found: Vec<_> =
                found.into_iter().map(|(key, time, value, weight)| (key, time.0, value, weight)).collect();
            found.sort_unstable();
            prop_assert_eq!(&found, &expected);
        }
    }
}

/// The first rows of a window are written as soon as the window is over, and not a window later.
#[test]
fn the_first_rows_come_when_the_window_is_over() {
    let mut query = Query::new("prompt");
    let input = query.rows::<(u32, Timestamp)>("input", ["key", "time"]).event_time("time", Duration::ZERO);
    let best = input
        .key_by("key")
        .window(Window::tumbling("time", Duration::from_secs(60)))
        .aggregate([count()])
        .key_by(())
        .top(1, [Order::descending("count")])
        .collect("best", 10);
    let run = Engine::new().start(query).unwrap();
    run.input(&input).unwrap().push([(1, Timestamp(0)), (1, Timestamp(61 * SECOND))]).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while best.is_empty() {
        assert!(std::time::Instant::now() < deadline, "the first window was never written");
        std::thread::sleep(Duration::from_millis(5));
    }
    run.stop().unwrap();
    assert_eq!(best.len(), 1);
}
