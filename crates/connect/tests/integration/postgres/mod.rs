//! The sink for PostgreSQL against a real server.

mod proxy;
mod reading;
mod refused_rows;
mod tls;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow_array::types::Float64Type;
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use proxy::Cut;
use tidemill_connect::postgres::{PostgresSink, PostgresSinkSettings};
use tidemill_core::{Batch, Cause, CycleOutput, Fault, Guarantee, ManualClock, Sink};
use tidemill_testing::postgres::Server;

/// One server for all tests that do not kill it.
fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER.get_or_init(Server::start).as_ref()
}

fn settings(server: &Server, table: &str) -> PostgresSinkSettings {
    PostgresSinkSettings::new(server.url(), table, format!("{table} sink's"))
}

/// A sink that a refused row ends.
fn strict(server: &Server, table: &str) -> PostgresSinkSettings {
    PostgresSinkSettings { dead_letters: None, ..settings(server, table) }
}

fn keyed(server: &Server, table: &str) -> PostgresSinkSettings {
    PostgresSinkSettings { key: vec!["key".to_owned()], ..settings(server, table) }
}

fn rows(values: &[(&str, i64)]) -> RecordBatch {
    let keys = values.iter().map(|(key, _)| Some(*key)).collect::<StringArray>();
    let values = values.iter().map(|(_, value)| Some(*value)).collect::<Int64Array>();
    let columns = [("key", Arc::new(keys) as ArrayRef, true), ("Value", Arc::new(values) as _, true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn schema() -> SchemaRef {
    rows(&[]).schema()
}

fn cycle(number: u64, rows: &RecordBatch) -> CycleOutput {
    let positions: Vec<u32> = (0..rows.num_rows() as u32).collect();
    CycleOutput {
        cut: Arc::new(tidemill_core::Cut { cycle: number, ..tidemill_core::Cut::first() }),
        streams: vec![Some(Batch::from_source(rows.clone(), positions.into()))],
        arrivals: Arc::default(),
        clock: Arc::new(ManualClock::default()),
    }
}

fn commit(sink: &mut PostgresSink, number: u64, rows: &RecordBatch) -> Result<(), Cause> {
    sink.prepare(cycle(number, rows))?;
    sink.commit(number..=number)
}

fn user_error<T>(result: Result<T, Cause>) -> String {
    match result.err() {
        Some(Cause { fault: Fault::User, message: text, .. }) => text.into(),
        other => panic!("expected a user's error, got {other:?}"),
    }
}

fn one(name: &str, values: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([(name, values, true)]).unwrap()
}

/// Writes one column and reads it back as text, in order of writing.
fn there_and_back(server: &Server, table: &str, values: ArrayRef) -> Vec<String> {
    let rows = one("c", values);
    let mut sink = PostgresSink::connect(&rows.schema(), settings(server, table)).unwrap();
    commit(&mut sink, 0, &rows).unwrap();
    let text = server.query(&format!("SET TimeZone = 'UTC'; SELECT coalesce(c::text, 'NULL') FROM {table}"));
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn every_type_is_read_back() {
    let Some(server) = server() else { return };
    let mut number = 0;
    let mut check = |values: ArrayRef, column_type: &str, expected: &[&str]| {
        number += 1;
        let table = format!("type_{number}");
        assert_eq!(there_and_back(server, &table, values), expected, "{column_type}");
        let query = format!(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute \
             WHERE attrelid = '{table}'::regclass AND attname = 'c'"
        );
        assert_eq!(server.query(&query), column_type);
    };
    check(Arc::new(Int8Array::from(vec![Some(-128), None])), "smallint", &["-128", "NULL"]);
    check(Arc::new(Int16Array::from(vec![i16::MIN, i16::MAX])), "smallint", &["-32768", "32767"]);
    check(Arc::new(Int32Array::from(vec![i32::MIN])), "integer", &["-2147483648"]);
    check(Arc::new(Int64Array::from(vec![i64::MIN])), "bigint", &["-9223372036854775808"]);
    check(Arc::new(UInt8Array::from(vec![255])), "smallint", &["255"]);
    check(Arc::new(UInt16Array::from(vec![65_535])), "integer", &["65535"]);
    check(Arc::new(UInt32Array::from(vec![u32::MAX])), "bigint", &["4294967295"]);
    check(
        Arc::new(UInt64Array::from(vec![u64::MAX, 0, 10_000])),
        "numeric(20,0)",
        &["18446744073709551615", "0", "10000"],
    );
    check(Arc::new(Float32Array::from(vec![1.5, f32::NAN])), "real", &["1.5", "NaN"]);
    let floats = vec![Some(f64::NEG_INFINITY), Some(f64::INFINITY), Some(-0.0), None, Some(0.1)];
    let expected = ["-Infinity", "Infinity", "-0", "NULL", "0.1"];
    check(Arc::new(Float64Array::from(floats)), "double precision", &expected);
    check(
        Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        "boolean",
        &["true", "false", "NULL"],
    );
    let texts = vec![Some("Zug ☃"), Some(""), Some("a\\b'c\"|\t"), None];
    let expected = ["Zug ☃", "", "a\\b'c\"|\t", "NULL"];
    check(Arc::new(StringArray::from(texts.clone())), "text", &expected);
    check(Arc::new(LargeStringArray::from(texts.clone())), "text", &expected);
    check(Arc::new(StringViewArray::from(texts)), "text", &expected);
    let dictionary: DictionaryArray<types::Int32Type> =
        vec![Some("x"), None, Some("x")].into_iter().collect();
    check(Arc::new(dictionary), "text", &["x", "NULL", "x"]);
    check(Arc::new(BinaryArray::from(vec![&b"\0\xff"[..], b""])), "bytea", &["\\x00ff", "\\x"]);
    check(
        Arc::new(Date32Array::from(vec![0, -1, 10_957])),
        "date",
        &["1970-01-01", "1969-12-31", "2000-01-01"],
    );
    check(
        Arc::new(TimestampNanosecondArray::from(vec![1_999, -1])),
        "timestamp without time zone",
        &["1970-01-01 00:00:00.000001", "1969-12-31 23:59:59.999999"],
    );
    check(
        Arc::new(TimestampMillisecondArray::from(vec![1_700_000_000_123]).with_timezone("UTC")),
        "timestamp with time zone",
        &["2023-11-14 22:13:20.123+00"],
    );
    let decimals = Decimal128Array::from(vec![Some(-123_456_789), Some(0), None, Some(5)]);
    let decimals = decimals.with_precision_and_scale(20, 5).unwrap();
    check(Arc::new(decimals), "numeric(20,5)", &["-1234.56789", "0.00000", "NULL", "0.00005"]);
    let lists = vec![Some(vec![Some(1.5), None, Some(f64::NAN)]), Some(vec![]), None];
    let lists = ListArray::from_iter_primitive::<Float64Type, _, _>(lists);
    check(Arc::new(lists), "double precision[]", &["{1.5,NULL,NaN}", "{}", "NULL"]);
}

#[test]
fn columns_that_are_there_take_what_fits() {
    let Some(server) = server() else { return };
    server.query("CREATE TABLE narrow (id serial, c integer, extra text DEFAULT 'x')");
    let rows = one("c", Arc::new(Int64Array::from(vec![7])));
    let mut sink = PostgresSink::connect(&rows.schema(), strict(server, "narrow")).unwrap();
    commit(&mut sink, 0, &rows).unwrap();
    assert_eq!(server.query("SELECT * FROM narrow"), "1|7|x");
    let large = one("c", Arc::new(Int64Array::from(vec![1_i64 << 40])));
    let text = user_error(sink.prepare(cycle(1, &large)));
    assert!(
        text.contains("'narrow'") && text.contains("'c'") && text.contains("does not fit into integer"),
        "{text}"
    );
    let text = user_error(PostgresSink::connect(&schema(), settings(server, "narrow")));
    assert!(text.contains("no column 'key'; it has id, c, extra"), "{text}");
    let other = one("c", Arc::new(StringArray::from(vec!["x"])));
    let text = user_error(PostgresSink::connect(&other.schema(), settings(server, "narrow")));
    assert!(text.contains("has type int4") && text.contains("change it to text"), "{text}");
}

#[test]
fn values_that_cannot_be_stored_are_refused() {
    let Some(server) = server() else { return };
    let refused = |table: &str, values: ArrayRef| {
        let rows = one("c", values);
        let mut sink = PostgresSink::connect(&rows.schema(), strict(server, table)).unwrap();
        let text = user_error(sink.prepare(cycle(0, &rows)));
        assert!(text.contains("column 'c'"), "{text}");
        text
    };
    assert!(refused("zero_text", Arc::new(StringArray::from(vec!["a\0b"]))).contains("code 0"));
    assert!(refused("far_date", Arc::new(Date32Array::from(vec![i32::MIN]))).contains("outside"));
    assert!(refused("far_time", Arc::new(TimestampSecondArray::from(vec![i64::MAX]))).contains("outside"));
    let duration = Schema::new(vec![Field::new("c", DataType::Duration(TimeUnit::Second), true)]).into();
    assert!(
        user_error(PostgresSink::connect(&duration, settings(server, "no_duration"))).contains("cast it")
    );
}

#[test]
fn a_run_that_goes_on_has_each_row_once() {
    let Some(server) = server() else { return };
    let mut written = 0;
    // Each run prepares more than it commits, then ends in disorder.
    for run in 0..5 {
        let mut sink = PostgresSink::connect(&schema(), settings(server, "resumed")).unwrap();
        assert_eq!(sink.guarantee(), Guarantee::ExactlyOnce);
        let first = sink.last_committed().unwrap().map_or(0, |last| last + 1);
        assert_eq!(first, written);
        for number in first..first + 4 {
            sink.prepare(cycle(number, &rows(&[("a", number as i64), ("b", number as i64)]))).unwrap();
        }
        sink.commit(first..=first + run % 3).unwrap();
        written = first + run % 3 + 1;
        assert_eq!(
            server.query("SELECT count(*), count(DISTINCT \"Value\") FROM resumed"),
            format!("{}|{written}", 2 * written)
        );
    }
    let fresh = PostgresSinkSettings { resume: false, ..settings(server, "resumed") };
    let mut sink = PostgresSink::connect(&schema(), fresh).unwrap();
    assert_eq!(sink.last_committed(), Ok(None));
    commit(&mut sink, 0, &rows(&[("again", 1)])).unwrap();
    assert_eq!(server.query("SELECT count(*) FROM resumed"), (2 * written + 1).to_string());
}

#[test]
fn cycles_without_rows_are_counted_at_the_end() {
    let Some(server) = server() else { return };
    let mut sink = PostgresSink::connect(&schema(), settings(server, "quiet")).unwrap();
    commit(&mut sink, 0, &rows(&[("a", 1)])).unwrap();
    (1..10).for_each(|number| commit(&mut sink, number, &rows(&[])).unwrap());
    sink.finish().unwrap();
    drop(sink);
    let mut sink = PostgresSink::connect(&schema(), settings(server, "quiet")).unwrap();
    assert_eq!(sink.last_committed(), Ok(Some(9)));
}

#[test]
fn a_connection_that_is_cut_at_commit_loses_and_doubles_nothing() {
    let Some(server) = server() else { return };
    for (cut, table) in [(Cut::Before, "cut_before"), (Cut::After, "cut_after")] {
        for key in [false, true] {
            let table = format!("{table}_{key}");
            let (port, left) = proxy::start(server.port, cut, 3);
            let mut settings = if key { keyed(server, &table) } else { settings(server, &table) };
            settings.url = format!("postgres://tidemill@127.0.0.1:{port}/postgres");
            let mut sink = PostgresSink::connect(&schema(), settings).unwrap();
            for number in 0..6 {
                commit(&mut sink, number, &rows(&[(&format!("k{number}"), number as i64)])).unwrap();
            }
            assert_eq!(left.load(Ordering::SeqCst), 0, "nothing was cut");
            let query = format!("SELECT string_agg(\"Value\"::text, ' ' ORDER BY \"Value\") FROM {table}");
            assert_eq!(server.query(&query), "0 1 2 3 4 5", "{cut:?}");
        }
    }
}

#[test]
fn a_server_that_dies_while_it_copies_gets_the_rows_when_it_is_back() {
    let Some(server) = Server::start() else { return };
    let mut sink = PostgresSink::connect(&schema(), settings(&server, "killed")).unwrap();
    let many: Vec<(String, i64)> = (0..60_000).map(|row| (format!("key {row}"), row)).collect();
    let many = rows(&many.iter().map(|(key, value)| (key.as_str(), *value)).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..8 {
                commit(&mut sink, number, &many).unwrap();
            }
        });
        for wait_ms in [40, 150] {
            std::thread::sleep(Duration::from_millis(wait_ms));
            server.crash();
            server.resume();
        }
        writer.join().unwrap();
    });
    let counts =
        "SELECT count(*), min(n), max(n) FROM (SELECT count(*) AS n FROM killed GROUP BY \"Value\") AS k";
    assert_eq!(server.query(counts), "60000|8|8");
}

#[test]
fn sessions_that_are_terminated_are_replaced() {
    let Some(server) = Server::start() else { return };
    let mut sink = PostgresSink::connect(&schema(), keyed(&server, "terminated")).unwrap();
    for number in 0..5 {
        server.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemill'",
        );
        commit(&mut sink, number, &rows(&[("a", number as i64)])).unwrap();
    }
    assert_eq!(server.query("SELECT * FROM terminated"), "a|4");
}

/// Waits until somebody holds the table `held`.
fn wait_until_held(server: &Server) {
    let held = "SELECT count(*) FROM pg_locks WHERE relation = 'held'::regclass AND granted \
                AND mode = 'ShareRowExclusiveLock'";
    let start = std::time::Instant::now();
    while server.query(held) != "1" {
        assert!(start.elapsed() < Duration::from_secs(60), "nobody holds it");
    }
}

#[test]
fn a_server_that_does_not_answer_is_given_up_and_a_stop_ends_the_waiting() {
    let Some(server) = server() else { return };
    server.query("CREATE TABLE held (key text, \"Value\" bigint)");
    let impatient = |retry_for| PostgresSinkSettings {
        answer_wait: Duration::from_millis(200),
        retry_for,
        ..settings(server, "held")
    };
    // Holds the table until it is told to go.
    let hold = "BEGIN; LOCK TABLE held IN SHARE ROW EXCLUSIVE MODE; SELECT pg_sleep(4)";
    std::thread::scope(|scope| {
        let mut sink = PostgresSink::connect(&schema(), impatient(Duration::from_millis(500))).unwrap();
        let holder = scope.spawn(|| server.query(hold));
        wait_until_held(server);
        let failed = commit(&mut sink, 0, &rows(&[("a", 1)]));
        assert!(
            matches!(&failed, Err(Cause { fault: Fault::Operation, message, .. }) if message.contains("retry_for")),
            "{failed:?}"
        );
        assert_eq!(commit(&mut sink, 1, &rows(&[("a", 1)])), failed);
        holder.join().unwrap();
    });
    std::thread::scope(|scope| {
        let mut sink = PostgresSink::connect(&schema(), impatient(Duration::from_secs(600))).unwrap();
        let stop = sink.stop_handle();
        let holder = scope.spawn(|| server.query(hold));
        wait_until_held(server);
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            stop.stop();
        });
        let failed = commit(&mut sink, 0, &rows(&[("a", 1)]));
        assert!(
            matches!(&failed, Err(Cause { fault: Fault::Operation, message, .. }) if message.contains("stopped")),
            "{failed:?}"
        );
        holder.join().unwrap();
    });
    std::thread::scope(|scope| {
        let mut sink = PostgresSink::connect(&schema(), impatient(Duration::from_secs(600))).unwrap();
        let holder = scope.spawn(|| server.query(hold));
        wait_until_held(server);
        commit(&mut sink, 0, &rows(&[("slow", 1)])).unwrap();
        holder.join().unwrap();
    });
    assert_eq!(server.query("SELECT * FROM held"), "slow|1");
}

#[test]
fn the_last_row_of_a_key_counts() {
    let Some(server) = server() else { return };
    let upserted = PostgresSinkSettings { dead_letters: None, ..keyed(server, "upserted") };
    let mut sink = PostgresSink::connect(&schema(), upserted).unwrap();
    sink.prepare(cycle(0, &rows(&[("a", 1), ("b", 1), ("a", 2)]))).unwrap();
    sink.prepare(cycle(1, &rows(&[("c", 1), ("a", 3)]))).unwrap();
    sink.commit(0..=1).unwrap();
    assert_eq!(server.query("SELECT * FROM upserted ORDER BY key"), "a|3\nb|1\nc|1");
    commit(&mut sink, 2, &rows(&[("b", 9), ("d", 4), ("b", 2)])).unwrap();
    assert_eq!(server.query("SELECT * FROM upserted ORDER BY key"), "a|3\nb|2\nc|1\nd|4");
    let without_key = RecordBatch::try_new(
        schema(),
        vec![Arc::new(StringArray::from(vec![None::<&str>])), Arc::new(Int64Array::from(vec![1]))],
    );
    let text = user_error(sink.prepare(cycle(3, &without_key.unwrap())));
    assert!(text.contains("'key'") && text.contains("NULL"), "{text}");

    server.query("CREATE TABLE keyless (key text, \"Value\" bigint)");
    let text = user_error(PostgresSink::connect(&schema(), keyed(server, "keyless")));
    assert!(text.contains("unique index"), "{text}");
    let unknown = PostgresSinkSettings { key: vec!["nobody".to_owned()], ..settings(server, "upserted") };
    assert!(user_error(PostgresSink::connect(&schema(), unknown)).contains("the columns are key, Value"));
}

#[test]
fn an_earlier_run_under_the_same_name_is_shut_out() {
    let Some(server) = server() else { return };
    let mut first = PostgresSink::connect(&schema(), settings(server, "fenced")).unwrap();
    commit(&mut first, 0, &rows(&[("first", 0)])).unwrap();
    let mut second = PostgresSink::connect(&schema(), settings(server, "fenced")).unwrap();
    let text = user_error(commit(&mut first, 1, &rows(&[("first", 1)])));
    assert!(text.contains("another run is writing to this sink"), "{text}");
    assert_eq!(second.last_committed(), Ok(Some(0)));
    commit(&mut second, 1, &rows(&[("second", 1)])).unwrap();
    assert_eq!(server.query("SELECT * FROM fenced ORDER BY 2"), "first|0\nsecond|1");
}

#[test]
fn mistakes_are_told_without_the_password() {
    let Some(server) = server() else { return };
    server.query("CREATE ROLE guarded LOGIN PASSWORD 'right'");
    let at = |rest: &str, port: u16| {
        let url = format!("postgres://guarded:topsecret@127.0.0.1:{port}/{rest}");
        let settings = PostgresSinkSettings { url, ..settings(server, "mistaken") };
        assert!(!format!("{settings:?}").contains("topsecret"));
        let text = PostgresSink::connect(&schema(), settings).err().unwrap().to_string();
        assert!(!text.contains("topsecret"), "{text}");
        text
    };
    assert!(at("postgres", server.port).contains("check user and password"));
    assert!(at("postgres", 1).contains("cannot be reached"));
    assert!(at("postgres?topsecret=1", server.port).contains("cannot be read"));
    let nowhere = PostgresSinkSettings { url: server.url() + "ql", ..settings(server, "mistaken") };
    assert!(user_error(PostgresSink::connect(&schema(), nowhere)).contains("create the database"));
    let absent = PostgresSinkSettings { create: false, ..settings(server, "mistaken") };
    assert!(user_error(PostgresSink::connect(&schema(), absent)).contains("create = true"));
    let url = format!("postgres://guarded:right@127.0.0.1:{}/postgres", server.port);
    let forbidden = PostgresSinkSettings { url, ..settings(server, "mistaken") };
    assert!(user_error(PostgresSink::connect(&schema(), forbidden)).contains("permission denied"));
    let text = user_error(PostgresSink::connect(&schema(), settings(server, &"x".repeat(64))));
    assert!(text.contains("63 bytes"), "{text}");
}
