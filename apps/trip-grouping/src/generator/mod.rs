//! A city's workday: the trips of its people, and the requests among them.
//!
//! The paper's data is not published. It came from a simulator of Copenhagen: about 600,000 people make about 1.55
//! million trips, of which about 251,000 of at least 3 km are requested. This city has the same numbers, and the
//! properties that the paper names: people go from home to work in the morning and back in the evening. In these hours
//! no dimension has sparse regions. At other times many go to one of a few malls.
//!
//! Nothing depends on time, platform or the order of a hash table: the same configuration gives the same requests.

mod city;
mod day;
mod drivers;
mod random;

pub use drivers::DayWithOffers;

use thiserror::Error;

use crate::request::Request;

/// The most people: enough for the largest city.
pub const PEOPLE_MAX: u32 = 50_000_000;
/// The longest wait, in seconds: a day.
pub const WAIT_MAX_S: u32 = 86_400;

/// The settings of the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratorConfig {
    /// How many people live in the city, 1 to [`PEOPLE_MAX`].
    pub people: u32,
    /// Selects one of the possible days.
    pub seed: u64,
    /// How long each request waits for others, in seconds, at most [`WAIT_MAX_S`].
    pub wait_s: u32,
    /// The shortest trip that is requested, in metres. Shorter ones are walked or cycled.
    pub length_min_m: u32,
}

impl Default for GeneratorConfig {
    /// The paper's city: 600,000 people, ten minutes, three kilometres; seed 7.
    fn default() -> Self {
        GeneratorConfig { people: 600_000, seed: 7, wait_s: 600, length_min_m: 3000 }
    }
}

/// A city that cannot be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GeneratorError {
    /// Nobody, or too many.
    #[error("people is {given}; a city has 1 to {PEOPLE_MAX}")]
    People {
        /// The number asked for.
        given: u32,
    },
    /// More than all.
    #[error("the drivers are {given} percent of the people; there are at most 100")]
    Drivers {
        /// The percentage asked for.
        given: u32,
    },
    /// Longer than the day.
    #[error("wait_s is {given}; nobody waits longer than a day ({WAIT_MAX_S})")]
    Wait {
        /// The seconds asked for.
        given: u32,
    },
}

/// A workday.
#[derive(Clone, Debug, PartialEq)]
pub struct Day {
    /// The number of all trips, requested or not.
    pub trips: u64,
    /// The requests in the order of their times, numbered from 0.
    pub requests: Vec<Request>,
}

impl GeneratorConfig {
    /// Reports what is wrong with these values, if anything.
    ///
    /// # Errors
    /// If a value is out of its range.
    pub fn check(&self) -> Result<(), GeneratorError> {
        if !(1..=PEOPLE_MAX).contains(&self.people) {
            return Err(GeneratorError::People { given: self.people });
        }
        if self.wait_s > WAIT_MAX_S {
            return Err(GeneratorError::Wait { given: self.wait_s });
        }
        Ok(())
    }

    /// Makes the day.
    ///
    /// ```
    /// use tidemill_trip_grouping::generator::GeneratorConfig;
    /// let day = GeneratorConfig { people: 1000, ..GeneratorConfig::default() }.day()?;
    /// assert!(day.trips > 2000 && day.requests.len() > 300);
    /// # Ok::<(), tidemill_trip_grouping::generator::GeneratorError>(())
    /// ```
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn day(&self) -> Result<Day, GeneratorError> {
        self.check()?;
        Ok(day::make(self))
    }
}
