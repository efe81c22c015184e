//! A sink that writes rides into a file as cars leave, and sums up what they save.

use std::ops::RangeInclusive;
use std::path::Path;

use tidemill_engine::{Cause, CycleOutput, Sink};

use crate::hour_tally::HourTally;
use crate::pictures::Pictures;
use crate::request::Request;
use crate::result_file::ResultFile;
use crate::savings::Savings;
use crate::schema;
use crate::share::Share;
use crate::text;

/// Sums over rides, and over the requests that nobody took along.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RideSavings {
    /// All who went, owners and others.
    pub people: Savings,
    /// Requests that nobody took along.
    pub unserved: u64,
}

impl RideSavings {
    /// Cars that left, with others or without.
    pub fn cars(&self) -> u64 {
        self.people.shares + self.people.alone
    }

    /// Those who were taken along: requests, and owners who left their cars.
    pub fn riders(&self) -> u64 {
        self.people.requests - self.cars()
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &RideSavings) {
        self.people.merge(&other.people);
        self.unserved += other.unserved;
    }
}

/// What a cycle led to.
enum Outcome {
    Ride(Share),
    Unserved(i64, Request),
}

impl Outcome {
    fn grouped(&self) -> i64 {
        match self {
            Outcome::Ride(share) => share.grouped,
            Outcome::Unserved(grouped, _) => *grouped,
        }
    }
}

/// Receives the [members](schema::members) of rides and the [requests](schema::unserved_requests) that nobody took along.
/// The file, if there is one, has a line for each of them, in an order that does not depend on where cycles are cut:
/// for each grouping cycle the rides, then who was not served.
pub struct RideFile {
    file: ResultFile,
    tally: HourTally<RideSavings>,
    /// Of cycles that are prepared and not committed.
    prepared: Vec<Outcome>,
    pictures: Option<Pictures>,
}

impl RideFile {
    /// Creates the file, and replaces an earlier one; without a path it only sums up.
    ///
    /// # Errors
    /// If it cannot be written; the text names it.
    pub fn new(path: Option<&Path>, tally: HourTally<RideSavings>) -> Result<Self, Cause> {
        let file = match path {
            Some(path) => ResultFile::create(path, text::SHARE_HEADER)?,
            None => ResultFile::default(),
        };
        Ok(RideFile { file, tally, prepared: Vec::new(), pictures: None })
    }

    /// Draws the rides, too.
    #[must_use]
    pub fn with_pictures(self, pictures: Option<Pictures>) -> Self {
        RideFile { pictures, ..self }
    }
}

impl Sink for RideFile {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let stream = |index: usize| output.streams.get(index).and_then(Option::as_ref);
        let rides = stream(0).into_iter().flat_map(schema::shares_of).map(Outcome::Ride);
        let unserved = stream(1).into_iter().flat_map(schema::unserved_of);
        let unserved = unserved.map(|(grouped, request)| Outcome::Unserved(grouped, request));
        let mut outcomes: Vec<Outcome> = rides.chain(unserved).collect();
        // They come group by group. A grouping cycle is never divided, but one cycle of the engine may hold several.
        outcomes.sort_by_key(Outcome::grouped);
        if let Some(lines) = self.file.lines() {
            outcomes.iter().for_each(|outcome| match outcome {
                Outcome::Ride(share) => text::write_share(share, lines),
                Outcome::Unserved(grouped, request) => text::write_unserved(*grouped, request, lines),
            });
        }
        self.prepared.append(&mut outcomes);
        Ok(())
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.file.commit()?;
        if let Some(pictures) = &self.pictures {
            self.prepared.iter().try_for_each(|outcome| match outcome {
                Outcome::Ride(share) => pictures.share(share),
                Outcome::Unserved(grouped, request) => pictures.unserved(*grouped, request),
            })?;
        }
        let outcomes = self.prepared.drain(..).map(|outcome| (outcome.grouped(), outcome));
        self.tally.add(outcomes, |sums, outcome| match outcome {
            Outcome::Ride(share) => sums.people.add(&share),
            Outcome::Unserved(..) => sums.unserved += 1,
        });
        Ok(())
    }
}
