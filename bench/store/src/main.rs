//! What storing a row costs, and how long questions take while rows come in.
//!
//! The answers are checked first, against plain loops over the rows; a wrong one ends the run. Then a store is filled, the
//! cost of a row is put beside that of copying its columns, and readers ask at a given rate of rows.

mod accounts;
mod changing;
mod check;
mod kernel;
mod load;
mod questions;
mod rows;
mod writer;

use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use tidemill_core::Cause;
use tidemill_core::arrow::array::{Array, RecordBatch};
use tidemill_store::{ReaderTurns, StoreReader};

use rows::{Traffic, config};
use writer::Writer;

/// Measure what it costs to store rows, and how long questions about them take while more come in
#[derive(Debug, Parser)]
struct Arguments {
    /// Rows that come in per second while readers ask.
    #[arg(long, default_value_t = 1_000_000, value_parser = RangedU64ValueParser::<u64>::new().range(1000..))]
    rate: u64,
    /// How much is stored, in MiB.
    #[arg(long, default_value_t = 1024, value_parser = RangedU64ValueParser::<usize>::new().range(8..=1_000_000))]
    stored_mib: usize,
    /// Cars that report in turn.
    #[arg(long, default_value_t = 100_000, value_parser = RangedU64ValueParser::<u64>::new().range(1000..=100_000_000))]
    cars: u64,
    /// Rows of a cycle.
    #[arg(long, default_value_t = 1000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    cycle_rows: usize,
    /// Fragments, each with a thread that stores its rows; 1: the thread that has the rows stores them.
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<u32>::new().range(1..=256))]
    fragments: u32,
    /// Numbers of readers, one measurement for each.
    #[arg(long, value_delimiter = ',', default_value = "0,1,8")]
    readers: Vec<usize>,
    /// How many readers compute at a time, as in a server; 0: all of them. Unless it is given, as many as there are processors.
    #[arg(long)]
    at_once: Option<usize>,
    /// Measure instead what it costs to keep this many rows that change.
    #[arg(long, value_delimiter = ',')]
    changing: Vec<u64>,
    /// How long each measurement takes.
    #[arg(long, default_value_t = 10, value_parser = RangedU64ValueParser::<u64>::new().range(1..=3600))]
    seconds: u64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    check::check(arguments.fragments)?;
    println!("answers: all questions answer like a loop over all rows, now and as of earlier cycles");
    for rows in &arguments.changing {
        changing::measure(*rows, arguments.cycle_rows)?;
    }
    if !arguments.changing.is_empty() {
        return Ok(());
    }
    let (mut writer, reader) = Writer::new(config(arguments.stored_mib << 20), arguments.fragments)?;
    let mut traffic = Traffic::new(arguments.cars);
    fill(&arguments, &mut writer, &reader, &mut traffic)?;
    let accounts = accounts::Accounts::new(arguments.cars)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let at_once = arguments.at_once.map_or(cores, |at_once| if at_once == 0 { usize::MAX } else { at_once });
    println!(
        "\n{} rows/s wanted, {} s each, cycles of {} rows, {cores} cores",
        arguments.rate, arguments.seconds, arguments.cycle_rows
    );
    for readers in &arguments.readers {
        let load = load::Load {
            rate: arguments.rate,
            cycle_rows: arguments.cycle_rows,
            seconds: arguments.seconds,
            readers: *readers,
            turns: ReaderTurns::new(at_once.min(*readers), Duration::from_secs(30)),
        };
        println!("\n{readers} readers, of which {} compute at a time", at_once.min(*readers));
        load.run((&mut writer, &reader), &mut traffic, &accounts)?;
    }
    Ok(())
}

/// Fills a store until it has dropped a tenth of its rows, and prints what a row costs.
fn fill(
    arguments: &Arguments,
    writer: &mut Writer,
    reader: &StoreReader,
    traffic: &mut Traffic,
) -> Result<(), Cause> {
    let (mut rows, mut storing, mut copying) = (0_u64, 0_u64, 0_u64);
    let mut longest = 0;
    let begun = Instant::now();
    while reader.statistics().rows_dropped * 10 < rows || rows == 0 {
        let batch = traffic.rows(arguments.cycle_rows);
        let start = Instant::now();
        black_box(copied(&batch));
        copying += start.elapsed().as_nanos() as u64;
        let start = Instant::now();
        writer.append(traffic.cycle(), batch)?;
        let took = start.elapsed().as_nanos() as u64;
        storing += took;
        longest = longest.max(took);
        rows += arguments.cycle_rows as u64;
    }
    let start = Instant::now();
    writer.publish()?;
    storing += start.elapsed().as_nanos() as u64;
    let all = begun.elapsed().as_nanos() as u64 - copying;
    let found = reader.statistics();
    let per_row = |total: u64| total as f64 / rows as f64;
    let kept = found.rows as f64;
    println!("\nfilled with {rows} rows of {} bytes, of which {} are kept", rows::ROW_BYTES, found.rows);
    println!(
        "  store a row       {:8.1} ns; the longest cycle {:.2} ms",
        per_row(storing),
        longest as f64 / 1e6
    );
    println!("  {:.0} rows/s, the making of the rows included", rows as f64 / all as f64 * 1e9);
    println!(
        "  copy its columns  {:8.1} ns; storing takes {:.1} times that",
        per_row(copying),
        per_row(storing) / per_row(copying)
    );
    println!(
        "  bytes per row     {:8.1} in chunks, with {:.1} for the index of keys; {} chunks, {} versions",
        found.bytes as f64 / kept,
        found.index_bytes as f64 / kept,
        found.chunks,
        found.versions
    );
    Ok(())
}

/// A plain copy of all columns.
fn copied(rows: &RecordBatch) -> Vec<Vec<u8>> {
    let buffers = rows.columns().iter().flat_map(|column| column.to_data().buffers().to_vec());
    buffers.map(|buffer| buffer.as_slice().to_vec()).collect()
}
