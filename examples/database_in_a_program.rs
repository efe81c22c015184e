//! A database within a program: definitions that are kept, a query that runs by name, and a session that asks it.
//!
//!     cargo run --example database_in_a_program

use std::error::Error;
use std::path::Path;

use tidemill::rows_of;
use tidemill::service::{FileCatalogLog, Reply, Runtime, Session};
use tidemill::sql::{Planner, parse};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("tidemill-database-{}", std::process::id()));
    define(&folder)?;
    ask(&folder)?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn define(folder: &Path) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::open(Planner::new(), Box::new(FileCatalogLog::open(folder)?))?;
    let mut session = Session::new(&runtime);
    let script = "CREATE MATERIALIZED VIEW tolls AS
        SELECT value % 3 AS segment, count(*) AS cars FROM sequence(count => 10) GROUP BY 1";
    for statement in parse(script, "example")? {
        session.execute(&statement)?;
    }
    let pipeline = session.pipeline_of(&["tolls"])?;
    runtime.start("tolls", pipeline, false)?;
    runtime.wait("tolls")?;
    Ok(())
}

fn ask(folder: &Path) -> Result<(), Box<dyn Error>> {
    // Brings back what was defined before, and restarts what was running.
    let runtime = Runtime::open(Planner::new(), Box::new(FileCatalogLog::open(folder)?))?;
    let mut session = Session::new(&runtime);
    // The input of this query ends, so the answer can wait for all of it.
    runtime.wait("tolls")?;
    for statement in parse("SELECT segment, cars FROM tolls ORDER BY segment", "example")? {
        let batches = match session.execute(&statement)? {
            Reply::Rows(rows) => vec![rows],
            Reply::Query(query) => query.stream()?.collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        for batch in &batches {
            for (segment, cars) in rows_of::<(Option<i64>, Option<i64>)>(batch, ["segment", "cars"])? {
                if let (Some(segment), Some(cars)) = (segment, cars) {
                    println!("segment {segment}: {cars} cars");
                }
            }
        }
    }
    Ok(())
}
