//! Sources whose rows have weights: what people see of them.
#![cfg(feature = "sql")]

use crate::support::{ended, folder_with};

const ROWS: &str = "id,name,weight\n1,a,1\n1,a,-1\n1,a,-1\n2,b,2\n";

fn script(statement: &str) -> String {
    format!(
        "CREATE SOURCE w (id BIGINT, name VARCHAR, weight BIGINT NOT NULL) WITH (path = 'w.csv', changes = 'weights');
        {statement} SINK o WITH (connector = 'file', path = 'o.csv', emit = 'changes') AS
            SELECT name, count(*) AS n FROM w GROUP BY name;"
    )
}

#[test]
fn a_row_that_goes_too_often_is_told_without_its_weight() {
    let folder = folder_with(&[("w.csv", ROWS), ("run.sql", &script("CREATE"))]);
    let told = ended(folder.path(), &["run", "run.sql"]).expect(0);
    assert!(
        told.stderr.contains("no such row is left") && told.stderr.contains("name: a"),
        "{}",
        told.stderr
    );
    assert!(!told.stderr.contains("weight"), "{}", told.stderr);
    let written = std::fs::read_to_string(folder.path().join("o.csv")).unwrap();
    assert_eq!(written, "name,n,weight\nb,2,1\n");
}

#[test]
fn a_sink_of_changes_is_measured() {
    let folder = folder_with(&[("w.csv", ROWS), ("run.sql", &script("EXPLAIN ANALYZE CREATE"))]);
    let measured = ended(folder.path(), &["run", "run.sql"]).expect(0);
    assert!(
        measured.stdout.contains("of the time") && measured.stdout.contains("changes of a source"),
        "{}",
        measured.stdout
    );
    assert!(!folder.path().join("o.csv").exists(), "nothing is written");
}
