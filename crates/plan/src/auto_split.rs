//! Leaving the choice of a split plan to the engine.

use std::time::Duration;

use tidemill_split::profile::SplitProfile;

/// The split of an input is chosen from what splitting its rows costs and how they are spread, and chosen again
/// while the query runs, when that changes. The results do not depend on it.
///
/// ```
/// use tidemill_plan::AutoSplit;
/// let enough = AutoSplit::for_rate(2e6);
/// assert!(AutoSplit::default().desired_rate > enough.desired_rate);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AutoSplit {
    /// The events per second that must be reached: the cheapest plan that does is taken; infinite, as it is by
    /// default: the fastest.
    pub desired_rate: f64,
    /// How long a choice stands before the next one; `None`: the engine chooses nothing, and the split changes only
    /// when the program says so.
    pub every: Option<Duration>,
    /// What an earlier run has measured: the first cycle is split by what it says is best, until this run has measured.
    pub profile: Option<SplitProfile>,
}

impl Default for AutoSplit {
    fn default() -> Self {
        AutoSplit { desired_rate: f64::INFINITY, every: Some(Duration::from_secs(1)), profile: None }
    }
}

impl AutoSplit {
    /// The cheapest plan that reaches so many events per second.
    pub fn for_rate(desired_rate: f64) -> Self {
        AutoSplit { desired_rate, ..AutoSplit::default() }
    }

    /// No choice of the engine's: the split changes when the program says so.
    pub fn by_hand() -> Self {
        AutoSplit { every: None, ..AutoSplit::default() }
    }
}
