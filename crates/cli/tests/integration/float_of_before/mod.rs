//! A database of a version in which FLOAT had 4 bytes, as DOUBLE has 8 today. `tides` is what that version left, without the empty
//! space behind the records:
//!
//! ```sql
//! CREATE SOURCE readings (sensor TEXT, v FLOAT, more FLOAT[], both STRUCT<a FLOAT, b DOUBLE>)
//!     WITH (connector='push', durable=true);
//! CREATE MATERIALIZED VIEW most AS
//!     SELECT sensor, max(v) AS most, sum(v) AS total, count(*) AS n FROM readings GROUP BY sensor;
//! CREATE MATERIALIZED VIEW each AS SELECT sensor, v, v * 2 AS twice FROM readings;
//! CREATE MATERIALIZED VIEW converted AS SELECT CAST(v AS FLOAT) AS c, count(*) AS n FROM readings GROUP BY 1;
//! INSERT INTO readings (sensor, v) VALUES ('a', 1.1), ('b', 2.5);
//! ```
#![cfg(unix)]

use std::fs;
use std::path::Path;

use crate::support::child::wait_until;
use crate::support::folder_with;
use crate::support::served::{Served, has_psql};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to)
        } else {
            fs::copy(entry.path(), to).map(drop).unwrap()
        }
    }
}

#[test]
fn columns_that_were_float_stay_as_they_were() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let package = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    copy(&Path::new(&package).join("tests/integration/float_of_before/tides"), &folder.path().join("tides"));
    let mut server = Served::start(folder.path());
    assert_eq!(
        server.psql("DESCRIBE readings"),
        "sensor|VARCHAR\nv|REAL\nmore|REAL[]\nboth|STRUCT<a REAL, b DOUBLE>\n"
    );
    // With their rows, and the state that has 4 bytes, too.
    let most = "SELECT sensor, most, n FROM most ORDER BY sensor";
    wait_until("the rows are there", || server.psql(most) == "a|1.1|1\nb|2.5|1\n");
    assert_eq!(server.psql("SELECT sensor, v, twice FROM each ORDER BY sensor"), "a|1.1|2.2\nb|2.5|5\n");
    assert_eq!(server.psql("INSERT INTO readings (sensor, v) VALUES ('a', 3.3)"), "INSERT 0 1\n");
    wait_until("they go on", || server.psql(most) == "a|3.3|2\nb|2.5|1\n");
    // So does a source that gets a column, in which FLOAT means what it means today.
    let added = server.psql("ALTER SOURCE readings ADD COLUMN w FLOAT");
    assert!(added.ends_with("ALTER SOURCE\n") || added.starts_with("ALTER SOURCE\n"), "{added}");
    server.kill();
    server = Served::start(folder.path());
    let described = server.psql("DESCRIBE readings");
    assert!(described.contains("v|REAL\n") && described.ends_with("w|DOUBLE\n"), "{described}");
    assert_eq!(server.psql("INSERT INTO readings (sensor, v, w) VALUES ('b', 9.9, 1.1)"), "INSERT 0 1\n");
    wait_until("they go on", || server.psql(most) == "a|3.3|2\nb|9.9|2\n");
    // What a query says is not in the journal: a view that converts is named, with what to write.
    let queries = server.psql("SHOW QUERIES");
    assert!(queries.contains("converted|failed"), "{queries}");
    assert!(queries.contains("FLOAT was REAL in earlier versions, and is DOUBLE now"), "{queries}");
    let again = "CREATE OR REPLACE MATERIALIZED VIEW converted AS
        SELECT CAST(v AS REAL) AS c, count(*) AS n FROM readings GROUP BY 1";
    server.psql(again);
    let converted = "SELECT c, n FROM converted ORDER BY c";
    wait_until("it is computed again", || server.psql(converted) == "1.1|1\n2.5|1\n3.3|1\n9.9|1\n");
}
