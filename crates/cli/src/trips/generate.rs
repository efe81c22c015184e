//! `tidemill trips generate`.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use tidemill_engine::Cause;
use tidemill_trip_grouping::generator::{GeneratorConfig, PEOPLE_MAX, WAIT_MAX_S};
use tidemill_trip_grouping::text::{HEADER, write_request};

use crate::exit::Exit;
use crate::{quantity, terminal};

/// Generate a city's workday: a file of requests for trips
///
/// The file is the same for the same arguments, on any machine.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Example:\n  tidemill trips generate --people 600000 --seed 7 --out requests.csv\n\n",
    exit_codes!()
))]
pub(crate) struct Generate {
    /// The file, replaced if it exists
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    city: City,
}

/// Which city.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "City")]
pub(crate) struct City {
    /// The number of people
    #[arg(long, value_name = "N", default_value_t = 600_000,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(PEOPLE_MAX)))]
    people: u32,
    /// Seed of the random numbers; the same seed generates the same day
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// Seconds that each request waits for others
    #[arg(long, value_name = "S", default_value_t = 600,
        value_parser = clap::value_parser!(u32).range(..=i64::from(WAIT_MAX_S)))]
    wait: u32,
}

impl City {
    pub(crate) fn config(self) -> GeneratorConfig {
        let City { people, seed, wait } = self;
        GeneratorConfig { people, seed, wait_s: wait, ..GeneratorConfig::default() }
    }
}

impl Generate {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let day = self.city.config().day()?;
        let mut text = format!("{HEADER}\n").into_bytes();
        day.requests.iter().for_each(|request| write_request(request, &mut text));
        fs::write(&self.out, &text).map_err(|error| {
            let path = self.out.display();
            Cause::operation(format!("cannot write {path}: {error}; free some space or choose another file"))
                .with_source(error)
        })?;
        terminal::show(&format!(
            "{}: {}, the trips of at least 3 km, out of {}",
            self.out.display(),
            quantity::counted(day.requests.len() as u64, "request"),
            quantity::count(day.trips)
        ))?;
        Ok(Exit::Done)
    }
}
