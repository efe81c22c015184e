//! Sinks over the sources of one gateway, while its process is killed.

use std::collections::BTreeSet;
use std::fs;

use super::fleet::{Fleet, ROWS_PER_REQUEST};
use super::kill;
use crate::support::child::wait_until;
use crate::support::folder_with;

#[test]
fn a_sink_at_a_gateway_writes_each_row_once_while_processes_are_killed() {
    let folder = folder_with(&[]);
    let requests = 120;
    let mut fleet = Fleet::start(folder.path(), 2, requests);
    let file = folder.path().join("written.csv");
    let sink = format!(
        "CREATE SINK written WITH (path = '{}', header = false, start = 'earliest') AS SELECT n FROM cars0",
        file.display()
    );
    fleet.text(&sink);
    for due in [20, 50, 80] {
        wait_until("requests are answered", || fleet.answered().iter().all(|answered| *answered >= due));
        match due {
            50 => fleet.restart_server(),
            _ => kill(&fleet.process_at(0)),
        }
        let answered = fleet.answered();
        wait_until("the view can be read again", || fleet.check_whole_cycles(&answered));
    }
    fleet.finish();
    let rows = (requests * ROWS_PER_REQUEST) as usize;
    let lines =
        || fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    wait_until("every row is written", || lines().len() >= rows);
    let written = lines();
    let expected: BTreeSet<String> = (1..=rows).map(|n| n.to_string()).collect();
    assert_eq!(written.len(), rows, "no row twice");
    assert_eq!(written.into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(fleet.text("SHOW QUERIES").contains("written at g0|running"));
    for (statement, words) in [
        (
            "CREATE SINK s WITH (path = 's.csv') AS SELECT n FROM cars0 UNION ALL SELECT n FROM cars1",
            "'cars0' at gateway 'g0', 'cars1' at gateway 'g1'",
        ),
        ("CREATE SINK s WITH (connector = 'stdout') AS SELECT n FROM cars0", "no standard output"),
    ] {
        let error = fleet.error(statement);
        assert!(error.contains(words) && error.contains("0A000"), "{error}");
    }
    let error = fleet.error("CREATE OR REPLACE SINK written WITH (path = 's.csv') AS SELECT n FROM cars0");
    assert!(error.contains("sink `written` runs at gateways (g0)"), "{error}");
    fleet.text("ALTER SINK written SET (max_latency = '50 ms')");
    assert_eq!(lines().len(), rows, "no row twice");
    fleet.text("STOP SINK written");
    assert!(fleet.text("SHOW QUERIES").contains("written at g0|stopped"));
    fleet.text("START SINK written");
    fleet.text("DROP SINK written");
    assert!(!fleet.text("SHOW QUERIES").contains("written"));
}
