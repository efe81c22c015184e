//! `tidemill serve` against DuckDB: rows flow into durable sources by HTTP, COPY and TCP, readers ask at random
//! moments, and the server is killed. Every answer at a cycle must be DuckDB's over exactly the rows up to that cut.
//!
//! Which rows were in at a cycle is read from views that keep all rows of a source, and its late ones; these are
//! compared with what was sent and acknowledged. Views, questions, rows and the moments of kills follow from a seed;
//! how the cycles are cut does not, so a failure may need several runs of its seed. DuckDB runs in a Python process;
//! without it the test says that it is skipped.
//!
//!     TIDEMILL_ORACLE_SEED=7 cargo test -p tidemill-cli --test integration oracle          one seed
//!     TIDEMILL_ORACLE_RUNS=50 TIDEMILL_ORACLE_SEED=100 ...                     the seeds 100 to 149, each longer
#![cfg(all(unix, feature = "sql"))]

mod changes;
mod check;
pub mod client;
mod feeding;
mod history;
mod kept_view;
mod memory;
mod opinion;
mod reader;
mod readers;
mod rows;
mod run;
pub mod server;
mod sinks;
mod subscriber;
mod times;
mod view;
mod views;
mod window_view;

use run::{Run, Size};

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

#[test]
fn readers_see_what_duckdb_computes_over_the_rows_up_to_a_cut() {
    let long = number("TIDEMILL_ORACLE_RUNS");
    let first = number("TIDEMILL_ORACLE_SEED").unwrap_or(1);
    let size = match long {
        None => Size { views: 8, checks: 14, kills: 2 },
        Some(_) => Size { views: 14, checks: 40, kills: 5 },
    };
    let (mut compared, mut asked) = (0, 0);
    for seed in first..first + long.unwrap_or(1) {
        println!("TIDEMILL_ORACLE_SEED={seed}");
        let Some(run) = Run::start(seed, size) else { return };
        let counts = run.check(size);
        println!("seed {seed}: {counts:?}");
        compared += counts.compared;
        asked += counts.compared + counts.refused;
    }
    assert!(compared * 2 > asked, "only {compared} of {asked} answers could be compared");
}

#[test]
fn queries_that_want_all_memory_leave_that_of_the_stream() {
    readers::check();
}

#[test]
fn dropped_views_free_their_memory() {
    memory::check();
}
