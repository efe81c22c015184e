//! Queries in SQL from memory: throughput, the share of each operator, the distance to reading the columns.

mod keyed_statistics;
mod memory;
mod query;
mod yahoo;

use clap::{Parser, ValueEnum};

#[global_allocator]
static ALLOCATOR: tidemill_allocator::Allocator = tidemill_allocator::Allocator;

/// Measure queries in SQL from memory; answers are checked first
#[derive(Debug, Parser)]
struct Options {
    /// Which query
    #[arg(long, value_enum, default_value = "yahoo")]
    query: Which,
    /// Millions of events
    #[arg(long, default_value_t = 100)]
    million_events: u64,
    /// Numbers of workers, one after another
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    workers: Vec<usize>,
    /// How often to run each benchmark; the best and the median run are printed
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// The most events in a cycle
    #[arg(long)]
    cycle_events: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The Yahoo streaming benchmark: views joined with campaigns, counted per campaign and 10 s
    Yahoo,
    /// count, min, max, mean and variance of 100,000 keys, given out every million events
    KeyedStatistics,
}

fn main() -> anyhow::Result<()> {
    tidemill_allocator::tune();
    let options = Options::parse();
    match options.query {
        Which::Yahoo => yahoo::measure(&options),
        Which::KeyedStatistics => keyed_statistics::measure(&options),
    }
}
