//! Files of other machines in SQL, from a small server of this test: queries, tables, durable sources, and what is never shown.
#![cfg(feature = "sql")]

use std::fs;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::support::*;
use tidemill_testing::file_server::{Server, part, say};

const SECRET: &str = "hunter2-of-the-environment";
const WRITTEN: &str = "hunter3-in-the-statement";

/// Three prices, for those who have the token.
fn prices() -> Server {
    Server::start(|request, stream| {
        let is_allowed = request.header("x-token") == Some(SECRET) || request.path.contains(WRITTEN);
        match request.path.split('?').next() {
            _ if !is_allowed => say(stream, "403 Forbidden", "", SECRET.as_bytes()),
            Some("/prices.csv") => {
                part(request, stream, b"city,price\nOslo,9.5\nBergen,7\nOslo,8.25\n", "\"one\"")
            }
            _ => say(stream, "404 Not Found", "", SECRET.as_bytes()),
        }
    })
}

/// Runs a script with the secret in the environment, and checks that nothing that is said or kept has it.
#[track_caller]
fn run(folder: &std::path::Path, arguments: &[&str]) -> Ended {
    let ended: Ended = tidemill(folder, arguments)
        .env("TIDEMILL_TEST_TOKEN", SECRET)
        .output()
        .expect("the command starts")
        .into();
    for secret in [SECRET, WRITTEN] {
        assert!(!ended.stdout.contains(secret) && !ended.stderr.contains(secret), "{ended:?}");
    }
    ended
}

#[test]
fn a_query_reads_a_url_and_shows_no_secret_of_it() {
    let folder = folder_with(&[]);
    let server = prices();
    let url = server.url(&format!("prices.csv?token={WRITTEN}"));
    let sums = format!("SELECT city, sum(price) AS price FROM '{url}' GROUP BY city ORDER BY city");
    let answered = run(folder.path(), &["sql", "--format", "csv", "-c", &sums]).expect(0);
    assert_eq!(answered.stdout, "city,price\nBergen,7.0\nOslo,17.75\n");
    run(folder.path(), &["sql", "-c", &format!("EXPLAIN {sums}")]).expect(0).shows(&["/prices.csv"]);
    let none = sums.replace("prices.csv", "none.csv");
    run(folder.path(), &["sql", "-c", &none])
        .expect(2)
        .tells(&["/none.csv: the server answers 404 Not Found"]);
    let wrong = sums.replace("sum(price)", "sum(prize)");
    run(folder.path(), &["sql", "-c", &wrong]).expect(2).tells(&["prize"]);
}

#[test]
fn sources_and_tables_take_options() {
    let server = prices();
    let url = server.url("prices.csv");
    let script = format!(
        "CREATE SOURCE prices WITH (path = '{url}', headers = 'X-Token: ${{TIDEMILL_TEST_TOKEN}}');\n\
         CREATE TABLE cities (city TEXT, price DOUBLE) WITH (path = '{url}?t=${{TIDEMILL_TEST_TOKEN}}', \
         headers = 'X-Token: ${{TIDEMILL_TEST_TOKEN}}');\n\
         CREATE SINK pairs WITH (path = 'pairs.csv') AS \
         SELECT p.city, c.price FROM prices p JOIN cities c ON p.city = c.city AND p.price <> c.price;\n"
    );
    let folder = folder_with(&[("p.sql", script.as_str())]);
    run(folder.path(), &["run", "p.sql", "--verbose"]).expect(0);
    let mut rows = rows_of(&folder.path().join("pairs.csv"));
    rows.sort();
    assert_eq!(rows, ["Oslo,8.25", "Oslo,9.5"]);
    run(folder.path(), &["explain", "p.sql"]).expect(0);
    for (options, told) in [
        ("", "check the token in headers = '...', and its rights"),
        (", headers = 'x'", "header 1 has no colon"),
        (", headers = 'Host: ${TIDEMILL_TEST_TOKEN}'", "the header 'Host' cannot be used"),
        (", follow = true", "fetched once and not followed"),
        (", s3_secret_key = '${TIDEMILL_TEST_TOKEN}'", "it belongs to an access key"),
        (", timeout = '0 s'", "nothing is fetched in no time"),
        (", tls_ca = 'none.pem', tls_key = 'none.key'", "a key needs its certificate"),
    ] {
        let statement = format!("CREATE SOURCE p WITH (path = '{url}'{options})");
        run(folder.path(), &["sql", "-c", &statement]).expect(2).tells(&[told]);
    }
    for (statement, told) in [
        ("CREATE SOURCE p WITH (path = 'a.csv', download_max = '1 MB')", "the path is not a URL"),
        ("CREATE SOURCE p WITH (path = 'https://h/*.csv')", "which files match a pattern"),
        ("CREATE SOURCE p WITH (path = 'https://me:hunter2@h/a.csv')", "give them in headers"),
        (
            "CREATE SINK s WITH (path = 'https://h/a.csv') AS SELECT 1 AS one",
            "files are written on this machine only",
        ),
    ] {
        run(folder.path(), &["sql", "-c", statement]).expect(2).tells(&[told]);
    }
}

#[test]
fn a_durable_source_continues_where_it_was() {
    let content = Arc::new(Mutex::new("n\n1\n2\n".to_owned()));
    let served = Arc::clone(&content);
    let server = Server::start(move |request, stream| {
        let content = served.lock().clone();
        part(request, stream, content.as_bytes(), &format!("\"{}\"", content.len()))
    });
    let script = format!(
        "CREATE SOURCE numbers (n BIGINT) WITH (path = '{}', durable = true);\n\
         CREATE SINK all_numbers WITH (path = 'all.csv') AS SELECT n FROM numbers;\n",
        server.url(&format!("numbers.csv?token={WRITTEN}"))
    );
    let folder = folder_with(&[("p.sql", script.as_str())]);
    let rows = || rows_of(&folder.path().join("all.csv"));
    run(folder.path(), &["run", "p.sql"]).expect(0);
    assert_eq!(rows(), ["1", "2"]);
    *content.lock() = "n\n1\n2\n3\n".to_owned();
    run(folder.path(), &["run", "p.sql"]).expect(0);
    assert_eq!(rows(), ["1", "2", "3"]);
    *content.lock() = "n\n4\n5\n6\n7\n".to_owned();
    run(folder.path(), &["run", "p.sql"])
        .expect(2)
        .tells(&["the file has changed since its rows were journaled"]);
    assert_eq!(rows(), ["1", "2", "3"]);
    // Nothing that is kept has what the URL holds besides the place of the file.
    for entry in fs::read_dir(folder.path().join("p.journal")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && path.extension().is_none_or(|ending| ending != "sql") {
            let bytes = fs::read(&path).unwrap();
            let found = bytes.windows(WRITTEN.len()).any(|piece| piece == WRITTEN.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}
