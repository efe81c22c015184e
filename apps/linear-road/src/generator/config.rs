//! The generator's settings, and which of them are refused.

use thiserror::Error;

use crate::event::{TIME_MAX_S, VID_MAX, XWAY_MAX};

/// The longest run, in minutes (section 2: seconds 0 to 10799).
pub const MINUTES_MAX: u16 = (TIME_MAX_S + 1) / 60;
/// The rate of one expressway at the end of the run in the benchmark's own data (section 13).
pub const PEAK_REPORTS_PER_SECOND: u32 = 1700;
/// The largest accepted rate of one expressway: beyond it a segment would hold some 15,000 cars.
pub const PEAK_REPORTS_PER_SECOND_MAX: u32 = 100_000;

/// The settings of a [`Generator`](super::Generator). The traffic is a pure function of these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratorConfig {
    /// Number of expressways, at least 1.
    pub expressways: u16,
    /// Length of the run in minutes, 1 to [`MINUTES_MAX`].
    pub minutes: u16,
    /// Selects one of the possible runs.
    pub seed: u64,
    /// The rate that each expressway reaches at the end of the rate curve, 1 to
    /// [`PEAK_REPORTS_PER_SECOND_MAX`].
    pub peak_reports_per_second: u32,
    /// Length of the rate curve in minutes; `None` for that of the run. A longer curve makes the beginning
    /// of a longer run; after the end of a shorter one the rate stays at its peak.
    pub curve_minutes: Option<u16>,
}

impl Default for GeneratorConfig {
    /// One expressway over three hours at the benchmark's rate, seed 1.
    fn default() -> Self {
        GeneratorConfig {
            expressways: 1,
            minutes: MINUTES_MAX,
            seed: 1,
            peak_reports_per_second: PEAK_REPORTS_PER_SECOND,
            curve_minutes: None,
        }
    }
}

impl GeneratorConfig {
    /// Length of the run in seconds.
    pub fn duration_s(&self) -> u32 {
        u32::from(self.minutes) * 60
    }

    /// Length of the rate curve in seconds.
    pub fn curve_s(&self) -> u32 {
        u32::from(self.curve_minutes.unwrap_or(self.minutes)) * 60
    }

    /// Reports what is wrong with these values, if anything.
    ///
    /// # Errors
    /// One variant of [`GeneratorError`] per value out of range; [`GeneratorError::TooManyCars`] if the
    /// vehicle ids of the run could exceed [`VID_MAX`].
    pub fn check(&self) -> Result<(), GeneratorError> {
        if self.expressways == 0 || self.expressways > XWAY_MAX {
            return Err(GeneratorError::Expressways { given: self.expressways });
        }
        if self.minutes == 0 || self.minutes > MINUTES_MAX {
            return Err(GeneratorError::Minutes { given: self.minutes });
        }
        if self.peak_reports_per_second == 0 || self.peak_reports_per_second > PEAK_REPORTS_PER_SECOND_MAX {
            return Err(GeneratorError::Peak { given: self.peak_reports_per_second });
        }
        if self.curve_minutes == Some(0) {
            return Err(GeneratorError::CurveMinutes);
        }
        let cars = self.cars_at_most();
        if cars > u64::from(VID_MAX) {
            return Err(GeneratorError::TooManyCars { cars });
        }
        Ok(())
    }

    /// A generous bound of the number of vehicle ids: all that are on the road at the peak, and one more for
    /// every eight reports (a trip has 45 on average).
    fn cars_at_most(&self) -> u64 {
        let on_the_road = u64::from(self.peak_reports_per_second) * 33;
        let gone = u64::from(self.peak_reports_per_second) * u64::from(self.duration_s()) / 8;
        u64::from(self.expressways) * (on_the_road + gone)
    }
}

/// A configuration for which no traffic can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GeneratorError {
    /// No expressway, or more than the event format has numbers for.
    #[error("expressways = {given}: a run has 1 to {XWAY_MAX} expressways")]
    Expressways {
        /// The number asked for.
        given: u16,
    },
    /// No time, or more than the benchmark's three hours.
    #[error("minutes = {given}: a run lasts 1 to {MINUTES_MAX} minutes")]
    Minutes {
        /// The length asked for, in minutes.
        given: u16,
    },
    /// No reports, or more than the simulated road carries.
    #[error(
        "peak_reports_per_second = {given}: an expressway reaches 1 to {PEAK_REPORTS_PER_SECOND_MAX}; the \
         benchmark's own data has {PEAK_REPORTS_PER_SECOND}; for more load take more expressways"
    )]
    Peak {
        /// The rate asked for, in reports per second.
        given: u32,
    },
    /// A rate curve without length.
    #[error(
        "curve_minutes = 0: the rate curve needs at least one minute, or none given for the run's length"
    )]
    CurveMinutes,
    /// The vehicle ids could run out.
    #[error(
        "the run may need {cars} vehicle ids, and there are {VID_MAX}: take fewer expressways, a lower \
         peak_reports_per_second or fewer minutes"
    )]
    TooManyCars {
        /// Bound of the number of cars.
        cars: u64,
    },
}
