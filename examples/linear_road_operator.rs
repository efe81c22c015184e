//! An operator written in Rust, called in SQL: the tolls of Linear Road, counted by query.
//!
//! Expressways are split by hand: each is a sub-stream, with its own operator.
//! `cargo run --example linear_road_operator [WORKERS]`: what it prints does not depend on the number of workers.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::sync::Arc;

use tidemill_connect::formats::encode::TextFormat;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_linear_road::generator::{Generator, GeneratorConfig};
use tidemill_linear_road::text_write::write_event;
use tidemill_sql::{Planner, Reply, parse};

#[path = "linear_road/operator.rs"]
mod operator;

/// INPUT stands for the file with the traffic.
const SCRIPT: &str = "
    CREATE SOURCE input (
        type SMALLINT, time INTEGER, vid BIGINT, speed INTEGER, xway INTEGER, lane INTEGER, dir INTEGER, seg INTEGER,
        pos INTEGER, qid BIGINT, sinit INTEGER, send INTEGER, dow INTEGER, tod INTEGER, day INTEGER
    ) WITH (path = 'INPUT', format = 'csv', header = false);

    CREATE VIEW reports AS
    SELECT CAST(time AS SMALLINT UNSIGNED) AS time, CAST(vid AS INTEGER UNSIGNED) AS vid,
           CAST(speed AS TINYINT UNSIGNED) AS speed, CAST(xway AS SMALLINT UNSIGNED) AS xway,
           CAST(lane AS TINYINT UNSIGNED) AS lane, CAST(dir AS TINYINT UNSIGNED) AS dir,
           CAST(seg AS TINYINT UNSIGNED) AS seg, CAST(pos AS INTEGER UNSIGNED) AS pos
    FROM input
    WHERE type = 0;

    SELECT time / 60 + 1 AS minute, count(*) AS told, count(*) FILTER (WHERE toll > 0) AS with_toll,
           max(toll) AS highest
    FROM mergestream(linear_road(splitstream(TABLE(reports), 4, route => xway), answers => 'tolls'))
    GROUP BY time / 60 + 1
    ORDER BY minute";

fn main() -> Result<(), Box<dyn Error>> {
    let mut planner = Planner::new();
    planner.settings_mut().workers = std::env::args().nth(1).map_or(Ok(1), |workers| workers.parse())?;
    planner.register_operator("linear_road", Arc::new(operator::LinearRoad));

    let folder = tempfile::tempdir()?;
    let input = folder.path().join("input.csv");
    fs::write(&input, traffic()?)?;
    println!(
        "Ten minutes of traffic on one expressway: cars that entered a segment, and the tolls they were told."
    );
    let script = SCRIPT.replace("INPUT", &input.display().to_string());
    for statement in parse(&script, "query")? {
        let Reply::Query(query) = planner.execute(&statement)? else { continue };
        // The table is ordered, so it is known when all input has been read, and no sink is asked for.
        let (_, answer) = query.open(Vec::new())?.start()?.wait()?;
        if let Some(rows) = answer {
            show(&rows)?;
        }
    }
    Ok(())
}

fn traffic() -> Result<Vec<u8>, Box<dyn Error>> {
    let config = GeneratorConfig { minutes: 10, peak_reports_per_second: 1000, ..GeneratorConfig::default() };
    let (mut generator, mut events, mut text) = (Generator::new(config)?, Vec::new(), Vec::new());
    while generator.next_second(&mut events) {
        events.drain(..).for_each(|event| write_event(&event, &mut text));
    }
    Ok(text)
}

fn show(rows: &RecordBatch) -> Result<(), Box<dyn Error>> {
    let mut text = Vec::new();
    let mut encoder = TextFormat::table().encoder(&rows.schema())?;
    encoder.header(&mut text);
    encoder.rows(rows, &mut text)?;
    std::io::stdout().write_all(&text)?;
    Ok(())
}
