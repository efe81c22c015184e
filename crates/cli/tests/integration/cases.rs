//! `tidemill test`: cases of a pipeline, with rows and a clock of their own.
#![cfg(feature = "sql")]

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::support::*;

const VISITS: &str = "CREATE SOURCE clicks (
        at TIMESTAMP, who VARCHAR, page VARCHAR, WATERMARK FOR at AS at - INTERVAL '1 minute'
    ) WITH (path = 'nowhere.csv');
CREATE SINK visits AS
    SELECT who, window_start AS began, count(*) AS clicks
    FROM session(TABLE(clicks), at, INTERVAL '10 minutes') GROUP BY who, window_start, window_end
WITH (path = 'visits.csv');
CREATE MATERIALIZED VIEW pages AS SELECT page, count(*) AS n, avg(length(page)) AS long FROM clicks GROUP BY page;
";
const CLICKS_ROWS: &str = "=== rows clicks
at,who,page
2026-03-01 12:00:00,ada,/
2026-03-01 12:00:40,bob,/
2026-03-01 12:05:00,ada,/shoes
2026-03-01 12:30:00,ada,/
";
const EXPECTED: &str = "=== expect visits
who,began,clicks
ada,2026-03-01 12:00:00,2
ada,2026-03-01 12:30:00,1
bob,2026-03-01 12:00:40,1
";

/// A folder with a script `p.sql` and its cases.
fn folder(script: &str, cases: &[(&str, &str)]) -> TempDir {
    let folder = folder_with(&[("p.sql", script)]);
    fs::create_dir(folder.path().join("p.cases")).unwrap();
    for (name, text) in cases {
        write(folder.path(), name, text);
    }
    folder
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(format!("p.cases/{name}.case")), text).unwrap();
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(format!("p.cases/{name}.case"))).unwrap()
}

/// Tests one case, which must end with this code; returns what was said.
#[track_caller]
fn test(script: &str, case: &str, code: i32) -> Ended {
    let folder = folder(script, &[("a", case)]);
    let ended = ended(folder.path(), &["test", "p.sql"]).expect(code);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing outside is touched: {left:?}");
    ended
}

#[test]
fn rows_in_give_rows_out_of_sinks_and_views_and_nothing_is_opened() {
    let case =
        format!("Visits.\n\n{CLICKS_ROWS}\n{EXPECTED}\n=== expect pages exact\npage,n\n/,3\n/shoes,1\n");
    test(VISITS, &case, 0).shows(&["p.cases/a.case: passed"]).tells(&["1 case: 1 passed, 0 failed"]);
}

#[test]
fn a_difference_is_shown_with_its_line_and_the_run_that_differs() {
    let wrong = EXPECTED.replace("bob,2026-03-01 12:00:40,1", "bob,2026-03-01 12:00:40,2");
    let ended = test(VISITS, &format!("{CLICKS_ROWS}\n{wrong}"), 3);
    ended.shows(&[
        "a.case: FAILED",
        "line 8: 'visits' has other rows (who,began,clicks)",
        "- bob,2026-03-01 12:00:40,2\n",
        "+ bob,2026-03-01 12:00:40,1\n",
        "(1 worker, cycles of 1 row; all runs differ)",
    ]);
}

#[test]
fn rows_are_compared_by_the_columns_that_are_named_in_the_mode_that_is_asked_for() {
    for (expected, code) in [
        ("=== expect pages\nn\n3\n1\n", 0),
        ("=== expect pages subset\npage,n\n/,3\n", 0),
        ("=== expect pages subset\npage,n\n/,2\n", 3),
        ("=== expect pages\npage,n\n/,3\n", 3),
        ("=== expect pages within 0.5\npage,long\n/,1.4\n/shoes,6.2\n", 0),
        ("=== expect pages within 0.1\npage,long\n/,1.4\n/shoes,6.2\n", 3),
        ("=== expect pages\n{\"page\": \"/\", \"n\": 3}\n{\"n\": 1, \"page\": \"/shoes\"}\n", 0),
        ("=== expect pages\n", 3),
    ] {
        test(VISITS, &format!("{CLICKS_ROWS}\n{expected}"), code);
    }
}

#[test]
fn rows_and_expectations_may_be_in_files() {
    let case = "=== rows clicks from clicks.csv\n=== expect visits from expected.csv\n";
    let folder = folder(VISITS, &[("a", case)]);
    let body = |section: &str| section.split_once('\n').unwrap().1.to_owned();
    fs::write(folder.path().join("p.cases/clicks.csv"), body(CLICKS_ROWS)).unwrap();
    fs::write(folder.path().join("p.cases/expected.csv"), body(EXPECTED)).unwrap();
    ended(folder.path(), &["test", "."]).expect(0);
    fs::write(folder.path().join("p.cases/clicks.csv"), "at,who\nnoon,ada\n").unwrap();
    let wrong = ended(folder.path(), &["test", "."]).expect(2);
    wrong.shows(&["clicks.csv, line 2: column 'at': 'noon' is not a TIMESTAMP"]);
}

#[test]
fn what_is_wrong_with_a_case_is_named_with_line_reason_and_remedy() {
    for (case, expected) in [
        (
            "=== rows clicks\nat,whom\n",
            "line 2: source 'clicks' has no column 'whom'; did you mean 'who'? there is at, who, page",
        ),
        ("=== rows clicks\nat,who\n1,2,3\n", "a.case, line 3: "),
        ("=== rows clicks\nat,who\n\"2026\n", "a.case, line 3: "),
        ("=== rows clicks\n{\"at\": \n", "line 2: it is not a JSON object"),
        ("=== rows click\nat\n", "line 1: the script has no source 'click'; did you mean 'clicks'?"),
        (
            "=== expect visit\nwho\n",
            "line 1: the script has no sink or materialized view 'visit'; did you mean 'visits'?",
        ),
        ("=== expect visits\nwhom\n", "line 2: 'visits' has no column 'whom'; did you mean 'who'?"),
        ("=== expect visits\nclicks\nmany\n", "line 3: column 'clicks': 'many' is not a BIGINT"),
        ("=== expected visits\n", "line 1: 'expected' is not a section; did you mean 'expect'?"),
        ("=== at 2026-03-02 00:00:00\n=== at 2026-03-01 00:00:00\n", "line 2: the clock does not go back"),
        ("", "line 1: there is no section"),
    ] {
        test(VISITS, case, 2).shows(&["a.case: WRONG", expected]).tells(&["1 wrong"]);
    }
}

#[test]
fn scripts_without_cases_and_cases_that_are_not_there_are_refused() {
    let folder = folder_with(&[("p.sql", VISITS)]);
    let folder = folder.path();
    ended(folder, &["test", "p.sql"])
        .expect(2)
        .tells(&["'p.sql' has no cases; put them into the folder 'p.cases'"]);
    ended(folder, &["test", "."]).expect(2).tells(&["no script in '.' has cases"]);
    ended(folder, &["test", "q.sql"]).expect(2).tells(&["there is no file 'q.sql'"]);
    ended(folder, &["test", "p.sql", "a.case"]).expect(2).shows(&["a.case: it cannot be read"]);
    ended(folder, &["test", "p.sql", "--workers", "0"]).expect(2);
    ended(folder, &["test", "p.sql", "--cycle-rows", "0"]).expect(2).tells(&["from 1 to 1000000 rows"]);
}

#[test]
fn an_answer_that_depends_on_the_cycles_is_a_fault() {
    let script = "CREATE SOURCE a (n BIGINT) WITH (connector = 'stdin', format = 'csv');
        CREATE SOURCE b (n BIGINT) WITH (connector = 'tcp', listen = '127.0.0.1:1', format = 'csv');
        CREATE MATERIALIZED VIEW newest AS SELECT last_value(n) AS n
            FROM (SELECT n FROM a UNION ALL SELECT n FROM b) AS both;";
    let rows = "=== rows a\nn\n1\n=== rows b\nn\n2\n=== rows a\nn\n3\n";
    let ended = test(script, rows, 3);
    ended.shows(&[
        "the answer depends on how the pipeline is run: 'newest' has other rows (n)",
        "- 3\n",
        "+ 2\n",
        "- 1 worker, cycles of 1 row\n",
        "+ 1 worker, cycles of 10 rows\n",
    ]);
    // Where the case says where cycles end, nothing is left to chance.
    let cut = rows.replace("=== rows", "=== cycle\n=== rows");
    test(script, &format!("{cut}\n=== expect newest\nn\n3\n"), 0);
}

const ALARMS: &str = "CREATE SOURCE beats (
        machine VARCHAR, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '10 seconds'
    ) WITH (connector = 'http', listen = 'http://127.0.0.1:${PORT_OF_NOBODY}', format = 'json',
        dead_letters = 'bad.json');
    CREATE SOURCE others (machine VARCHAR, at TIMESTAMP, WATERMARK FOR at AS at)
        WITH (connector = 'stdin', format = 'csv', idle_after = '30 s');
    CREATE SINK counts AS SELECT window_start AS began, count(*) AS n
        FROM tumble(TABLE(beats), at, INTERVAL '1 minute') GROUP BY window_start
        WITH (connector = 'http', url = 'http://127.0.0.1:1/', headers = 'Authorization: Bearer ${TOKEN_OF_NOBODY}');
    CREATE SINK pairs AS SELECT window_start AS began, count(*) AS n
        FROM tumble(TABLE(everything), at, INTERVAL '1 minute') GROUP BY window_start WITH (path = 'pairs.csv');
    CREATE MATERIALIZED VIEW fresh AS SELECT machine FROM beats WHERE at > now() - INTERVAL '1 minute';";

fn alarms() -> String {
    let union =
        "CREATE VIEW everything AS SELECT at FROM beats UNION ALL SELECT at FROM others; CREATE SINK pairs";
    ALARMS.replacen("CREATE SINK pairs", union, 1)
}

#[test]
fn the_case_says_what_time_it_is_and_which_sources_are_silent() {
    let rows = "=== at 2026-03-01 12:00:30\n=== rows others\nmachine,at\nc,2026-03-01 12:00:00\n\
                === rows beats\nmachine,at\na,2026-03-01 12:00:10\nb,2026-03-01 12:00:20\n\
                === at +60 s\n=== rows beats\nmachine,at\na,2026-03-01 12:01:20\n";
    // At the end of the first minute, `others` has said nothing for a minute, which is longer than its idle_after.
    let expected = "=== expect fresh\nmachine\na\n=== expect counts\nbegan,n\n2026-03-01 12:00:00,2\n\
                    === expect pairs\nbegan,n\n2026-03-01 12:00:00,3\n";
    test(&alarms(), &format!("{rows}=== at +10 s\n=== stop\n{expected}"), 0);
    // If the clock stands still, it holds the others back.
    let still = rows.replace("=== at +60 s\n", "");
    let none = "=== expect pairs\nbegan,n\n=== expect counts\nn\n2\n";
    test(&alarms(), &format!("{still}=== stop\n{none}"), 0);
    // Unless the case says that it is idle.
    let idle = "=== idle others\n=== cycle\n=== stop\n=== expect pairs\nn\n3\n";
    test(&alarms(), &format!("{still}{idle}"), 0);
}

#[test]
fn late_rows_dead_letters_and_rows_ahead_of_the_clock_are_expected_by_name() {
    let input = "=== at 2026-03-01 12:00:00\n=== text beats\n{\"machine\": \"a\", \"at\": \"2026-03-01 12:00:00\"}\n\
                 {\"machine\": \"a\", \"at\": \"noon\"}\n{\"machine\": \"a\", \"at\": \"2026-03-01 11:58:00\"}\n\
                 {\"machine\": \"a\", \"at\": \"2026-03-02 12:00:00\"}\n";
    let letters = r#"=== dead letters beats
reason,record
is not a TIMESTAMP,"{""machine"": ""a"", ""at"": ""noon""}"
"this machine's clock, which says 2026-03-01 12:00:00","{""machine"":""a"",""at"":""2026-03-02T12:00:00""}"
"#;
    test(&alarms(), &format!("{input}{letters}=== late 1\n=== expect counts\nn\n1\n"), 0);
    let missing = test(&alarms(), &format!("{input}=== late 1\n"), 3);
    missing.shows(&[
        "source 'beats' has records that could not be used; expect them with === dead letters beats:",
    ]);
    test(&alarms(), &format!("{input}{letters}=== late 2\n"), 3).shows(&["1 row came too late"]);
    let fewer: Vec<&str> = letters.lines().take(3).collect();
    test(&alarms(), &format!("{input}{}\n=== late 1\n", fewer.join("\n")), 3)
        .shows(&["the dead letters are others"]);
    // Without a time of its own, the case has none that rows could be ahead of.
    let timeless = input.split_once('\n').unwrap().1;
    test(&alarms(), &format!("{timeless}=== dead letters beats\nreason\nis not a TIMESTAMP\n"), 0);
}

#[test]
fn a_refusal_is_expected_with_its_reason() {
    let endless = "CREATE SOURCE a (n BIGINT) WITH (connector = 'stdin', format = 'csv');
        CREATE SINK s AS SELECT m FROM a WITH (path = 's.csv');";
    test(endless, "=== refused\nno field named m\n", 3).shows(&["another reason is given"]);
    let reason = test(endless, "=== rows a\nn\n1\n", 3).stdout;
    assert!(reason.contains("the pipeline is refused: "), "{reason}");
    let run = "CREATE SOURCE a (n BIGINT) WITH (connector = 'stdin', format = 'csv');
        CREATE SINK s AS SELECT 10 / n AS n FROM a WITH (path = 's.csv');";
    test(run, "=== rows a\nn\n5\n=== refused\nanything\n", 3).shows(&["the pipeline is not refused"]);
    let zero = "=== rows a\nn\n0\n5\n=== expect s\nn\n2\n\n";
    let failed = test(run, zero, 3);
    failed.shows(&["expect that with === failed rows"]);
}

#[test]
fn a_pipeline_that_never_ends_is_refused() {
    let script = "CREATE SINK s AS SELECT value FROM sequence() WITH (path = 's.csv');";
    test(script, "=== expect s\n", 3)
        .shows(&["the pipeline reads 'sequence' within a query, and that never ends", "CREATE SOURCE"]);
    // As a source, the case stands in for it; and what ends by itself is read.
    let script = "CREATE SOURCE n WITH (connector = 'generator', function = 'sequence');
        CREATE SINK s AS SELECT value FROM n WITH (path = 's.csv');
        CREATE MATERIALIZED VIEW three AS SELECT sum(value) AS n FROM sequence(count => 3);";
    test(
        script,
        "=== rows n\nvalue,event_time\n7,2026-01-01\n\n=== expect s\nvalue\n7\n\n=== expect three\nn\n3\n",
        0,
    );
}

#[test]
fn tables_are_read_before_the_streams_wherever_they_stand() {
    let script = "CREATE SOURCE orders (id BIGINT, item VARCHAR) WITH (connector = 'stdin', format = 'csv');
        CREATE TABLE items (item VARCHAR, price DOUBLE) WITH (path = 'nowhere.csv');
        CREATE SINK s AS SELECT id, price FROM orders JOIN items ON orders.item = items.item WITH (path = 's.csv');";
    let case = "=== rows orders\nid,item\n1,a\n2,b\n=== rows items\nitem,price\na,1.5\n\n\
                === expect s\nid,price\n1,1.5\n";
    test(script, case, 0);
}

#[test]
fn of_rows_that_are_replaced_or_come_and_go_those_count_that_are_there_at_the_end() {
    let script = "CREATE SOURCE prices (item VARCHAR, price DOUBLE, gone BOOLEAN, PRIMARY KEY (item))
            WITH (connector = 'stdin', format = 'json', changes = 'upsert', deleted = 'gone');
        CREATE SOURCE \"Orders X\" (id BIGINT, note VARCHAR, tags BIGINT[]) WITH (connector = 'stdin', format = 'json');
        CREATE MATERIALIZED VIEW prices_now AS SELECT item, price FROM prices;
        CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM \"Orders X\";
        CREATE SINK changes FROM prices_now WITH (connector = 'stdout', format = 'json', emit = 'changes');
        CREATE SINK by_note AS SELECT note, count(*) AS n FROM \"Orders X\" GROUP BY note WITH (path = 'n.csv');
        CREATE SINK notes WITH (path = 'x.json');
        INSERT INTO notes SELECT id, note, tags FROM \"Orders X\";";
    let rows = r#"=== rows prices
{"item": "a", "price": 1.5}
{"item": "b", "price": 2}
{"item": "a", "gone": true}
{"item": "b", "price": 3}
=== rows "Orders X"
{"id": 1, "note": "", "tags": [1, 2]}
{"id": 2, "note": null}
{"id": 3, "note": ""}
"#;
    let expected = r#"=== expect prices_now
item,price
b,3
=== expect changes
item,price
b,3.0
=== expect n
n
3
=== expect by_note
note,n
"",2
,1
=== expect notes
{"id": 1, "note": "", "tags": [1, 2]}
{"id": 2, "note": null}
{"id": 3, "note": ""}
"#;
    test(script, &format!("{rows}\n{expected}"), 0);
    test(script, &format!("{rows}\n{}", expected.replace("\"\",2", ",2")), 3);
    // Of nothing, a view over all rows has one.
    test(script, "=== expect n\nn\n0\n=== expect notes\n=== expect by_note\n", 0);
}

#[test]
fn update_writes_what_came_out_and_leaves_the_rest() {
    let case = format!(
        "Visits.\n\n=== at 2026-03-01 12:00:00\n{CLICKS_ROWS}\n=== expect pages\nn,page\n\n=== late 7\n"
    );
    let folder = folder(VISITS, &[("a", &case), ("b", CLICKS_ROWS)]);
    let folder = folder.path();
    ended(folder, &["test", "p.sql", "p.cases/a.case"]).expect(3);
    ended(folder, &["test", "p.sql", "--update"]).expect(0).shows(&["a.case: updated", "b.case: updated"]);
    let before = "Visits.\n\n=== at 2026-03-01 12:00:00\n";
    let after = "=== expect pages\nn,page\n1,/shoes\n3,/\n\n=== late 0\n";
    assert_eq!(read(folder, "a"), format!("{before}{CLICKS_ROWS}\n{after}"));
    // A case that expects nothing gets all that there is.
    let pages = "=== expect pages\npage,n,long\n/,3,1.0\n/shoes,1,6.0\n";
    assert_eq!(read(folder, "b"), format!("{CLICKS_ROWS}\n{pages}\n{EXPECTED}"));
    let again = ended(folder, &["test", "p.sql", "--update"]).expect(0);
    assert!(!again.stdout.contains("updated"), "{}", again.stdout);
    write(folder, "a", "=== rows clicks\nat\nnoon\n");
    ended(folder, &["test", "p.sql", "--update"]).expect(2);
    assert_eq!(read(folder, "a"), "=== rows clicks\nat\nnoon\n");
}

#[test]
fn results_are_written_for_continuous_integration() {
    let cases = [
        ("a", format!("{CLICKS_ROWS}\n{EXPECTED}")),
        ("b", format!("{CLICKS_ROWS}\n=== expect visits\nwho\n<ada>\n")),
        ("c", "=== nothing\n".to_owned()),
    ];
    let folder = folder(VISITS, &cases.each_ref().map(|(name, text)| (*name, text.as_str())));
    let folder = folder.path();
    ended(folder, &["test", "p.sql", "--junit", "out.xml"])
        .expect(2)
        .tells(&["3 cases: 1 passed, 1 failed, 1 wrong"]);
    let xml = fs::read_to_string(folder.join("out.xml")).unwrap();
    for part in [
        "<testsuite name=\"tidemill\" tests=\"3\" failures=\"1\" errors=\"1\"",
        "<testcase classname=\"p.sql\" name=\"p.cases/a.case\"",
        "- &lt;ada&gt;",
        "<error>p.cases/c.case, line 1: &apos;nothing".replace("&apos;", "'").as_str(),
    ] {
        assert!(xml.contains(part), "{part} is not in {xml}");
    }
    ended(folder, &["test", "p.sql", "--junit", "nowhere/out.xml"])
        .expect(2)
        .tells(&["'nowhere/out.xml' cannot be written"]);
}

#[test]
fn coverage_names_what_no_row_has_reached() {
    let script = "CREATE SOURCE a (n BIGINT, word VARCHAR) WITH (connector = 'stdin', format = 'csv');
        CREATE SINK small AS SELECT n FROM a WHERE n < 10 WITH (path = 's.csv');
        CREATE SINK large AS SELECT word, count(*) AS n FROM a WHERE n > 1000 GROUP BY word WITH (path = 'l.csv');";
    let folder = folder(script, &[("a", "=== rows a\nn,word\n1,x\n2,y\n\n=== expect small\nn\n1\n2\n")]);
    let shown = ended(folder.path(), &["test", "p.sql", "--coverage"]).expect(0).stdout;
    let line = |part: &str| {
        let found = shown.lines().find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("{part} is not in {shown}")).to_owned()
    };
    assert!(line("a.n > 1000").ends_with("never gave a row"), "{shown}");
    assert!(line("aggregate").ends_with("never reached"), "{shown}");
    assert!(line("output large").ends_with("never reached"), "{shown}");
    assert!(!line("output small").contains("never"), "{shown}");
}

const ORDERS: &str = "SET journal = 'j';
    CREATE SOURCE orders (id BIGINT, buyer VARCHAR, cents BIGINT) WITH (path = 'orders.csv', durable = true);
    CREATE SINK totals AS SELECT id, buyer, cents FROM orders WHERE cents > 10 WITH (path = 'out.csv');";

#[test]
fn a_case_is_made_of_what_a_pipeline_took_in_with_columns_masked() {
    let orders = "id,buyer,cents\n1,ada,5\n2,\"Bob, B.\",20\n3,,30\n4,ada,40\n";
    let folder = folder_with(&[("p.sql", ORDERS), ("orders.csv", orders)]);
    let folder = folder.path();
    ended(folder, &["run", "p.sql"]).expect(0);
    let cuts = ended(folder, &["journal", "show", "j", "--cuts", "--limit", "1000"]).expect(0).stdout;
    let cycles: Vec<u64> =
        cuts.lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
    let range = format!("{}..{}", cycles[0], cycles[cycles.len() - 1]);
    let from = |more: &[&str]| {
        let arguments = ["test", "p.sql", "--from-journal", "j", "--cycles", &range];
        ended(folder, &[&arguments[..], more].concat())
    };
    from(&["--mask", "buyer,price"]).expect(2).tells(&["no row of these cycles has a column 'price'"]);
    assert!(!folder.join("p.cases").join("a").exists());
    from(&["--mask", "orders.buyer"]).expect(0).shows(&["passed"]);
    let path = fs::read_dir(folder.join("p.cases")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&path).unwrap();
    let rows: Vec<&str> =
        text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).collect();
    let all = ["1,buyer-1,5", "2,buyer-2,20", "3,,30", "4,buyer-1,40"];
    assert_eq!(rows, [&all[..], &all[1..]].concat(), "{text}");
    assert!(!text.contains("ada") && text.contains("=== at 20"), "{text}");
    ended(folder, &["test", "p.sql"]).expect(0);
    from(&[]).expect(2).tells(&["is there already"]);
    for (wrong, why) in [("9..3", "the first cycle comes first"), ("a", "is not the number of a cycle")] {
        ended(folder, &["test", "p.sql", "--from-journal", "j", "--cycles", wrong]).expect(2).tells(&[why]);
    }
    ended(folder, &["test", "p.sql", "--from-journal", "j", "--cycles", "900..901"]).expect(2);
    ended(folder, &["test", "p.sql", "--from-journal", "nowhere", "--cycles", "1..2"]).expect(2);
}
