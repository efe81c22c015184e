//! Pipelines whose journal is replayed.

use std::path::Path;

use super::{Ended, ended};

/// Three sinks over a source `m` of hosts and values `v`: windows of ten seconds, a table, and a join of the rows with later
/// ones of the same host, which writes this column of both.
pub fn sinks(column: &str, within: &str) -> String {
    format!(
        "CREATE SINK stats AS SELECT window_start, host, count(*) AS points, sum(v) AS total
           FROM tumble(TABLE(m), time, INTERVAL '10 seconds') GROUP BY window_start, host
           WITH (connector = 'file', path = 'stats.csv');
         CREATE SINK totals AS SELECT host, count(*) AS points, max(v) AS most FROM m GROUP BY host
           WITH (connector = 'file', path = 'totals.csv');
         CREATE SINK pairs AS SELECT a.{column} AS a, b.{column} AS b FROM m a JOIN m b ON a.host = b.host
           AND b.time > a.time AND b.time <= a.time + INTERVAL '{within}'
           WITH (connector = 'file', path = 'pairs.csv');"
    )
}

/// What `tidemill journal replay` of the pipeline `p.sql` shows.
pub fn replay(folder: &Path, arguments: &[&str]) -> Ended {
    let mut all = vec!["journal", "replay", "p.journal", "--script", "p.sql"];
    all.extend(arguments);
    ended(folder, &all)
}
