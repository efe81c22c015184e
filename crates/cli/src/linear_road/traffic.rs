//! The arguments that select the traffic to generate.

use clap::Args;
use tidemill_linear_road::generator::{GeneratorConfig, MINUTES_MAX, PEAK_REPORTS_PER_SECOND};

/// Which traffic to generate.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Generated traffic")]
pub(crate) struct Traffic {
    /// Number of expressways
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) expressways: u16,
    /// Length in simulated minutes, at most 180
    #[arg(long, value_name = "N", default_value_t = 30,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(MINUTES_MAX)))]
    pub(crate) minutes: u16,
    /// Seed of the random numbers; the same seed generates the same traffic
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) seed: u64,
    /// Reports per second and expressway at the peak
    #[arg(long, value_name = "N", default_value_t = PEAK_REPORTS_PER_SECOND)]
    pub(crate) peak: u32,
    /// Minutes over which the traffic grows to its peak; by default the length of the run
    #[arg(long, value_name = "N")]
    pub(crate) curve_minutes: Option<u16>,
}

impl Traffic {
    pub(crate) fn config(self) -> GeneratorConfig {
        GeneratorConfig {
            expressways: self.expressways,
            minutes: self.minutes,
            seed: self.seed,
            peak_reports_per_second: self.peak,
            curve_minutes: self.curve_minutes,
        }
    }

    /// A description in words.
    pub(crate) fn describe(self) -> String {
        let plural = if self.expressways == 1 { "" } else { "s" };
        format!("{} expressway{plural}, {} min, seed {}", self.expressways, self.minutes, self.seed)
    }
}
