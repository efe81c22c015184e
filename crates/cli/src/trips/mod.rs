//! `tidemill trips ...`: one file per subcommand.

mod bad_lines;
mod bench;
mod criteria;
mod generate;
mod rides;
mod run;
mod same_file;
mod shown_table;

use clap::Subcommand;

use crate::exit::Exit;

/// Trip grouping: people who go the same way at the same time share a ride
#[derive(Debug, Subcommand)]
pub(crate) enum Trips {
    Generate(generate::Generate),
    Run(run::RunArguments),
    Bench(bench::BenchArguments),
}

impl Trips {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Trips::Generate(arguments) => arguments.run(),
            Trips::Run(arguments) => arguments.run(),
            Trips::Bench(arguments) => arguments.run(),
        }
    }
}
