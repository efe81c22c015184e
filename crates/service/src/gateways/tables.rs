//! What a process says about its queries, its stores and what enters it: rows for people.

use tidemill_engine::fields::{Fields, Malformed, PutFields, TakeFields, take_all};

/// The rows of `SHOW QUERIES`, `SHOW FRAGMENTS` and `SHOW GATEWAYS`, each value as a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusTables {
    /// The queries that run by name, and how far each is.
    pub queries: Vec<Vec<String>>,
    /// Where the rows of materialized views are.
    pub fragments: Vec<Vec<String>>,
    /// What enters where, and how long its cycles take.
    pub gateways: Vec<Vec<String>>,
}

impl StatusTables {
    /// The columns of [`queries`](StatusTables::queries).
    pub const QUERY_COLUMNS: [&str; 6] = ["name", "state", "cycle", "lag_cycles", "lag_seconds", "reason"];

    /// The columns of [`fragments`](StatusTables::fragments).
    pub const FRAGMENT_COLUMNS: [&str; 11] = [
        "view",
        "fragment",
        "rows",
        "bytes",
        "index_bytes",
        "chunks",
        "oldest_cycle",
        "newest_cycle",
        "rows_dropped",
        "gateway",
        "process",
    ];

    /// The columns of [`gateways`](StatusTables::gateways).
    pub const GATEWAY_COLUMNS: [&str; 14] = [
        "source",
        "query",
        "rows",
        "rows_per_second",
        "bytes",
        "cycles",
        "cycle_ms_mean",
        "cycle_ms_p50",
        "cycle_ms_p99",
        "cycle_ms_max",
        "cycle_ms_max_mean_of_1000",
        "held_back_seconds",
        "gateway",
        "process",
    ];

    /// Adds those of another process.
    pub(crate) fn add(&mut self, other: StatusTables) {
        self.queries.extend(other.queries);
        self.fragments.extend(other.fragments);
        self.gateways.extend(other.gateways);
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        for table in [&self.queries, &self.fragments, &self.gateways] {
            bytes.put_u64(table.len() as u64);
            for row in table {
                bytes.put_u64(row.len() as u64);
                row.iter().for_each(|value| bytes.put_bytes(value.as_bytes()));
            }
        }
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<StatusTables, Malformed> {
        let mut table = || {
            let rows = fields.u64()?;
            take_all(fields, rows, |fields| {
                let values = fields.u64()?;
                take_all(fields, values, Fields::text)
            })
        };
        Ok(StatusTables { queries: table()?, fragments: table()?, gateways: table()? })
    }
}
