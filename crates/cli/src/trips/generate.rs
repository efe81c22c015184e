//! `tidemill trips generate`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use tidemill_engine::Cause;
use tidemill_trip_grouping::generator::{GeneratorConfig, PEOPLE_MAX, WAIT_MAX_S};
use tidemill_trip_grouping::text::{HEADER, OFFER_HEADER, write_offer, write_request};

use super::same_file::is_same_file;
use crate::exit::Exit;
use crate::{quantity, terminal};

/// Generate a city's workday: a file of requests for trips
///
/// The file is the same for the same arguments, on any machine.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Example:\n  tidemill trips generate --people 600000 --seed 7 --out requests.csv\n  tidemill trips generate \
     --out requests.csv --offers offers.csv --drivers 30\n\n",
    exit_codes!()
))]
pub(crate) struct Generate {
    /// The file, replaced if it exists
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// File of offers: rides in the cars of some of these people, who then do not request one; replaced if it exists
    #[arg(long, value_name = "FILE")]
    offers: Option<PathBuf>,
    /// Percent of the trips whose people offer a ride
    #[arg(long, value_name = "PERCENT", default_value_t = 20, requires = "offers",
        value_parser = clap::value_parser!(u32).range(..=100))]
    drivers: u32,
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
        self.check_files()?;
        let drivers = if self.offers.is_some() { self.drivers } else { 0 };
        let day = self.city.config().day_with_offers(drivers)?;
        let mut text = format!("{HEADER}\n").into_bytes();
        day.requests.iter().for_each(|request| write_request(request, &mut text));
        write(&self.out, &text)?;
        let requests = quantity::counted(day.requests.len() as u64, "request");
        let trips = quantity::count(day.trips);
        let Some(path) = &self.offers else {
            let out = self.out.display();
            terminal::show(&format!("{out}: {requests}, the trips of at least 3 km, out of {trips}"))?;
            return Ok(Exit::Done);
        };
        let mut text = format!("{OFFER_HEADER}\n").into_bytes();
        day.offers.iter().for_each(|offer| write_offer(offer, &mut text));
        write(path, &text)?;
        let offers = quantity::counted(day.offers.len() as u64, "offer");
        terminal::show(&format!(
            "{}: {requests}\n{}: {offers}; together the trips of at least 3 km, out of {trips}",
            self.out.display(),
            path.display()
        ))?;
        Ok(Exit::Done)
    }
}

impl Generate {
    /// Requests and offers must not overwrite each other.
    fn check_files(&self) -> Result<(), Cause> {
        let out = self.out.display();
        match &self.offers {
            Some(offers) if is_same_file(&self.out, offers) => Err(Cause::user(format!(
                "--out {out} and --offers {} are the same file; name two files",
                offers.display()
            ))),
            _ => Ok(()),
        }
    }
}

fn write(path: &Path, text: &[u8]) -> Result<(), Cause> {
    fs::write(path, text).map_err(|error| {
        let path = path.display();
        Cause::operation(format!("cannot write {path}: {error}; free some space or choose another file"))
            .with_source(error)
    })
}
