//! Every form of every statement, and texts that are not statements at all.

use std::time::Duration;

use datafusion::sql::sqlparser::ast;
use proptest::prelude::*;
use tidemill_sql::{
    CreateSource, Name, OptionValue, RelationKind, ShowKind, SinkInput, StatementKind, is_complete, keywords,
    parse, parse_all, parse_bytes, parse_duration_ns,
};

fn one(text: &str) -> StatementKind {
    let mut statements = parse(text, "test.sql").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0).kind
}

fn source(text: &str) -> CreateSource {
    match one(text) {
        StatementKind::CreateSource(source) | StatementKind::CreateTable(source) => source,
        other => panic!("{other:?}"),
    }
}

fn query(text: &str) -> String {
    match one(text) {
        StatementKind::Query(query, options) => {
            assert!(options.is_empty(), "{text}");
            query.to_string()
        }
        other => panic!("{other:?}"),
    }
}

fn strings(names: &[Name]) -> Vec<&str> {
    names.iter().map(Name::as_str).collect()
}

#[test]
fn create_source_in_full() {
    let source = source(
        "CREATE OR REPLACE SOURCE IF NOT EXISTS Clicks (
             user_id BIGINT NOT NULL, -- who
             \"Price\" DECIMAL(10, 2) NULL,
             tags VARCHAR[], at STRUCT<x DOUBLE, y DOUBLE>, likeness FLOAT[3],
             time DOUBLE PRECISION,
             zoned TIMESTAMP WITH TIME ZONE,
             event_time AS to_timestamp_seconds(time),
             day DATE NOT NULL AS (CAST(event_time AS DATE)),
             WATERMARK FOR event_time AS event_time - INTERVAL '5 seconds',
             PRIMARY KEY (user_id, event_time) NOT ENFORCED
         ) WITH (connector = 'file', format = csv, header = true, rate = 1000, 'a.b' = -2.5, c.d = 'x',
                 ordered = TRUE, wait = INTERVAL '2' MINUTE)",
    );
    assert!(source.or_replace && source.if_not_exists);
    assert_eq!((source.name.as_str(), source.name.span.start.column), ("clicks", 40));
    let names: Vec<&str> = source.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(
        names,
        ["user_id", "Price", "tags", "at", "likeness", "time", "zoned", "event_time", "day"],
        "unquoted names are in lower case"
    );
    let computed: Vec<&str> = source
        .columns
        .iter()
        .filter(|column| column.computed.is_some())
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(computed, ["event_time", "day"]);
    let typed = |at: usize| source.columns[at].data_type.as_ref().map(ToString::to_string);
    assert_eq!(typed(0).as_deref(), Some("BIGINT"));
    assert_eq!(typed(6).as_deref(), Some("TIMESTAMP WITH TIME ZONE"));
    assert_eq!(typed(7), None);
    assert_eq!(typed(8).as_deref(), Some("DATE"));
    assert_eq!(source.columns.iter().filter(|column| column.not_null).count(), 2);
    let watermark = source.watermark.as_ref().unwrap();
    assert_eq!((watermark.column.as_str(), watermark.delay_ns), ("event_time", 5_000_000_000));
    assert_eq!(strings(&source.key), ["user_id", "event_time"]);

    assert_eq!(source.options.boolean("ordered").unwrap(), Some(true));
    let options = &source.options;
    assert_eq!(options.text("format").unwrap(), Some("csv"));
    assert_eq!(options.boolean("header").unwrap(), Some(true));
    assert_eq!(options.integer("rate", 0..=1_000).unwrap(), Some(1_000));
    assert_eq!(options.get("a.b").unwrap().value, OptionValue::Number("-2.5".to_owned()));
    assert_eq!(options.text("c.d").unwrap(), Some("x"));
    assert_eq!(options.duration_ns("wait").unwrap(), Some(120_000_000_000));
    assert_eq!(options.text("none").unwrap(), None);
    let order: Vec<&str> = options.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(order, ["connector", "format", "header", "rate", "a.b", "c.d", "ordered", "wait"]);
}

#[test]
fn create_source_in_short() {
    let plain = source("create source s with (path = 'a.csv')");
    assert!(plain.columns.is_empty() && plain.watermark.is_none() && plain.key.is_empty());
    assert!(!plain.or_replace && !plain.if_not_exists);

    let inferred = source("CREATE SOURCE s (ts AS to_timestamp(t), WATERMARK FOR ts) WITH (path = 'a.csv')");
    assert_eq!(inferred.columns.len(), 1);
    assert_eq!(inferred.watermark.unwrap().delay_ns, 0);

    for (form, delay_ns) in [
        ("ts", 0),
        ("(ts)", 0),
        ("TS - INTERVAL '20 ms'", 20_000_000),
        ("ts - INTERVAL '1' HOUR", 3_600_000_000_000),
        ("ts - INTERVAL '1 hour 30 minutes'", 5_400_000_000_000),
        ("\"ts\" - INTERVAL '0.5 s'", 500_000_000),
    ] {
        let text = format!("CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS {form}) WITH (path = 'a')");
        assert_eq!(source(&text).watermark.unwrap().delay_ns, delay_ns, "{form}");
    }
}

#[test]
fn create_table() {
    let kind = one("CREATE TABLE ads (ad VARCHAR PRIMARY KEY, campaign VARCHAR) WITH (path = 'ads.csv')");
    let StatementKind::CreateTable(table) = kind else { panic!("{kind:?}") };
    assert_eq!(strings(&table.key), ["ad"]);
    assert!(table.columns[0].not_null && !table.columns[1].not_null);
}

#[test]
fn create_views() {
    for text in [
        "CREATE VIEW v AS SELECT a FROM s WITH (max_latency = '20 ms')",
        "CREATE OR REPLACE VIEW v WITH (max_latency = '20 ms') AS (SELECT a FROM s)",
        "CREATE VIEW IF NOT EXISTS v AS WITH x AS (SELECT 1) SELECT a FROM x WITH (max_latency = '20 ms')",
    ] {
        let StatementKind::CreateView(view) = one(text) else { panic!("{text}") };
        assert_eq!(view.name.as_str(), "v");
        assert_eq!(view.options.duration_ns("max_latency").unwrap(), Some(20_000_000));
        assert_eq!(
            (view.or_replace, view.if_not_exists),
            (text.contains("OR REPLACE"), text.contains("EXISTS"))
        );
        assert!(!view.query.to_string().contains("max_latency"), "{text}");
    }
    let kind = one("CREATE MATERIALIZED VIEW m PRIMARY KEY (a, B) AS SELECT a, b FROM s");
    let StatementKind::CreateMaterializedView(view) = kind else { panic!("{kind:?}") };
    assert_eq!(strings(&view.key), ["a", "b"]);
    assert!(view.options.is_empty());
}

#[test]
fn create_sinks() {
    let input = |text: &str| {
        let StatementKind::CreateSink(sink) = one(text) else { panic!("{text}") };
        assert_eq!((sink.name.as_str(), sink.options.text("path").unwrap()), ("k", Some("out")), "{text}");
        sink.input
    };
    for text in
        ["CREATE SINK k FROM v WITH (path = 'out')", "CREATE OR REPLACE SINK k WITH (path = out) FROM V"]
    {
        let Some(SinkInput::Relation(name)) = input(text) else { panic!("{text}") };
        assert_eq!(name.as_str(), "v");
    }
    for text in [
        "CREATE SINK k FROM (SELECT a FROM s) WITH (path = 'out')",
        "CREATE SINK k AS SELECT a FROM s WITH (path = 'out')",
        "CREATE SINK IF NOT EXISTS k WITH (path = 'out') AS SELECT a FROM s",
    ] {
        assert!(matches!(input(text), Some(SinkInput::Query(_))), "{text}");
    }
    assert_eq!(input("CREATE SINK k WITH (path = 'out')"), None);
}

#[test]
fn small_statements() {
    for text in ["INSERT INTO k SELECT a FROM s WITH (x = 1)", "INSERT INTO K (SELECT a FROM s) WITH (x = 1)"]
    {
        let StatementKind::InsertInto { sink, options, .. } = one(text) else { panic!("{text}") };
        assert_eq!((sink.as_str(), options.integer("x", 1..=1).unwrap()), ("k", Some(1)));
    }
    for text in
        ["SET max_latency = '20 ms'", "SET max_latency TO INTERVAL '20 ms'", "set MAX_LATENCY = '20 ms'"]
    {
        let StatementKind::Set { name, value } = one(text) else { panic!("{text}") };
        assert_eq!(value.duration_ns(name.as_str()).unwrap(), Some(20_000_000));
    }
    assert_eq!(one("SHOW sources"), StatementKind::Show(ShowKind::Sources));
    assert_eq!(one("SHOW SETTINGS"), StatementKind::Show(ShowKind::Settings));
    let StatementKind::Describe(name) = one("DESC 'a b.csv'") else { panic!() };
    assert_eq!((name.as_str(), name.is_path()), ("a b.csv", true));
    for (text, is, exists) in [
        ("DROP SOURCE x", RelationKind::Source, false),
        ("DROP TABLE IF EXISTS x", RelationKind::Table, true),
        ("DROP VIEW x", RelationKind::View, false),
        ("DROP MATERIALIZED VIEW IF EXISTS X", RelationKind::MaterializedView, true),
        ("DROP PROCESS IF EXISTS x", RelationKind::Process, true),
        ("DROP PLACES x", RelationKind::Places, false),
        ("DROP SINK x", RelationKind::Sink, false),
    ] {
        let StatementKind::Drop { kind, name, if_exists, .. } = one(text) else { panic!("{text}") };
        assert_eq!((kind, name.as_str(), if_exists), (is, "x", exists));
    }
}

#[test]
fn explain() {
    let kind = one("EXPLAIN ANALYZE SELECT a FROM s WITH (x = 1)");
    let StatementKind::Explain { analyze: true, statement, .. } = kind else { panic!("{kind:?}") };
    let StatementKind::Query(_, options) = &statement.kind else { panic!("{statement:?}") };
    assert_eq!(options.integer("x", 1..=1).unwrap(), Some(1));
    assert_eq!(statement.text, "SELECT a FROM s WITH (x = 1)");
    for text in ["EXPLAIN INSERT INTO k SELECT 1", "EXPLAIN CREATE VIEW v AS SELECT 1", "EXPLAIN (SELECT 1)"]
    {
        assert!(matches!(one(text), StatementKind::Explain { analyze: false, .. }), "{text}");
    }
}

#[test]
fn queries() {
    assert_eq!(query("SELECT a FROM 'clicks.csv'"), "SELECT a FROM 'clicks.csv'");
    assert_eq!(query("WITH x AS (SELECT 1) SELECT * FROM x"), "WITH x AS (SELECT 1) SELECT * FROM x");
    for text in [
        "VALUES (1), (2)",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "FROM clicks",
        "SELECT a, row_number() OVER (PARTITION BY k ORDER BY ts) FROM s WHERE a IN (SELECT b FROM t)",
        "SELECT s.a, t.b FROM s LEFT JOIN t ON s.k = t.k \
         AND t.ts BETWEEN s.ts AND s.ts + INTERVAL '5 seconds'",
        "SELECT k, approx_percentile_cont(0.99) WITHIN GROUP (ORDER BY v) \
         FROM s GROUP BY k HAVING count(*) > 1",
        "SELECT point[1], a::bigint, CASE WHEN a > 1 THEN 'x' END FROM yahoo_events(rate => 100000)",
        "SELECT * FROM HOP(TABLE(s), ts, INTERVAL '1 s', INTERVAL '10 s') AS w",
        "SELECT window_start FROM TUMBLE((SELECT * FROM s WHERE a > 1), ts, INTERVAL '10 seconds')",
    ] {
        query(text);
    }
    // DataFusion's own parser is the judge of how a table in the arguments is read.
    let text = "SELECT * FROM f(TABLE(t), INTERVAL '10 seconds', size => 5)";
    let StatementKind::Query(query, _) = one(text) else { panic!() };
    let select = query.body.as_select().unwrap();
    let ast::TableFactor::Table { args: Some(args), .. } = &select.from[0].relation else {
        panic!("{select:?}")
    };
    assert_eq!(args.args.len(), 3);
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Function(table))) = &args.args[0]
    else {
        panic!("{args:?}")
    };
    assert_eq!(table.name.to_string(), "TABLE");
    assert!(matches!(&args.args[2], ast::FunctionArg::Named { name, .. } if name.value == "size"));
}

#[test]
fn a_script_of_many() {
    let text = "-- first; not a statement\n;;SELECT ';' AS a; /* ; */ SHOW VIEWS\n;\n\nDROP VIEW \"a;b\"";
    let statements = parse(text, "test.sql").unwrap();
    let texts: Vec<&str> = statements.iter().map(|statement| statement.text.as_str()).collect();
    assert_eq!(texts, ["SELECT ';' AS a", "SHOW VIEWS", "DROP VIEW \"a;b\""]);
    for statement in &statements {
        assert_eq!(&text[statement.span.bytes()], statement.text);
    }
    let start = statements[2].span.start;
    assert_eq!((start.line, start.column), (5, 1));
    assert!(parse(" \n -- nothing\n", "test.sql").unwrap().is_empty());
}

#[test]
fn places_count_characters() {
    let text = "SELECT 'Grüße 🎈'; SELECT 'ö' AS x,\n\t'ü' AS nöch FROM t";
    let statements = parse(text, "test.sql").unwrap();
    assert_eq!(&text[statements[1].span.bytes()], "SELECT 'ö' AS x,\n\t'ü' AS nöch FROM t");
    let name = statements[1].find_name("NöCH").unwrap();
    assert_eq!((&text[name.bytes()], name.start.line, name.start.column), ("nöch", 2, 9));
    let script = statements[0].script();
    for (byte, _) in text.char_indices() {
        assert_eq!(script.place_of_byte(byte).byte as usize, byte);
    }
}

#[test]
fn all_errors_of_a_script() {
    let (statements, errors) = parse_all("SELECT 1; SELECT FROM; SHOW VIEWS; DROP x; SELECT 'a", "test.sql");
    assert_eq!(statements.len(), 2);
    assert_eq!(errors.iter().map(|error| error.span.start.column).collect::<Vec<_>>().len(), 3);
    let (_, errors) = parse_all(&"x;".repeat(1_000), "test.sql");
    assert_eq!(errors.len(), 50);
}

#[test]
fn limits() {
    let error = parse(&" ".repeat(1024 * 1024 + 1), "big.sql").unwrap_err();
    assert!(error.to_string().contains("at most 1048576"), "{error}");
    assert!(parse(&" ".repeat(1024 * 1024), "big.sql").unwrap().is_empty());
    let many = vec!["SELECT 1"; 50_000].join(";");
    assert_eq!(parse(&many, "many.sql").unwrap().len(), 50_000);
}

/// Runs in a thread with the stack that threads have by default, and must not take long.
fn in_a_thread(run: impl FnOnce() + Send + 'static) {
    let (done, wait) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        run();
        done.send(()).unwrap();
    });
    wait.recv_timeout(Duration::from_secs(60)).expect("reading takes too long");
    thread.unwrap().join().unwrap();
}

#[test]
fn deep_and_long_texts_are_refused_on_a_small_stack() {
    in_a_thread(|| {
        for deep in [
            "SELECT ".to_owned() + &"(".repeat(100_000),
            "SELECT ".to_owned() + &"(".repeat(60) + "1" + &")".repeat(60),
            "SELECT ".to_owned() + &"f(".repeat(1_000) + "1" + &")".repeat(1_000),
            "SELECT * FROM ".to_owned() + &"(".repeat(1_000),
            "SELECT * FROM ".to_owned() + &"(SELECT * FROM ".repeat(1_000),
            "SELECT ".to_owned() + &"NOT ".repeat(3_000) + "a",
            "SELECT ".to_owned() + &"- ".repeat(3_000) + "1",
            "SELECT ".to_owned() + &"CASE WHEN ".repeat(1_000),
            "SELECT ".to_owned() + &"[".repeat(1_000),
            "SELECT 1".to_owned() + &" + 1".repeat(200_000),
            "SELECT 1".to_owned() + &" + 1".repeat(1_900),
            "SELECT a".to_owned() + &" IS NULL".repeat(1_900),
            "SELECT a".to_owned() + &"::int".repeat(1_900),
            "SELECT a".to_owned() + &"!".repeat(3_900),
            "SELECT a WHERE a = 1".to_owned() + &" OR a = 1".repeat(900),
            "EXPLAIN ".repeat(1_000) + "SELECT 1",
            "CREATE SOURCE s (a ".to_owned() + &"ARRAY<".repeat(1_000),
            "CREATE SOURCE s (a INT".to_owned() + &"[]".repeat(30_000) + ") WITH (a = 1)",
        ] {
            let start: String = deep.chars().take(30).collect();
            assert!(parse(&deep, "deep.sql").is_err(), "{start}");
        }
        // Long but not deep.
        let list: Vec<String> = (0..50_000).map(|number| number.to_string()).collect();
        parse(&format!("SELECT a FROM s WHERE a IN ({})", list.join(",")), "long.sql").unwrap();
        parse(&format!("SELECT {}", list.join(",")), "long.sql").unwrap();
        // Commas do not make a chain of set operations shallower.
        let unions = |count| "SELECT 1, 2".to_owned() + &" UNION ALL SELECT 1, 2".repeat(count);
        parse(&unions(500), "long.sql").unwrap();
        let error = parse(&unions(501), "long.sql").unwrap_err().to_string();
        assert!(error.contains("more than 500 UNION"), "{error}");
    });
}

#[test]
fn completeness() {
    for (text, complete) in [
        ("", true),
        ("  -- only a comment", true),
        ("SELECT 1", false),
        ("SELECT 1;", true),
        ("SELECT 1; -- done", true),
        ("SELECT 1; SELECT", false),
        ("SELECT ';", false),
        ("SELECT 1 -- ;", false),
        ("SELECT 1 /* ;", false),
        ("SELECT \"a;", false),
        ("SELECT (1;", false),
        ("SELECT 1);", true),
        ("CREATE SOURCE s (\n a INT,", false),
    ] {
        assert_eq!(is_complete(text), complete, "{text}");
    }
}

#[test]
fn keywords_are_sorted() {
    assert!(keywords().is_sorted());
    assert!(keywords().iter().all(|word| word.chars().all(|char| char.is_ascii_uppercase())));
}

#[test]
fn durations_and_sizes() {
    for (text, nanoseconds) in [
        ("0 s", 0),
        ("1ns", 1),
        ("20 ms", 20_000_000),
        ("1.5 s", 1_500_000_000),
        (".5 us", 500),
        ("5 m", 300_000_000_000),
        ("3 µs", 3_000),
        ("1 hour 30 minutes", 5_400_000_000_000),
        ("-2 days", -172_800_000_000_000),
        ("1_000 ms", 1_000_000_000),
        ("15000 weeks", 9_072_000_000_000_000_000),
    ] {
        assert_eq!(parse_duration_ns(text), Ok(nanoseconds), "{text}");
    }
    for text in ["", "5", "s", "5 x", "1..2 s", "1 s 2", "1e3 s", "5 months", "99999 weeks", "- s", "1-2 s"] {
        assert!(parse_duration_ns(text).is_err(), "{text}");
    }
    for (text, bytes) in
        [("0", 0), ("512", 512), ("64 KB", 65_536), ("1.5GiB", 1_610_612_736), ("2t", 2 << 40)]
    {
        assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
    }
    for text in ["", "-1", "5 x", "5 MB 3", "MB", "99999999999 TB"] {
        assert!(parse_bytes(text).is_err(), "{text}");
    }
}

/// Statements that are cut and mixed.
const SEEDS: [&str; 9] = [
    "CREATE SOURCE s (a BIGINT NOT NULL, ts AS to_timestamp(a), \
     WATERMARK FOR ts AS ts - INTERVAL '5 seconds') \
     WITH (connector = 'file', path = 'x', rate = 10, header = true, d = INTERVAL '5' SECOND);",
    "CREATE TABLE t (a DECIMAL(10, 2) PRIMARY KEY, b VARCHAR[]) WITH (path = 'y');",
    "CREATE OR REPLACE MATERIALIZED VIEW v PRIMARY KEY (a) AS \
     SELECT a, count(*) FROM s GROUP BY a WITH (x = 1);",
    "CREATE SINK k FROM (SELECT * FROM v) WITH (connector = 'stdout');",
    "INSERT INTO k SELECT CASE WHEN a > 1 THEN 'ä' ELSE $1 END FROM TUMBLE(TABLE(s), ts, INTERVAL '1 s');",
    "SELECT a, \"b\", x'ff', 1e5, lag(a) OVER (PARTITION BY b ORDER BY ts ROWS 2 PRECEDING) \
     FROM 'f.csv' -- end",
    "EXPLAIN ANALYZE SELECT s.a FROM s LEFT JOIN t ON s.a = t.a /* note */ WHERE s.a BETWEEN 1 AND 2;",
    "SET a.b = '20 ms'; SHOW FUNCTIONS; DESCRIBE 'f.csv'; DROP MATERIALIZED VIEW IF EXISTS v;",
    "SELECT U&'\\0061', N'x', E'\\n', $$a$$, a.b.c[1], {'a': 1}, ARRAY[1], \
     a->>'b', b'01', @x FROM `q` LIMIT 5;",
];

/// Nothing panics, all spans are pieces of the text, and each error can be shown.
fn check(text: &str) {
    let (statements, errors) = parse_all(text, "random.sql");
    for statement in &statements {
        assert_eq!(&text[statement.span.bytes()], statement.text);
        let again = parse(&statement.text, "again.sql").unwrap_or_else(|error| panic!("{text:?}\n{error}"));
        assert_eq!(again.len(), 1, "{text:?}");
    }
    for error in &errors {
        assert!(text.get(error.span.bytes()).is_some(), "{text:?}\n{error:?}");
        assert!(error.to_string().starts_with("error: "), "{text:?}");
    }
    let _: bool = is_complete(text);
}

#[test]
fn truncated_statements() {
    for seed in SEEDS {
        for (at, _) in seed.char_indices() {
            check(&seed[..at]);
            check(&seed[at..]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_text(text in "[ -~\\n\\tä日🎈';\"()/*-]{0,100}") {
        check(&text);
    }

    #[test]
    fn random_pieces(pieces in prop::collection::vec((0..SEEDS.len(), 0..40_usize, 1..4_usize), 1..12)) {
        let mut text = String::new();
        for (seed, from, count) in pieces {
            let words = SEEDS[seed].split_inclusive([' ', '(', ')', ',']).skip(from).take(count);
            text.extend(words);
        }
        check(&text);
    }

    #[test]
    fn one_character_changed(
        seed in 0..SEEDS.len(), at in any::<prop::sample::Index>(), char in any::<char>()
    ) {
        let mut chars: Vec<char> = SEEDS[seed].chars().collect();
        let at = at.index(chars.len());
        chars[at] = char;
        check(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn durations_of_any_text(text in "[0-9a-z .µ_+-]{0,20}") {
        let _ = parse_duration_ns(&text);
        let _ = parse_bytes(&text);
    }
}
