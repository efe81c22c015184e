//! Stream processes, as the thesis measured them (Zeitler, Paper II): arrays that are sent from one place to another, point
//! to point and merged, under all of its six placements, over threads and over processes of the operating system; a search
//! in many files; a Fourier transform that is divided among processes. Each query is SQL, and each answer is checked.

mod fourier;
mod grep;
mod limits;
mod picture;
mod placements;
mod query;
mod transfer;

use std::path::PathBuf;

use clap::value_parser;
use tidemill_engine::{Cause, WorkerProcess};

/// Measure stream processes: arrays sent between places, grep over many files, a Fourier transform
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Bytes of an array; the thesis sends 3 MB.
    #[arg(long, default_value_t = 3_000_000, value_parser = value_parser!(u32).range(8..=100_000_000))]
    array_bytes: u32,
    /// Arrays of a stream.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u32).range(1..=1_000_000))]
    arrays: u32,
    /// Numbers of streams, under each of the six placements.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5,6,7,8",
        value_parser = value_parser!(u32).range(1..=64))]
    streams: Vec<u32>,
    /// Bytes that are sent at once: each buffer is a cycle of its own.
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000,100000,1000000",
        value_parser = value_parser!(u32).range(8..=100_000_000))]
    buffers: Vec<u32>,
    /// The most buffers of a run, so that small ones do not take hours.
    #[arg(long, default_value_t = 20_000, value_parser = value_parser!(u32).range(1..))]
    buffers_max: u32,
    /// Files that are searched, each by a process of its own.
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u32).range(1..=1024))]
    files: u32,
    /// Lines of a file.
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=10_000_000))]
    lines: u32,
    /// Lengths of the arrays that are transformed.
    #[arg(long, value_delimiter = ',', default_value = "1024,16384,262144",
        value_parser = value_parser!(u32).range(2..=1_048_576))]
    lengths: Vec<u32>,
    /// How many runs of each; the best counts, for what else the machine does only takes time away.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Few and small ones of everything: it shows that the answers are right, and its rates mean nothing.
    #[arg(long)]
    quick: bool,
    /// The folder of the pictures.
    #[arg(long)]
    pictures: Option<PathBuf>,
}

impl Arguments {
    fn quick(self) -> Arguments {
        Arguments {
            array_bytes: 8_000,
            arrays: 3,
            streams: vec![1, 3],
            buffers: vec![800, 8_000],
            buffers_max: 10,
            files: 3,
            lines: 50,
            lengths: vec![64],
            runs: 1,
            ..self
        }
    }
}

/// Measures, and prints tables as it proceeds.
///
/// # Errors
/// If the arguments are invalid, an answer is wrong, or a picture cannot be written.
pub fn run(arguments: Arguments) -> anyhow::Result<()> {
    if let Some(member) = WorkerProcess::from_environment()? {
        return Ok(query::Over::Processes.planner().run_member(member)?);
    }
    let arguments = if arguments.quick { arguments.quick() } else { arguments };
    // Before anything that takes long.
    if let Some(folder) = &arguments.pictures {
        std::fs::create_dir_all(folder).map_err(|error| {
            Cause::user(format!("cannot make {}: {error}", folder.display())).with_source(error)
        })?;
    }
    transfer::measure(&arguments)?;
    placements::measure(&arguments)?;
    grep::measure(&arguments)?;
    fourier::measure(&arguments)
}
