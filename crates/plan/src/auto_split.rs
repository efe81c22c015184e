//! Lets the engine choose a split plan.

use std::time::Duration;

use tidemill_split::profile::SplitProfile;

/// The engine chooses the split of an input from measured costs of splitting and from how the rows are spread, and
/// chooses again while the query runs if these change. The results do not depend on it.
///
/// ```
/// use tidemill_plan::AutoSplit;
/// let enough = AutoSplit::for_rate(2e6);
/// assert!(AutoSplit::default().desired_rate > enough.desired_rate);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AutoSplit {
    /// The rate to reach, in events per second. The cheapest plan that reaches it is taken. Infinite, the default,
    /// takes the fastest plan.
    pub desired_rate: f64,
    /// How long a choice stands before the next one. `None`: the engine chooses nothing, and only the program changes
    /// the split.
    pub every: Option<Duration>,
    /// Measurements of an earlier run. The first cycle is split by the plan that is best according to them, until this
    /// run has measured.
    pub profile: Option<SplitProfile>,
}

impl Default for AutoSplit {
    fn default() -> Self {
        AutoSplit { desired_rate: f64::INFINITY, every: Some(Duration::from_secs(1)), profile: None }
    }
}

impl AutoSplit {
    /// Takes the cheapest plan that reaches this rate, in events per second.
    pub fn for_rate(desired_rate: f64) -> Self {
        AutoSplit { desired_rate, ..AutoSplit::default() }
    }

    /// The engine does not choose; only the program changes the split.
    pub fn by_hand() -> Self {
        AutoSplit { every: None, ..AutoSplit::default() }
    }
}
