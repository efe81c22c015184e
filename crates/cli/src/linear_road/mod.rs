//! `tidemill linear-road ...`: one file per subcommand.

mod check;
mod deadline;
mod generate;
mod rate;
mod run;
mod run_progress;
mod summary;
mod traffic;

use clap::Subcommand;

use crate::exit::Exit;

/// The Linear Road benchmark: tolls, accidents and accounts of cars on expressways
#[derive(Debug, Subcommand)]
pub(crate) enum LinearRoad {
    Generate(generate::Generate),
    Run(run::RunArguments),
    Check(check::Check),
    Rate(rate::Rate),
}

impl LinearRoad {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            LinearRoad::Generate(arguments) => arguments.run(),
            LinearRoad::Run(arguments) => arguments.run(),
            LinearRoad::Check(arguments) => arguments.run(),
            LinearRoad::Rate(arguments) => arguments.run(),
        }
    }
}

/// A number of worker threads.
pub(crate) fn parse_workers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(workers @ 1..=1024) => Ok(workers),
        _ => Err("there must be 1 to 1024".to_owned()),
    }
}
