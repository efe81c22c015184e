//! Rows that the database refuses, among good ones: they are kept with the reason, and the good ones are written.

use tidemill_core::error::chain;
use tidemill_core::{Faults, RefusedRow};

use super::*;
use tidemill_testing::noise::noise;

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn keys_and_values(keys: &[Option<&str>], values: &[Option<i64>]) -> RecordBatch {
    let values = Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    RecordBatch::try_from_iter_with_nullable([("key", texts(keys), true), ("Value", values, true)]).unwrap()
}

/// What is kept of a sink's rows.
fn letters(server: &Server, sink: &str, columns: &str) -> String {
    let sink = format!("{sink} sink''s");
    server.query(&format!(
        "SELECT {columns} FROM tidemill_dead_letters WHERE sink = '{sink}' ORDER BY cycle, position"
    ))
}

fn refused(sink: &PostgresSink) -> Faults {
    sink.refused().read()
}

#[test]
fn each_kind_of_refusal_costs_its_row_alone() {
    let Some(server) = server() else { return };
    let long = noise(9000);
    // How the table is made, the bad row, and a word of the reason.
    let trigger = "CREATE TABLE raising (key text, \"Value\" bigint);
        CREATE FUNCTION raising_check() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN IF NEW.key = ''bad'' THEN RAISE EXCEPTION ''not this one''; END IF; RETURN NEW; END';
        CREATE TRIGGER checked BEFORE INSERT ON raising FOR EACH ROW EXECUTE FUNCTION raising_check()";
    type Case<'a> = (&'a str, &'a str, Option<&'a str>, Option<i64>, &'a str);
    let cases: [Case<'_>; 10] = [
        ("zero", "CREATE TABLE zero (key text, \"Value\" bigint)", Some("a\0b"), Some(1), "code 0"),
        (
            "checked",
            "CREATE TABLE checked (key text, \"Value\" bigint CHECK (\"Value\" >= 0))",
            Some("x"),
            Some(-1),
            "check",
        ),
        (
            "required",
            "CREATE TABLE required (key text NOT NULL, \"Value\" bigint)",
            None,
            Some(1),
            "not-null",
        ),
        (
            "indexed",
            "CREATE TABLE indexed (key text, \"Value\" bigint); CREATE INDEX ON indexed (key)",
            Some(&long),
            Some(1),
            "index row",
        ),
        (
            "ranged",
            "CREATE TABLE ranged (key text, \"Value\" integer)",
            Some("x"),
            Some(1 << 40),
            "does not fit into integer",
        ),
        (
            "short",
            "CREATE TABLE short (key varchar(5), \"Value\" bigint)",
            Some("too long"),
            Some(1),
            "too long",
        ),
        (
            "only",
            "CREATE TABLE only_once (key text UNIQUE, \"Value\" bigint)",
            Some("g0"),
            Some(1),
            "duplicate key",
        ),
        (
            "late",
            "CREATE TABLE late_check (key text UNIQUE DEFERRABLE INITIALLY DEFERRED, \"Value\" bigint)",
            Some("g0"),
            Some(1),
            "duplicate key",
        ),
        (
            "parts",
            "CREATE TABLE parts (key text, \"Value\" bigint) PARTITION BY RANGE (\"Value\"); \
             CREATE TABLE parts_0 PARTITION OF parts FOR VALUES FROM (0) TO (100)",
            Some("x"),
            Some(100),
            "no partition",
        ),
        ("raising", trigger, Some("bad"), Some(1), "not this one"),
    ];
    for (name, create, key, value, reason) in cases {
        let table = match name {
            "only" => "only_once",
            "late" => "late_check",
            other => other,
        };
        server.query(create);
        let named =
            |table: &str| PostgresSinkSettings { sink: format!("{name} sink's"), ..settings(server, table) };
        let mut sink = PostgresSink::connect(&schema(), named(table)).unwrap();
        // The bad row is in the middle of the second of three cycles, which one transaction writes.
        let good: Vec<String> = (0..30).map(|row| format!("g{row}")).collect();
        let mut all: Vec<(Option<&str>, Option<i64>)> =
            good.iter().enumerate().map(|(row, key)| (Some(key.as_str()), Some(row as i64))).collect();
        all.insert(14, (key, value));
        for (number, of_cycle) in [&all[..10], &all[10..20], &all[20..]].iter().enumerate() {
            let (keys, values): (Vec<_>, Vec<_>) = of_cycle.iter().copied().unzip();
            sink.prepare(cycle(number as u64, &keys_and_values(&keys, &values))).unwrap();
        }
        sink.commit(0..=2).unwrap_or_else(|cause| panic!("{name}: {cause}"));
        let expected: Vec<String> = (0..30).map(|row| format!("g{row}|{row}")).collect();
        assert_eq!(
            server.query(&format!("SELECT key, \"Value\" FROM {table}")),
            expected.join("\n"),
            "{name}"
        );
        assert_eq!(letters(server, name, "cycle, position"), "1|4", "{name}");
        let kept = letters(server, name, "reason");
        assert!(kept.contains(reason), "{name}: {kept}");
        assert_eq!(letters(server, name, "row_json->>'Value'"), value.unwrap().to_string(), "{name}");
        let told = refused(&sink);
        assert!(told.count == 1 && told.samples[0].contains("cycle 1, position 4"), "{told:?}");
        // It continues as if nothing had happened.
        commit(&mut sink, 3, &rows(&[("later", 40)])).unwrap();
        assert_eq!(server.query(&format!("SELECT count(*) FROM {table}")), "31", "{name}");
    }
    let whole = letters(server, "indexed", "length(row_json->>'key')");
    assert_eq!(whole, "9000", "all of the row is kept");
}

#[test]
fn a_replaced_row_is_the_last_one_that_is_taken() {
    let Some(server) = server() else { return };
    server.query("CREATE TABLE kept (key text PRIMARY KEY, \"Value\" bigint CHECK (\"Value\" < 100))");
    let mut sink = PostgresSink::connect(&schema(), keyed(server, "kept")).unwrap();
    let long = noise(9000);
    let keys = [Some("a"), None, Some("b"), Some(&long), Some("a"), Some("b"), Some("c"), None];
    let values = [1, 2, 3, 4, 5, 100, 7, 8].map(Some);
    commit(&mut sink, 0, &keys_and_values(&keys, &values)).unwrap();
    assert_eq!(server.query("SELECT * FROM kept ORDER BY key"), "a|5\nb|3\nc|7");
    assert_eq!(letters(server, "kept", "position, row_json->>'Value'"), "1|2\n3|4\n5|100\n7|8");
    assert_eq!(refused(&sink).count, 4);
    // A cycle of nothing but bad rows is one that is written.
    commit(&mut sink, 1, &keys_and_values(&[None], &[Some(9)])).unwrap();
    drop(sink);
    let mut sink = PostgresSink::connect(&schema(), keyed(server, "kept")).unwrap();
    assert_eq!(sink.last_committed(), Ok(Some(1)));
    assert_eq!(letters(server, "kept", "cycle").lines().count(), 5);
}

#[test]
fn many_bad_rows_among_many_are_found() {
    let Some(server) = server() else { return };
    server.query("CREATE TABLE odd (key text, \"Value\" bigint CHECK (\"Value\" % 97 <> 5))");
    let mut sink = PostgresSink::connect(&schema(), settings(server, "odd")).unwrap();
    let all: Vec<i64> = (0..20_000).collect();
    let values: Vec<(&str, i64)> = all.iter().map(|value| ("k", *value)).collect();
    commit(&mut sink, 0, &rows(&values)).unwrap();
    let good: Vec<String> = all.iter().filter(|value| **value % 97 != 5).map(i64::to_string).collect();
    let found = server.query("SELECT string_agg(\"Value\"::text, ' ') FROM odd");
    assert_eq!(found, good.join(" "), "each good row once, in order");
    let bad: Vec<String> = all.iter().filter(|value| **value % 97 == 5).map(i64::to_string).collect();
    let kept = "string_agg(row_json->>'Value', ' ' ORDER BY position)";
    let kept = server.query(&format!("SELECT {kept} FROM tidemill_dead_letters WHERE sink = 'odd sink''s'"));
    assert_eq!(kept, bad.join(" "));
    assert_eq!(refused(&sink).count, bad.len() as u64);
}

#[test]
fn letters_come_once_though_connections_are_cut() {
    let Some(server) = server() else { return };
    for (cut, table) in [(Cut::Before, "letters_before"), (Cut::After, "letters_after")] {
        server.query(&format!("CREATE TABLE {table} (key text, \"Value\" bigint CHECK (\"Value\" <> 3))"));
        let (port, left) = proxy::start(server.port, cut, 3);
        let url = format!("postgres://tidemill@127.0.0.1:{port}/postgres");
        let mut sink =
            PostgresSink::connect(&schema(), PostgresSinkSettings { url, ..settings(server, table) })
                .unwrap();
        for number in 0..6 {
            commit(&mut sink, number, &rows(&[("a", 1), ("b", 3), ("c\0", 2), ("d", 4)])).unwrap();
        }
        assert_eq!(left.load(Ordering::SeqCst), 0, "nothing was cut");
        let found = server.query(&format!("SELECT string_agg(key, '') FROM {table}"));
        assert_eq!(found, "adadadadadad", "{cut:?}");
        let expected: Vec<String> =
            (0..6).flat_map(|cycle| [format!("{cycle}|1"), format!("{cycle}|2")]).collect();
        assert_eq!(letters(server, table, "cycle, position"), expected.join("\n"), "{cut:?}");
        assert_eq!(refused(&sink).count, 12);
    }
}

#[test]
fn what_is_no_rows_fault_ends_the_query() {
    let Some(server) = server() else { return };
    let mut sink = PostgresSink::connect(&schema(), settings(server, "gone")).unwrap();
    server.query("DROP TABLE gone");
    let text = user_error(commit(&mut sink, 0, &rows(&[("a", 1), ("b\0", 2)])));
    assert!(text.contains("\"gone\" does not exist"), "{text}");
    assert_eq!(letters(server, "gone", "cycle"), "");

    // Without a table for them, a refused row ends the query as well.
    server.query("CREATE TABLE strict (key text, \"Value\" bigint CHECK (\"Value\" >= 0))");
    let mut sink = PostgresSink::connect(&schema(), strict(server, "strict")).unwrap();
    let text = user_error(commit(&mut sink, 0, &rows(&[("a", 1), ("b", -2)])));
    assert!(text.contains("check constraint"), "{text}");
    assert_eq!(server.query("SELECT count(*) FROM strict"), "0");

    // A user who may not create the table learns how to create it.
    server.query("CREATE ROLE writer LOGIN; CREATE TABLE theirs (key text, \"Value\" bigint)");
    server.query("GRANT INSERT, SELECT ON theirs TO writer; GRANT ALL ON tidemill_commits TO writer");
    let url = format!("postgres://writer@127.0.0.1:{}/postgres", server.port);
    let of_writer = || PostgresSinkSettings {
        url: url.clone(),
        dead_letters: Some("letters_of_writer".to_owned()),
        ..settings(server, "theirs")
    };
    let mut sink = PostgresSink::connect(&schema(), of_writer()).unwrap();
    commit(&mut sink, 0, &rows(&[("a", 1)])).unwrap();
    let text = user_error(commit(&mut sink, 1, &rows(&[("b", 2), ("c\0", 3)])));
    assert!(text.contains("permission denied") && text.contains("CREATE TABLE"), "{text}");
    let create = &text[text.find("CREATE TABLE").unwrap()..];
    server.query(&format!("{create}; GRANT INSERT ON letters_of_writer TO writer"));
    let mut sink = PostgresSink::connect(&schema(), of_writer()).unwrap();
    assert_eq!(sink.last_committed(), Ok(Some(0)), "nothing of the cycle was written");
    commit(&mut sink, 1, &rows(&[("b", 2), ("c\0", 3)])).unwrap();
    assert_eq!(server.query("SELECT * FROM theirs"), "a|1\nb|2");
    assert_eq!(server.query("SELECT row_json->>'Value' FROM letters_of_writer"), "3");
}

/// What the server says of an error beside its message is among the sources, and so is the error of a connection.
#[test]
fn an_error_keeps_its_sources() {
    let Some(server) = server() else { return };
    server.query("CREATE TABLE chained (key text, \"Value\" bigint CHECK (\"Value\" >= 0))");
    let mut sink = PostgresSink::connect(&schema(), strict(server, "chained")).unwrap();
    let failed = commit(&mut sink, 0, &rows(&[("a", 1), ("b", -2)])).expect_err("a row is refused");
    assert_eq!(RefusedRow::of(&failed), Some(RefusedRow { cycle: 0, event: 1 }));
    let texts = chain(&failed);
    assert!(texts[0].starts_with("PostgreSQL refuses the rows: new row for relation"), "{texts:?}");
    assert_eq!(texts[1], "event 1 of cycle 0 caused the row");
    assert_eq!(
        texts[2].split(", where: ").next(),
        Some("SQLSTATE 23514, table: chained, constraint: chained_Value_check")
    );
    assert!(texts[3].starts_with("ERROR: new row for relation") && texts.len() == 4, "{texts:?}");

    // An error of the statement, not of a row.
    drop(sink);
    server.query("DROP TABLE chained");
    let mut sink = PostgresSink::connect(&schema(), settings(server, "chained")).unwrap();
    server.query("DROP TABLE chained");
    let texts = chain(&commit(&mut sink, 0, &rows(&[("a", 1)])).expect_err("the table is gone"));
    assert!(texts.iter().any(|text| text.starts_with("SQLSTATE 42P01")), "{texts:?}");

    // While it opens: a role that does not exist, and a server that does not listen.
    let open = |url: String| {
        let settings = PostgresSinkSettings { url, ..settings(server, "chained") };
        PostgresSink::connect(&schema(), settings).err().expect("it cannot be opened")
    };
    let texts = chain(&open(format!("postgres://nobody@127.0.0.1:{}/postgres", server.port)));
    assert!(texts.iter().any(|text| text.starts_with("SQLSTATE 28000")), "{texts:?}");
    let port = tidemill_testing::ports::free_port();
    let refused = open(format!("postgres://postgres@127.0.0.1:{port}/postgres"));
    let mut source = std::error::Error::source(&refused);
    while let Some(error) = source.filter(|error| !error.is::<std::io::Error>()) {
        source = error.source();
    }
    assert!(source.is_some(), "the error of the socket is lost: {refused:?}");
}

#[test]
fn a_value_that_cannot_be_cast_costs_its_row_alone() {
    let Some(server) = server() else { return };
    server.query("CREATE TABLE unsigned (c bigint)");
    let values: Vec<Option<u64>> = (0..100).map(|row| Some(if row == 33 { u64::MAX } else { row })).collect();
    let rows = one("c", Arc::new(UInt64Array::from(values)));
    let mut sink = PostgresSink::connect(&rows.schema(), settings(server, "unsigned")).unwrap();
    commit(&mut sink, 0, &rows).unwrap();
    assert_eq!(server.query("SELECT count(*), sum(c) FROM unsigned"), format!("99|{}", 99 * 100 / 2 - 33));
    assert_eq!(letters(server, "unsigned", "position, row_json->>'c'"), format!("33|{}", u64::MAX));
}
