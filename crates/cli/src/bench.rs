//! `tidemill bench ...`

use clap::Subcommand;

use crate::exit::Exit;

/// Measure this machine, and compare with what was predicted
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Split a stream of 64-byte tuples, plan by plan; takes a few minutes
    #[command(after_help = exit_codes!())]
    Split(tidemill_bench_split::Arguments),
}

impl Bench {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Bench::Split(arguments) => tidemill_bench_split::run(&arguments)?,
        }
        Ok(Exit::Done)
    }
}
