//! What DuckDB answers over exactly the rows up to a cut.

use super::view::View;
use tidemill_testing::duckdb::DuckDb;
use tidemill_testing::duckdb::Row;

/// DuckDB with all rows that were accepted, and the views as it understands them.
pub struct Opinion {
    duckdb: DuckDb,
}

/// The number of the last row of each source that is in; -1 if none is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub s: i64,
    pub t: i64,
    pub u: i64,
}

impl Cut {
    /// Whether each source is as far as in the other cut.
    pub fn is_at_least(self, other: Cut) -> bool {
        self.s >= other.s && self.t >= other.t && self.u >= other.u
    }
}

impl Opinion {
    /// `None` without DuckDB.
    pub fn start() -> Option<Opinion> {
        let mut duckdb = DuckDb::start()?;
        let columns = "n BIGINT, ts TIMESTAMP, k BIGINT, g VARCHAR, v BIGINT, d DOUBLE, p DECIMAL(10, 2), b \
         BOOLEAN, x DOUBLE, \
                       y DOUBLE";
        let mut script = "CREATE TABLE cut (s BIGINT, t BIGINT, u BIGINT);".to_owned();
        for source in ["s", "t", "u"] {
            script += &format!(
                "CREATE TABLE all_{source} ({columns}, is_late BOOLEAN);
                 CREATE VIEW {source} AS SELECT * EXCLUDE (is_late) FROM all_{source}
                     WHERE NOT is_late AND n <= (SELECT {source} FROM cut);
                 CREATE VIEW wm_{source} AS SELECT max(ts) - INTERVAL '2 seconds' AS w FROM {source};"
            );
        }
        // The least of both, and none as long as one has none: DuckDB's least() leaves NULL out.
        script += "CREATE VIEW wm AS SELECT CASE WHEN a.w IS NOT NULL AND b.w IS NOT NULL THEN least(a.w, b.w) END AS w
                   FROM wm_s AS a, wm_t AS b; SELECT 1";
        duckdb.run(&script);
        Some(Opinion { duckdb })
    }

    /// Adds rows to all that were accepted, each as it stands after VALUES.
    pub fn add(&mut self, source: &str, rows: &[String]) {
        if !rows.is_empty() {
            self.duckdb.run(&format!("INSERT INTO all_{source} VALUES {}", rows.join(", ")));
        }
    }

    pub fn define(&mut self, view: &View) {
        self.duckdb.run(&format!("CREATE OR REPLACE VIEW {} AS {}", view.name, view.duckdb));
    }

    /// The answer over the rows up to a cut.
    pub fn answer(&mut self, cut: Cut, question: &str) -> Vec<Row> {
        let Cut { s, t, u } = cut;
        self.duckdb.run(&format!("DELETE FROM cut; INSERT INTO cut VALUES ({s}, {t}, {u}); {question}"))
    }
}
