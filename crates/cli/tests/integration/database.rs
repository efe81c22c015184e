//! `--database FOLDER`: definitions that are kept between calls of the command.
#![cfg(feature = "sql")]

use std::fs;

use crate::support::*;

const SALES: &str = "item,price\nsalt,2\npepper,3\nsalt,4\n";
const SOURCE: &str = "CREATE SOURCE sales (item VARCHAR, price DOUBLE) WITH (path = 'sales.csv')";
const SINK: &str =
    "CREATE SINK totals AS SELECT item, price FROM sales WHERE price > 2 WITH (path = 'totals.csv')";

#[test]
fn definitions_are_kept_between_calls() {
    let folder = folder_with(&[("sales.csv", SALES)]);
    let folder = folder.path();
    let sql = |text: &str| ended(folder, &["sql", "--database", "shop", "--format", "csv", "-c", text]);
    sql(SOURCE).expect(0).tells(&["source sales created"]);
    assert_eq!(sql("SELECT sum(price) AS spent FROM sales").expect(0).stdout, "spent\n9.0\n");
    sql(SINK).expect(0).tells(&["sink totals created", "tidemill run --database shop runs them"]);
    sql("CREATE VIEW dear AS SELECT item FROM sales WHERE price > 3; SET partitions = 4").expect(0);
    // A wrong statement leaves nothing, and what came before it stays.
    sql("CREATE VIEW dearer AS SELECT item FROM dear; CREATE VIEW wrong AS SELECT colour FROM dear")
        .expect(2);
    assert_eq!(sql("SHOW VIEWS").expect(0).stdout, "name,kind\ndear,view\ndearer,view\n");
    sql("SHOW SETTINGS").expect(0).shows(&["partitions,16"]);
    sql(SOURCE).expect(2).tells(&["'sales' already exists"]);

    let run = ended(folder, &["run", "--database", "shop"]).expect(0);
    run.tells(&["running totals", "3 rows in, 2 rows out"]);
    assert_eq!(fs::read_to_string(folder.join("totals.csv")).unwrap(), "item,price\npepper,3.0\nsalt,4.0\n");

    sql("DROP SINK totals").expect(0);
    ended(folder, &["run", "--database", "shop"]).expect(2).tells(&["nothing to run", "--database shop"]);
    // Without the option nothing is known, and nothing is kept.
    ended(folder, &["sql", "-c", "SELECT * FROM sales"]).expect(2);
}

#[test]
fn a_pipe_and_a_prompt_keep_definitions_and_start_nothing_later() {
    let folder = folder_with(&[("sales.csv", SALES)]);
    let folder = folder.path();
    let arguments = ["sql", "--database", "shop", "--format", "csv"];
    let script =
        "CREATE MATERIALIZED VIEW endless AS SELECT count(*) AS n FROM sequence(rate => 1000);\n\\start\n";
    ended_with_input(folder, &arguments, script).expect(0).tells(&["endless running in the background"]);
    // It was stopped when the pipe ended, so that nothing runs, and the view is computed.
    let asked = "SELECT n FROM endless LIMIT 1;\n\\stop\n";
    ended_with_input(folder, &arguments, asked).expect(2).tells(&["nothing is running in the background"]);
}

#[test]
fn what_is_wrong_with_a_database_is_said() {
    let folder = folder_with(&[("sales.csv", SALES)]);
    let folder = folder.path();
    let missing = ended(folder, &["run", "--database", "shop"]).expect(2);
    missing.tells(&["there is no database in 'shop'", "tidemill sql --database shop creates it"]);
    assert!(!folder.join("shop").exists());
    fs::write(folder.join("file"), "").unwrap();
    ended(folder, &["sql", "--database", "file", "-c", "SHOW VIEWS"]).expect(1).tells(&["file"]);
    ended(folder, &["run", "p.sql", "--database", "shop"]).expect(2).tells(&["cannot be used with"]);
    ended(folder, &["run"]).expect(2).tells(&["FILE"]);

    // A view over a file that is gone: it is reported by name, and the others work.
    let sql = |text: &str| ended(folder, &["sql", "--database", "shop", "--format", "csv", "-c", text]);
    sql("CREATE VIEW gone AS SELECT item FROM 'sales.csv'; CREATE VIEW well AS SELECT 1 AS n").expect(0);
    fs::remove_file(folder.join("sales.csv")).unwrap();
    let asked = sql("SELECT n FROM well").expect(0);
    assert_eq!(asked.stdout, "n\n1\n");
    asked.tells(&["warning: view 'gone' of the database cannot be used now"]);
    sql("SELECT * FROM gone").expect(2).tells(&["the definition of `gone` has failed"]);
    sql("DROP VIEW gone").expect(0);
    let asked = sql("SHOW VIEWS").expect(0);
    assert_eq!((asked.stdout.as_str(), asked.stderr.as_str()), ("name,kind\nwell,view\n", ""));
}

#[test]
fn a_durable_source_of_a_database_has_its_journal_in_it() {
    let folder = folder_with(&[("sales.csv", SALES)]);
    let folder = folder.path();
    let sql = |text: &str| ended(folder, &["sql", "--database", "shop", "-c", text]);
    sql(&SOURCE.replace("'sales.csv'", "'sales.csv', durable = true")).expect(0);
    sql(SINK).expect(0);
    ended(folder, &["run", "--database", "shop"]).expect(0).tells(&["journal in shop/journal"]);
    let written = fs::read_to_string(folder.join("totals.csv")).unwrap();
    ended(folder, &["run", "--database", "shop"]).expect(0);
    assert_eq!(fs::read_to_string(folder.join("totals.csv")).unwrap(), written, "nothing is written twice");
}

#[test]
fn a_query_over_processes_knows_the_definitions_of_the_database() {
    let folder = folder_with(&[("sales.csv", SALES)]);
    let folder = folder.path();
    ended(folder, &["sql", "--database", "shop", "-c", SOURCE]).expect(0);
    ended(folder, &["sql", "--database", "shop", "-c", SINK]).expect(0);
    ended(folder, &["run", "--database", "shop", "--processes", "2", "--workers", "1"]).expect(0);
    let mut lines: Vec<String> =
        fs::read_to_string(folder.join("totals.csv")).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["item,price", "pepper,3.0", "salt,4.0"]);
}
