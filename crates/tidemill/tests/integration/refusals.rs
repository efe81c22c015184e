//! What is wrong with a query is reported when it starts, with the place, the reason and the remedy.

use std::sync::Arc;
use std::time::Duration;

use tidemill::aggregate::{count, maximum, sum, variance};
use tidemill::arrow::array::{Int32Array, RecordBatch};
use tidemill::{Engine, Order, PushedSource, Query, Stream, Table, Timestamp, Trailing, Window, Within};

fn refused(build: impl FnOnce(&mut Query) -> Stream) -> String {
    let mut query = Query::new("q");
    build(&mut query).for_each_batch("ignored", |_| Ok(()));
    Engine::new().start(query).err().expect("it is refused").to_string()
}

fn rows(query: &mut Query) -> Stream {
    query.rows::<(i64, Option<f64>, Timestamp)>("rows", ["key", "value", "time"]).stream().clone()
}

#[test]
fn columns_and_types_are_checked() {
    let text = refused(|query| rows(query).filter("valeu", |(value,): (f64,)| value > 0.0));
    assert_eq!(
        text,
        "query 'q': filter: there is no column 'valeu'; the columns are key (Int64), \
         value (Float64), time (Timestamp(ns))"
    );
    let text = refused(|query| rows(query).filter("value", |(value,): (f64,)| value > 0.0));
    assert_eq!(text, "query 'q': filter: column 'value' may be NULL; read it as Option<f64>");
    let text = refused(|query| rows(query).map("key", "text", |(key,): (String,)| (key,)));
    assert_eq!(text, "query 'q': map: column 'key' is Int64, which cannot be read as String");
    let text = refused(|query| rows(query).map("key", ["a", "b"], |(key,): (i64,)| (key,)));
    assert_eq!(text, "query 'q': map: rows of 1 values need one name per value, not 2");
    let text = refused(|query| rows(query).with("key", "value", |(key,): (i64,)| (key,)));
    assert_eq!(text, "query 'q': with: two columns would be named 'value'; rename one of them");
    let text = refused(|query| rows(query).key_by("kye").aggregate([count()]));
    assert!(text.contains("key_by: there is no column 'kye'"), "{text}");
}

#[test]
fn windows_need_event_time() {
    let minute = Duration::from_secs(60);
    let text = refused(|query| {
        rows(query).key_by("key").window(Window::tumbling("time", minute)).aggregate([count()])
    });
    assert!(text.contains("source 'rows' has no event time, so windows would never close"), "{text}");
    let timed = |query: &mut Query| rows(query).event_time("time", minute);
    let text =
        refused(|query| timed(query).key_by(()).window(Window::tumbling("key", minute)).aggregate([count()]));
    assert!(text.contains("column 'key' is Int64; it must be Timestamp(Nanosecond)"), "{text}");
    let text = refused(|query| {
        timed(query).key_by(()).window(Window::tumbling("time", Duration::ZERO)).aggregate([count()])
    });
    assert!(text.contains("the size of a window is 0 ns"), "{text}");
    let empty = |window: Window, reach: Duration| {
        refused(|query| timed(query).key_by("key").window(window.with_empty(reach)).aggregate([count()]))
    };
    let text = empty(Window::session("time", minute), minute);
    assert!(text.contains("none is empty; use a tumbling or a hopping window"), "{text}");
    assert!(empty(Window::rows(3), minute).contains("none is empty"));
    let text = empty(Window::tumbling("time", minute), minute * 100_001);
    assert!(text.contains("100001 empty windows in a row") && text.contains("1 to 100000"), "{text}");
    assert!(empty(Window::tumbling("time", minute), Duration::ZERO).contains("0 empty windows in a row"));
    let text = refused(|query| {
        let sessions =
            timed(query).key_by("key").window(Window::session("time", minute)).aggregate([count()]);
        sessions
            .key_by(())
            .window(Window::tumbling("window_start", minute))
            .aggregate([count().named("sessions")])
    });
    assert!(text.contains("use window_end"), "{text}");
    let text = refused(|query| {
        let visits = query.rows::<(i64, Timestamp)>("visits", ["id", "at"]).event_time("at", minute);
        let visits = visits.key_by("id").window(Window::session("at", minute)).aggregate([count()]);
        let within = Within::new("time", "window_end");
        let joined = timed(query).key_by("key").join("joined", &visits.key_by("id"), &within);
        joined.key_by(()).window(Window::tumbling("window_start", minute)).aggregate([sum("count")])
    });
    assert!(text.contains("use window_end"), "{text}");
}

#[test]
fn aggregates_are_checked() {
    let text = refused(|query| {
        let names = query.rows::<(String,)>("names", "name");
        names.key_by(()).aggregate([sum("name")])
    });
    assert!(text.contains("sum(name): sum is not defined for"), "{text}");
    let text = refused(|query| rows(query).key_by("key").aggregate([count(), count()]));
    assert!(text.contains("two columns would be named 'count'; call .named()"), "{text}");
    let text = refused(|query| rows(query).key_by("key").aggregate([count().only_if("value")]));
    assert!(text.contains("only_if: column 'value' is Float64; it must be Boolean"), "{text}");
}

#[test]
fn joins_are_checked() {
    let within = Within::new("time", "time");
    let text = refused(|query| {
        let (left, right) = (rows(query), query.rows::<(u8, Timestamp)>("other", ["id", "time"]));
        left.key_by("key").join("pairs", &right.key_by("id"), &within)
    });
    assert!(text.contains("join 'pairs': the keys have different types"), "{text}");
    let text = refused(|query| {
        let (left, right) = (rows(query), query.rows::<(i64, Timestamp)>("other", ["id", "time"]));
        left.key_by("key").join("pairs", &right.key_by("id"), &within)
    });
    assert!(text.contains("both streams have a column 'time'"), "{text}");
    let mut other = Query::new("other");
    let text = refused(|query| rows(query).union(&rows(&mut other)));
    assert!(text.contains("the two streams belong to different queries"), "{text}");
}

#[test]
fn only_what_a_source_expects_can_be_pushed() {
    let mut query = Query::new("q");
    let source = rows(&mut query);
    let doubled = source.map("key", "key", |(key,): (i64,)| (2 * key,));
    doubled.for_each_batch("ignored", |_| Ok(()));
    let run = Engine::new().start(query).unwrap();
    assert!(run.input(&doubled).err().unwrap().to_string().contains("can be pushed only to streams"));
    let wrong = Arc::new(Int32Array::from(vec![1])) as _;
    let wrong = RecordBatch::try_from_iter([("key", wrong)]).unwrap();
    let text = run.input(&source).unwrap().push(wrong).unwrap_err().to_string();
    assert!(
        text.contains("source 'rows': the rows have the columns key (Int32); the source has key (Int64)"),
        "{text}"
    );
    run.finish().unwrap();
}

#[test]
fn an_empty_query_is_refused() {
    let text = Engine::new().start(Query::new("nothing")).err().unwrap().to_string();
    assert!(text.contains("needs at least one source and one sink"), "{text}");
}

#[test]
fn trailing_rows_and_windows_by_count_are_checked() {
    let timed = |query: &mut Query| rows(query).event_time("time", Duration::from_secs(1));
    let text =
        refused(|query| rows(query).key_by("key").trailing(Trailing::all("time")).aggregate([count()]));
    assert!(text.contains("source 'rows' has no event time, so no row would ever be written"), "{text}");
    let text =
        refused(|query| timed(query).key_by("key").trailing(Trailing::rows("time", 0)).aggregate([count()]));
    assert!(text.contains("0 rows do not contain the row itself"), "{text}");
    let text =
        refused(|query| timed(query).key_by("key").trailing(Trailing::all("key")).aggregate([count()]));
    assert!(text.contains("column 'key' is Int64; it must be Timestamp"), "{text}");
    let text = refused(|query| {
        timed(query).key_by("key").trailing(Trailing::all("time")).aggregate([variance("value")])
    });
    assert!(text.contains("variance(value): of trailing rows, only count"), "{text}");
    let text = refused(|query| {
        timed(query).key_by("key").trailing(Trailing::all("time")).aggregate([count().named("value")])
    });
    assert!(text.contains("two columns would be named 'value'"), "{text}");
    let text = refused(|query| {
        let counts = timed(query).key_by("key").aggregate([count(), maximum("time").named("last")]);
        counts.key_by("key").trailing(Trailing::all("last")).aggregate([count()])
    });
    assert!(text.contains("rows of an aggregate without a window replace earlier ones"), "{text}");
    let text = refused(|query| {
        rows(query)
            .key_by("key")
            .aggregate([count()])
            .key_by("key")
            .window(Window::rows(2))
            .aggregate([count()])
    });
    assert!(text.contains("rows of an aggregate without a window replace earlier ones"), "{text}");
    for (size, slide) in [(0, 0), (2, 3), (2, 0)] {
        let window = Window::sliding_rows(size, slide);
        let text = refused(|query| rows(query).key_by("key").window(window).aggregate([count()]));
        assert!(text.contains(&format!("windows of {size} rows cannot begin every {slide} rows")), "{text}");
    }
    let text = refused(|query| {
        let rows = rows(query).with("key", "window_start", |(key,): (i64,)| (key,));
        rows.key_by("key").window(Window::rows(2)).aggregate([count()])
    });
    assert!(text.contains("the rows have a column 'window_start', which windows write, too"), "{text}");
}

#[test]
fn first_rows_need_windows() {
    let text = refused(|query| rows(query).key_by("key").top(3, [Order::descending("value")]));
    assert!(text.contains("top 3 of each window: the rows have no column 'window_end'"), "{text}");
    let text = refused(|query| {
        let windows = rows(query).event_time("time", Duration::ZERO).key_by("key");
        let windows = windows.window(Window::tumbling("time", Duration::from_secs(1))).aggregate([count()]);
        windows.key_by(()).top(3, [Order::descending("cuont")])
    });
    assert!(text.contains("there is no column 'cuont'"), "{text}");
}

#[test]
fn tables_are_checked() {
    let table = || Table::of(["id", "name"], [(1_i64, "one".to_owned())]);
    let text = refused(|query| rows(query).lookup("kye", &table(), "id"));
    assert!(text.contains("there is no column 'kye'"), "{text}");
    let text = refused(|query| rows(query).lookup("key", &table(), "ident"));
    assert!(
        text.contains("the table has no column 'ident'; its columns are id (Int64), name (Utf8)"),
        "{text}"
    );
    let text = refused(|query| rows(query).lookup("key", &table(), "name"));
    assert!(
        text.contains("column 'key' is Int64, and 'name' of the table is Utf8; they must have the same"),
        "{text}"
    );
    let text = refused(|query| rows(query).lookup("key", &table(), ["id", "name"]));
    assert!(text.contains("1 columns of the stream and 2 of the table are compared"), "{text}");
    let text = refused(|query| rows(query).lookup((), &table(), ()));
    assert!(text.contains("at least one"), "{text}");
    let text = refused(|query| {
        let twice = Table::of(["id", "value"], [(1_i64, 2.0)]);
        rows(query).lookup("key", &twice, "id")
    });
    assert!(text.contains("the stream and the table both have a column 'value'"), "{text}");
    let text = refused(|query| rows(query).lookup("key", &Table::of("id", [(1_i64, 2_i64)]), "id"));
    assert!(text.contains("rows of 2 values need one name per value, not 1"), "{text}");
}
