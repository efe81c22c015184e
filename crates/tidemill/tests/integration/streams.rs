//! Queries through the typed interface, compared with plain loops, at several numbers of workers and cycle sizes.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::time::Duration;

use proptest::prelude::*;
use tidemill::aggregate::{average, count, maximum, sum};
use tidemill::{CyclePolicy, Engine, Error, Query, Timestamp, Window, Within, rows_of, sources};

const SECOND: i64 = 1_000_000_000;

fn engines() -> impl Iterator<Item = Engine> {
    [(1, 7), (2, 64), (5, 3)]
        .into_iter()
        .map(|(workers, events)| Engine::new().workers(workers).cycles(CyclePolicy::fixed(events)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn scans_keep_a_state_for_each_key(rows in prop::collection::vec((0_u32..6, -50_i64..50), 0..80)) {
        let mut sums = BTreeMap::<u32, i64>::new();
        let expected: Vec<(u32, i64)> = rows.iter().filter(|row| row.1 != 0).map(|(key, value)| {
            let sum = sums.entry(*key).or_default();
            *sum += value;
            (*key, *sum)
        }).collect();
        for engine in engines() {
            let mut query = Query::new("sums").partitions(3);
            let input = query.rows::<(u32, i64)>("input", ["key", "value"]);
            let sums = input
                .filter("value", |(value,): (i64,)| value != 0)
                .key_by("key")
                .scan("sum", ["key", "value"], ["key", "sum"], |sum: &mut i64, (key, value): (u32, i64)| {
                    *sum += value;
                    Some((key, *sum))
                })
                .collect("sums", 1000);
            let run = engine.start(query).unwrap();
            run.input(&input).unwrap().push(rows.clone()).unwrap();
            run.finish().unwrap();
            prop_assert_eq!(rows_of::<(u32, i64)>(&sums.read().unwrap(), ["key", "sum"]).unwrap(), expected.clone());
        }
    }

    #[test]
    fn windows_are_what_a_loop_says(rows in prop::collection::vec((0_u32..4, 0_i64..300, -50_i64..50), 0..120)) {
        // In order, so that none is late.
        let mut rows = rows;
        rows.sort_by_key(|row| row.1);
        let mut expected = BTreeMap::<(i64, u32), (i64, i64, i64)>::new();
        for (key, time, value) in &rows {
            let window = expected.entry((time / 60 * 60 + 60, *key)).or_insert((0, 0, i64::MIN));
            *window = (window.0 + 1, window.1 + value, window.2.max(*value));
        }
        let expected: Vec<_> = expected.into_iter().map(|((end, key), results)| (end * SECOND, key, results)).collect();
        for engine in engines() {
            let mut query = Query::new("windows").partitions(3);
            let input = query
                .rows::<(u32, Timestamp, i64)>("input", ["key", "time", "value"])
                .event_time("time", Duration::from_secs(5));
            let windows = input
                .key_by("key")
                .window(Window::tumbling("time", Duration::from_secs(60)))
                .aggregate([count().named("rows"), sum("value"), maximum("value").named("most")])
                .collect("windows", 1000);
            let run = engine.start(query).unwrap();
            let given = rows.iter().map(|(key, time, value)| (*key, Timestamp(time * SECOND), *value));
            run.input(&input).unwrap().push(given).unwrap();
            prop_assert_eq!(run.finish().unwrap().late, 0);
            let columns = ["window_end", "key", "rows", "sum(value)", "most"];
            type Results = (Timestamp, u32, Option<i64>, Option<i64>, Option<i64>);
            let mut found: Vec<_> = rows_of::<Results>(&windows.read().unwrap(), columns)
                .unwrap()
                .into_iter()
                .map(|(end, key, rows, sum, most)| (end.0, key, (rows.unwrap(), sum.unwrap(), most.unwrap())))
                .collect();
            found.sort();
            prop_assert_eq!(found, expected.clone());
        }
    }

    #[test]
    fn joins_are_what_two_loops_say(
        left in prop::collection::vec((0_u32..4, 0_i64..60), 0..40),
        right in prop::collection::vec((0_u32..4, 0_i64..60), 0..40),
    ) {
        let pairs = left.iter().flat_map(|left| right.iter().map(move |right| (*left, *right)));
        let mut expected: Vec<_> = pairs
            .filter(|(left, right)| left.0 == right.0 && (-2..=5).contains(&(right.1 - left.1)))
            .map(|(left, right)| (left.0, left.1 * SECOND, right.1 * SECOND))
            .collect();
        expected.sort();
        for engine in engines() {
            let mut query = Query::new("pairs").partitions(3);
            let hour = Duration::from_secs(3600);
            let source = |query: &mut Query, name: &str, time: &str| {
                query.rows::<(u32, Timestamp)>(name, [name, time]).event_time(time, hour)
            };
            let lefts = source(&mut query, "left", "left_at");
            let rights = source(&mut query, "right", "right_at");
            let seconds = Duration::from_secs;
            let within = Within::new("left_at", "right_at").before(seconds(2)).after(seconds(5));
            let pairs = lefts.key_by("left").join("pairs", &rights.key_by("right"), &within).collect("pairs", 10_000);
            let run = engine.start(query).unwrap();
            let given = |rows: &[(u32, i64)]| -> Vec<(u32, Timestamp)> {
                rows.iter().map(|(key, time)| (*key, Timestamp(time * SECOND))).collect()
            };
            run.input(&lefts).unwrap().push(given(&left)).unwrap();
            run.input(&rights).unwrap().push(given(&right)).unwrap();
            prop_assert_eq!(run.finish().unwrap().late, 0);
            let columns = ["left", "left_at", "right_at"];
            let mut found: Vec<_> = rows_of::<(u32, Timestamp, Timestamp)>(&pairs.read().unwrap(), columns)
                .unwrap()
                .into_iter()
                .map(|(key, left, right)| (key, left.0, right.0))
                .collect();
            found.sort();
            prop_assert_eq!(found, expected.clone());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn windows_without_rows_are_what_a_loop_says(
        rows in prop::collection::vec((0_u32..3, 0_i64..400, any::<bool>()), 0..40),
        reach in 1_i64..6,
        (times, is_keyed) in (1_i64..4, any::<bool>()),
    ) {
        let mut rows = rows;
        rows.sort_by_key(|row| row.1);
        let (slide, size) = (20, 20 * times);
        // The last window is the last one that begins before the last row of the source, kept or not.
        let last = rows.last().map(|row| row.1);
        let key_of = |key: u32| if is_keyed { key } else { 0 };
        let mut expected = Vec::new();
        for key in 0..if is_keyed { 3 } else { 1 } {
            let mut last_with_rows = None;
            for start in (1 - times..30).map(|index| index * slide) {
                let holds = |time: i64| start <= time && time < start + size;
                let of_key = rows.iter().filter(|row| key_of(row.0) == key && holds(row.1) && row.2).count();
                // Without keys, rows that are left out make their windows exist, too.
                let makes_it = of_key > 0 || (!is_keyed && rows.iter().any(|row| holds(row.1)));
                if makes_it {
                    last_with_rows = Some(start);
                }
                let is_live = last_with_rows.is_some_and(|last| start - last <= reach * slide);
                if is_live && last.is_some_and(|last| makes_it || start <= last / slide * slide) {
                    expected.push((start * SECOND, key, of_key as i64));
                }
            }
        }
        expected.sort_unstable();
        for engine in engines() {
            let mut query = Query::new("windows").partitions(3);
            let input = query
                .rows::<(u32, Timestamp, bool)>("input", ["key", "time", "is_kept"])
                .event_time("time", Duration::from_secs(0));
            let kept = input.filter("is_kept", |(is_kept,): (bool,)| is_kept);
            let keyed = if is_keyed { kept.key_by("key") } else { kept.key_by(()) };
            let window = Window::hopping("time", Duration::from_secs(size as u64), Duration::from_secs(slide as u64))
                .with_empty(Duration::from_secs((reach * slide) as u64));
            let windows = keyed.window(window).aggregate([count()]).collect("windows", 10_000);
            let run = engine.start(query).unwrap();
            let given = rows.iter().map(|(key, time, is_kept)| (*key, Timestamp(time * SECOND), *is_kept));
            run.input(&input).unwrap().push(given).unwrap();
            prop_assert_eq!(run.finish().unwrap().late, 0);
            let windows = windows.read().unwrap();
            let mut found: Vec<(i64, u32, i64)> = if is_keyed {
 rows_of::<(Timestamp, u32, Option<i64>)>(&windows, ["window_start", "key", "count"])
                    .unwrap()
                    .into_iter()
                    .map(|(start, key, count)| (start.0, key, count.unwrap()))
                    .collect()
                } else { rows_of::<(Timestamp, Option<i64>)>(&windows, ["window_start", "count"])
                    .unwrap()
                    .into_iter()
                    .map(|(start, count)| (start.0, 0, count.unwrap()))
                    .collect()
            };
            found.sort_unstable();
            prop_assert_eq!(found, expected.clone());
        }
    }
}

#[test]
fn words_are_counted_over_a_socket() {
    let lines = sources::tcp_lines("127.0.0.1:0").unwrap();
    let address = lines.local_address().unwrap();
    let (send, counts) = channel();
    let mut query = Query::new("word count");
    query
        .read("lines", lines)
        .flat_map("line", "word", |(line,): (String,)| {
            line.split_whitespace().map(|word| (word.to_owned(),)).collect::<Vec<_>>()
        })
        .key_by("word")
        .scan("count", "word", ["word", "count"], |count: &mut u64, (word,): (String,)| {
            *count += 1;
            [(word, *count)]
        })
        .for_each("send", ["word", "count"], move |row: (String, u64)| send.send(row).unwrap());
    let run = Engine::new().workers(2).start(query).unwrap();
    TcpStream::connect(address).unwrap().write_all("to be or\nnot to be\n".as_bytes()).unwrap();
    let mut received: Vec<(String, u64)> = counts.iter().take(6).collect();
    // The words of a line come in the order of their partitions.
    received.sort();
    let expected = [("be", 1), ("be", 2), ("not", 1), ("or", 1), ("to", 1), ("to", 2)];
    assert_eq!(received, expected.map(|(word, count)| (word.to_owned(), count)));
    assert_eq!(run.stop().unwrap().faults.count, 0);
}

#[test]
fn an_open_window_is_closed_by_an_end_and_not_by_leaving() {
    let windows = |leaves: bool| {
        let mut query = Query::new("windows");
        let input =
            query.rows::<(Timestamp, f64)>("input", ["time", "value"]).event_time("time", Duration::ZERO);
        let window = Window::hopping("time", Duration::from_secs(2), Duration::from_secs(1));
        let means = input.key_by(()).window(window).aggregate([average("value")]).collect("means", 10);
        let run = Engine::new().start(query).unwrap();
        let into = run.input(&input).unwrap();
        into.push([(Timestamp(0), 1.0), (Timestamp(SECOND), 3.0)]).unwrap();
        if leaves {
            into.leave();
        } else {
            into.end();
        }
        assert_eq!(into.push([(Timestamp(0), 1.0)]), Err(Error::Stopped));
        run.join().unwrap();
        rows_of::<(Option<f64>,)>(&means.read().unwrap(), "average(value)").unwrap()
    };
    assert_eq!(windows(false), [(Some(1.0),), (Some(2.0),), (Some(3.0),)]);
    assert_eq!(windows(true), [(Some(1.0),)]);
}

#[test]
fn a_source_that_is_idle_does_not_hold_windows_back() {
    let mut query = Query::new("windows");
    let source = |query: &mut Query, name: &str| {
        query.rows::<(Timestamp,)>(name, "time").event_time("time", Duration::ZERO)
    };
    let (busy, quiet) = (source(&mut query, "busy"), source(&mut query, "quiet"));
    let (send, closed) = channel();
    busy.union(&quiet)
        .key_by(())
        .window(Window::tumbling("time", Duration::from_secs(1)))
        .aggregate([count()])
        .for_each("send", "count", move |row: (Option<i64>,)| send.send(row).unwrap());
    let run = Engine::new().start(query).unwrap();
    run.input(&quiet).unwrap().idle().unwrap();
    run.input(&busy).unwrap().push([(Timestamp(0),), (Timestamp(1),), (Timestamp(SECOND),)]).unwrap();
    assert_eq!(closed.recv().unwrap(), (Some(2),));
    drop(run);
}

#[test]
fn a_late_row_is_counted_and_a_sum_that_does_not_fit_is_null() {
    let mut query = Query::new("sums");
    let input = query.rows::<(Timestamp, i64)>("input", ["time", "value"]).event_time("time", Duration::ZERO);
    let window = Window::tumbling("time", Duration::from_secs(1));
    let sums = input.key_by(()).window(window).aggregate([sum("value")]).collect("sums", 10);
    let run = Engine::new().start(query).unwrap();
    let rows =
        [(Timestamp(5), i64::MAX), (Timestamp(6), i64::MAX), (Timestamp(2 * SECOND), 7), (Timestamp(0), 1)];
    run.input(&input).unwrap().push(rows).unwrap();
    let summary = run.finish().unwrap();
    assert_eq!((summary.late, summary.faults.count), (1, 1));
    assert_eq!(
        rows_of::<(Option<i64>,)>(&sums.read().unwrap(), "sum(value)").unwrap(),
        [(None,), (Some(7),)]
    );
}
