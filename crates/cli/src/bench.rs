//! `tidemill bench ...`

use clap::Subcommand;

use crate::exit::Exit;

/// Measure this machine, and compare the results with the predictions
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measure each way of splitting a stream of 64-byte tuples; takes a few minutes
    #[command(after_help = exit_codes!())]
    Split(tidemill_bench_split::Arguments),
    /// Measure stream processes: arrays that are sent between places, in buffers of several sizes, over threads and
    /// over processes of the operating system; a search in many files; a Fourier transform
    #[cfg(feature = "sql")]
    #[command(after_help = exit_codes!())]
    Processes(tidemill_bench_processes::Arguments),
    /// Measure which deadlines a real-time pool keeps, and ordinary threads do not; takes hours, with --runs 1 some minutes
    #[command(after_help = exit_codes!())]
    Realtime(tidemill_bench_realtime::Arguments),
}

impl Bench {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Bench::Split(arguments) => tidemill_bench_split::run(&arguments)?,
            #[cfg(feature = "sql")]
            Bench::Processes(arguments) => tidemill_bench_processes::run(arguments)?,
            Bench::Realtime(arguments) => tidemill_bench_realtime::run(&arguments)?,
        }
        Ok(Exit::Done)
    }
}
