//! How fast rows go to a file and to PostgreSQL, exactly once, beside the plain way. Checks nothing but counts.
//!
//! `cargo run --release -p tidemill-connect --features postgres --example postgres_speed -- FOLDER [URL]`

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tidemill_connect::file::{FileFormat, FileSink, FileSinkSettings, SyncPolicy};
use tidemill_connect::postgres::{PostgresSink, PostgresSinkSettings};
use tidemill_core::arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
use tidemill_core::{Batch, Cut, CycleOutput, ManualClock, Sink};

const CYCLES: u64 = 100;
const ROWS: usize = 10_000;

fn rows(cycle: u64) -> Result<RecordBatch, Box<dyn Error>> {
    let numbers = || (0..ROWS as i64).map(|row| row + cycle as i64 * ROWS as i64);
    let keys: StringArray = numbers().map(|number| Some(format!("sensor {}", number % 1000))).collect();
    let columns: [(&str, Arc<dyn tidemill_core::arrow::array::Array>); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(numbers()))),
        ("key", Arc::new(keys)),
        ("value", Arc::new(Float64Array::from_iter_values(numbers().map(|number| number as f64 / 7.0)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// Writes all cycles, ten of them per commit; says how long that took.
fn measure(name: &str, sink: &mut dyn Sink) -> Result<(), Box<dyn Error>> {
    let batches = (0..CYCLES).map(rows).collect::<Result<Vec<_>, _>>()?;
    let since = Instant::now();
    for (cycle, rows) in (0..).zip(batches) {
        let positions: Vec<u32> = (0..ROWS as u32).collect();
        sink.prepare(CycleOutput {
            cut: Arc::new(Cut { cycle, ..Cut::first() }),
            streams: vec![Some(Batch::from_source(rows, positions.into()))],
            arrivals: Arc::default(),
            clock: Arc::new(ManualClock::default()),
        })?;
        if cycle % 10 == 9 {
            sink.commit(cycle - 9..=cycle)?;
        }
    }
    sink.finish()?;
    say(name, since);
    Ok(())
}

fn say(name: &str, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    let rows = CYCLES as f64 * ROWS as f64;
    println!("{name}: {rows} rows in {seconds:.2} s, {:.2} M rows/s", rows / seconds / 1e6);
}

fn plain_write(folder: &Path) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read(folder.join("resumed.csv"))?;
    let mut file = std::fs::File::create(folder.join("plain.csv"))?;
    let since = Instant::now();
    for part in text.chunks(text.len().div_ceil(10)) {
        file.write_all(part)?;
        file.sync_data()?;
    }
    say("plain writes of the same bytes, 10 syncs", since);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("say a folder, and the URL of a database if there is one")?;
    let folder = Path::new(&folder);
    let schema = rows(0)?.schema();
    for (name, resume) in [("plain-sink.csv", false), ("resumed.csv", true)] {
        let settings = FileSinkSettings {
            resume,
            overwrite: true,
            sync: SyncPolicy::EveryCommit,
            ..FileSinkSettings::new(FileFormat::csv())
        };
        let mut sink = FileSink::create(&folder.join(name), &schema, &settings)?;
        measure(&format!("FileSink, resume {resume}"), &mut sink)?;
    }
    plain_write(folder)?;
    let Some(url) = arguments.next() else { return Ok(()) };
    for key in [vec![], vec!["key".to_owned()]] {
        let table = if key.is_empty() { "speed_appended" } else { "speed_upserted" };
        let settings =
            PostgresSinkSettings { key, resume: false, ..PostgresSinkSettings::new(&url, table, table) };
        let mut sink = PostgresSink::connect(&schema, settings)?;
        measure(table, &mut sink)?;
    }
    Ok(())
}
