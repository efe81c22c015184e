//! Names of columns: what a column without a name is called, equal names, and names with capitals.

use std::path::PathBuf;

use crate::language::support::{names, planner, run, shown};
use tidemill_sql::Planner;

#[test]
fn columns_may_have_equal_names() {
    let mut planner = planner();
    for (query, header, first) in [
        ("SELECT id, id FROM t", vec!["id", "id"], "0 0"),
        ("SELECT count(*), count(*) FROM t", vec!["count(*)", "count(*)"], "4 4"),
        ("SELECT id AS x, k AS x FROM t", vec!["x", "x"], "0 0"),
        ("SELECT id, id AS c FROM t UNION ALL SELECT id, id FROM u", vec!["id", "c"], "0 0"),
        ("SELECT id, id FROM t UNION ALL SELECT id, w FROM u", vec!["id", "id"], "0 0"),
        ("SELECT *, id FROM u", vec!["id", "w", "id"], "0 0 0"),
        ("SELECT id, u.* FROM u", vec!["id", "id", "w"], "0 0 0"),
        ("SELECT t.id, u.id FROM t JOIN u ON t.id = u.id", vec!["id", "id"], "0 0"),
        ("SELECT id, id FROM t ORDER BY 2 DESC LIMIT 1", vec!["id", "id"], "3 3"),
        ("SELECT id, id FROM t ORDER BY id DESC LIMIT 1", vec!["id", "id"], "3 3"),
        ("SELECT k, k, sum(id) FROM t GROUP BY k", vec!["k", "k", "sum(id)"], "0 0 2"),
        ("SELECT id FROM (SELECT id, id FROM t)", vec!["id"], "0"),
        ("SELECT * FROM (SELECT id, id FROM t)", vec!["id", "id"], "0 0"),
        ("SELECT DISTINCT k, k FROM t", vec!["k", "k"], "0 0"),
        ("SELECT 1, 1", vec!["1", "1"], "1 1"),
        ("SELECT id + 1, id + 1 FROM t", vec!["id + 1", "id + 1"], "1 1"),
        ("SELECT CAST(id AS VARCHAR), id FROM t", vec!["CAST(id AS VARCHAR)", "id"], "0 0"),
    ] {
        let rows = run(&mut planner, query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(names(&rows), header, "{query}");
        assert_eq!(shown(&rows)[0], first, "{query}");
    }
    let error = run(&mut planner, "SELECT x FROM (SELECT id AS x, k AS x FROM t)").unwrap_err();
    assert!(error.contains("column `x` exists more than once"), "{error}");
}

#[test]
fn casts_of_one_column_are_different_keys() {
    let mut planner = planner();
    for (query, count, header) in [
        (
            "SELECT CAST(at AS DATE), CAST(at AS TIME), count(*) FROM t GROUP BY 1, 2",
            4,
            vec!["CAST(at AS DATE)", "CAST(at AS TIME)", "count(*)"],
        ),
        ("SELECT CAST(at AS DATE) AS d, at::TIME AS s FROM t GROUP BY d, s", 4, vec!["d", "s"]),
        ("SELECT count(*) AS n FROM t GROUP BY CAST(id AS VARCHAR), id", 4, vec!["n"]),
        ("SELECT id, CAST(id AS VARCHAR) AS c FROM t GROUP BY CAST(id AS VARCHAR), id", 4, vec!["id", "c"]),
        (
            "SELECT sum(CAST(id AS DOUBLE)) AS a, sum(CAST(id AS DECIMAL(10, 1))) AS b FROM t",
            1,
            vec!["a", "b"],
        ),
        (
            "SELECT CAST(at AS DATE), CAST(at AS TIME) FROM t GROUP BY 1, 2 HAVING CAST(at AS TIME) > TIME '00:00:01'",
            2,
            vec!["CAST(at AS DATE)", "CAST(at AS TIME)"],
        ),
        (
            "SELECT CAST(at AS DATE), CAST(at AS TIME) FROM t GROUP BY CAST(at AS DATE), CAST(at AS TIME)
             ORDER BY CAST(at AS TIME) LIMIT 3",
            3,
            vec!["CAST(at AS DATE)", "CAST(at AS TIME)"],
        ),
    ] {
        let rows = run(&mut planner, query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(
            (rows.num_rows(), names(&rows)),
            (count, header.iter().map(|name| name.to_string()).collect())
        );
    }
}

#[test]
fn a_column_is_found_by_its_number() {
    let mut planner = planner();
    let query = "SELECT k, round(avg(id + 0.25), 1) FROM t GROUP BY k ORDER BY 2 DESC";
    let rows = run(&mut planner, query).unwrap();
    assert_eq!(names(&rows), ["k", "round(avg(id + 0.25), 1)"]);
    assert_eq!(shown(&rows), ["0 1.3", "1 2.3"]);
    let rows = run(&mut planner, "SELECT k, sum(id) * 2 FROM t GROUP BY 1 ORDER BY 2 LIMIT 1").unwrap();
    assert_eq!(shown(&rows), ["0 4"]);
}

#[test]
fn what_cannot_hold_equal_names_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for (script, says) in [
        ("CREATE VIEW v AS SELECT id, id FROM t", "two columns of view v have the name `id`"),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT id, k AS id FROM t",
            "two columns of view v have the name `id`",
        ),
        (
            "CREATE VIEW v AS SELECT * FROM t JOIN u ON t.id = u.id",
            "two columns of view v have the name `id`",
        ),
    ] {
        let mut planner = planner();
        let error = run(&mut planner, script).unwrap_err();
        assert!(error.contains(says) && error.contains("with AS"), "{error}");
    }
    for ending in ["parquet", "json", "arrow"] {
        let path = folder.path().join(format!("rows.{ending}"));
        let mut planner = planner();
        let script = format!("CREATE SINK s WITH (path = '{}') AS SELECT id, k AS id FROM t", path.display());
        run(&mut planner, &script).unwrap_err();
        let error = match planner.pipeline().and_then(|pipeline| pipeline.unwrap().open()) {
            Err(cause) => cause.to_string(),
            Ok(_) => panic!("{ending} takes equal names"),
        };
        assert!(error.contains("two columns are named 'id'") && error.contains("with AS"), "{error}");
        assert!(!path.exists(), "{ending}: a file was made");
    }
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn names_with_capitals_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "people.csv", "Id,Full Name,AGE\n1,ann,30\n2,bob,40\n");
    let file = format!("'{}'", path.display());
    let mut planner = Planner::new();
    for (query, expected) in [
        ("SELECT Id FROM $", vec!["1", "2"]),
        ("SELECT id, age FROM $ WHERE aGe > 35", vec!["2 40"]),
        ("SELECT p.id FROM $ AS p ORDER BY p.ID DESC LIMIT 1", vec!["2"]),
        ("SELECT \"Id\" FROM $", vec!["1", "2"]),
        ("SELECT max(age) FROM $ GROUP BY id > 0 HAVING max(Age) > 0", vec!["40"]),
        ("SELECT a.id FROM $ a JOIN $ b ON a.id = b.ID", vec!["1", "2"]),
        ("SELECT id FROM (SELECT ID FROM $)", vec!["1", "2"]),
        ("SELECT age AS \"Total\" FROM $ ORDER BY total LIMIT 1", vec!["30"]),
    ] {
        let query = query.replace('$', &file);
        let rows = run(&mut planner, &query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(shown(&rows), expected, "{query}");
    }
    let declared = format!(
        "CREATE SOURCE s (\"Id\" BIGINT, age BIGINT, older AS Age + Id) WITH (path = {file}); SELECT id, older FROM s"
    );
    assert_eq!(shown(&run(&mut planner, &declared).unwrap()), ["1 31", "2 42"]);
    let error = run(&mut planner, &format!("SELECT \"ID\" FROM {file}")).unwrap_err();
    assert!(error.contains("unknown column `ID`"), "{error}");
    // Two columns that differ in nothing but case must be named as they are.
    let both = "CREATE VIEW two AS SELECT value AS \"Ab\", value + 1 AS \"aB\" FROM sequence(count => 1)";
    run(&mut planner, both).unwrap_err();
    let error = run(&mut planner, "SELECT ab FROM two").unwrap_err();
    assert!(error.contains("unknown column `ab`"), "{error}");
}

#[test]
fn clauses_find_names_with_capitals_as_expressions_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "people.csv", "Id,Ts,AGE\n1,2026-01-01 00:00:00,30\n2,2026-01-01 00:00:01,40\n");
    let file = format!("'{}'", path.display());
    let mut planner = Planner::new();
    for (query, expected) in [
        ("SELECT a.age FROM $ a JOIN $ b USING (Id)", vec!["30", "40"]),
        ("SELECT count(*) FROM $ a JOIN ($ b JOIN $ c USING (ID)) ON a.id = b.id", vec!["2"]),
        ("SELECT * EXCLUDE (Ts, age) FROM $", vec!["1", "2"]),
        ("SELECT * EXCLUDE TS FROM $ WHERE Id = 1", vec!["1 30"]),
        ("SELECT * EXCEPT (ID, Ts) FROM $", vec!["30", "40"]),
        ("SELECT * EXCLUDE (\"Ts\") FROM $ WHERE Id = 1", vec!["1 30"]),
        ("SELECT * EXCLUDE (ts) REPLACE (age + 1 AS Age) FROM $", vec!["1 31", "2 41"]),
        ("SELECT p.* EXCLUDE (ts) REPLACE (0 AS age) FROM $ AS p", vec!["1 0", "2 0"]),
        ("SELECT * EXCLUDE (W) FROM u", vec!["0", "1", "2"]),
        ("SELECT * REPLACE (W + 1 AS W) FROM u WHERE Id = 2", vec!["2 21"]),
        ("SELECT t.k FROM t JOIN u USING (ID) WHERE w = 10", vec!["1"]),
        (
            "SELECT count(*) FROM tumble(TABLE(s), Ts, INTERVAL '1 second') GROUP BY window_start",
            vec!["1", "1"],
        ),
        ("SELECT age FROM k WHERE id = 2", vec!["40"]),
    ] {
        let mut planner = self::planner();
        let defined = format!(
            "CREATE SOURCE s (WATERMARK FOR Ts AS ts - INTERVAL '1 second') WITH (path = {file});
             CREATE TABLE k (PRIMARY KEY (ID)) WITH (path = {file});"
        );
        run(&mut planner, &defined).unwrap_err();
        let query = query.replace('$', &file);
        let rows = run(&mut planner, &query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(shown(&rows), expected, "{query}");
    }
    let view = format!("CREATE MATERIALIZED VIEW m PRIMARY KEY (iD) AS SELECT * FROM {file}");
    assert_eq!(run(&mut planner, &view).unwrap_err(), "no rows");
    // DataFusion would silently ignore these.
    for (query, name) in [
        ("SELECT * REPLACE (1 AS nothing) FROM $", "nothing"),
        ("SELECT * REPLACE (1 AS \"ID\") FROM $", "ID"),
        ("SELECT p.* REPLACE (1 AS nothing) FROM $ AS p", "p.nothing"),
        ("SELECT * EXCLUDE (nothing) FROM $", "nothing"),
        ("SELECT a.age FROM $ a JOIN $ b USING (nothing)", "nothing"),
    ] {
        let error = run(&mut planner, &query.replace('$', &file)).unwrap_err();
        assert!(error.contains(&format!("unknown column `{name}`")), "{query}: {error}");
    }
}

#[test]
fn the_delimiter_that_describe_finds_is_the_one_that_select_reads_with() {
    let folder = tempfile::tempdir().unwrap();
    let mut planner = Planner::new();
    for (name, delimiter) in [("a.csv", ';'), ("b.csv", '\t'), ("c.csv", '|'), ("d.txt.csv", ',')] {
        let text = "id,name,price\n1,ann,1.5\n2,bob,2.5\n".replace(',', &delimiter.to_string());
        let path = file(&folder, name, &text);
        let query = format!("SELECT id, price FROM '{}'", path.display());
        assert_eq!(shown(&run(&mut planner, &query).unwrap()), ["1 1.5", "2 2.5"], "{delimiter:?}");
        let source =
            format!("CREATE OR REPLACE SOURCE s WITH (path = '{}'); SELECT name FROM s", path.display());
        assert_eq!(shown(&run(&mut planner, &source).unwrap()), ["ann", "bob"], "{delimiter:?}");
    }
}

#[test]
fn a_header_may_have_equal_names_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut planner = Planner::new();
    let path = file(&folder, "twice.csv", "a,a,b\n1,2,3\n4,5,6\n");
    let rows = run(&mut planner, &format!("SELECT * FROM '{}'", path.display())).unwrap();
    assert_eq!(
        (names(&rows), shown(&rows)),
        (vec!["a".into(), "a_2".into(), "b".into()], vec!["1 2 3".into(), "4 5 6".into()])
    );
    let rows = run(&mut planner, &format!("SELECT a_2 FROM '{}'", path.display())).unwrap();
    assert_eq!(shown(&rows), ["2", "5"]);
    let path = file(&folder, "index.csv", ",x,y\n0,1.5,a\n1,2.5,b\n");
    let rows = run(&mut planner, &format!("SELECT * FROM '{}'", path.display())).unwrap();
    assert_eq!(names(&rows), ["column_1", "x", "y"]);
    assert_eq!(rows.num_rows(), 2);
    // Texts without anything that tells a header from them are data.
    let path = file(&folder, "texts.csv", "x,x\na,b\nx,c\n");
    let rows = run(&mut planner, &format!("SELECT * FROM '{}'", path.display())).unwrap();
    assert_eq!(rows.num_rows(), 3);
}
