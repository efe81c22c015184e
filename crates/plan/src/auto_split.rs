//! Lets the engine choose a split plan.

use std::time::Duration;

use tidemill_split::LatticeRule;
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
    /// The engine takes the lattice that this rule makes for the desired rate, whatever other plans would cost. `None`,
    /// the default: it chooses from all plans.
    pub lattice: Option<LatticeRule>,
    /// The shape of the split stays, and only the size of its window is searched.
    pub keeps_shape: bool,
    /// Whether the size of the window is searched while the query runs, if the plan deals windows to splitters. Otherwise it
    /// stays as it is.
    pub searches_window: bool,
    /// Measurements of an earlier run. The first cycle is split by the plan that is best according to them, until this
    /// run has measured.
    pub profile: Option<SplitProfile>,
}

impl Default for AutoSplit {
    fn default() -> Self {
        let every = Some(Duration::from_secs(1));
        AutoSplit {
            desired_rate: f64::INFINITY,
            every,
            lattice: None,
            keeps_shape: false,
            searches_window: true,
            profile: None,
        }
    }
}

impl AutoSplit {
    /// Takes the cheapest plan that reaches this rate, in events per second.
    pub fn for_rate(desired_rate: f64) -> Self {
        AutoSplit { desired_rate, ..AutoSplit::default() }
    }

    /// Takes the lattice that a rule makes for this rate, in events per second.
    ///
    /// ```
    /// use tidemill_plan::AutoSplit;
    /// use tidemill_split::{LatticeRule, SplittersBy};
    /// let rule = LatticeRule { splitters: SplittersBy::Heuristic, is_tree: true };
    /// assert_eq!(AutoSplit::by_rule(rule, 2e6).lattice, Some(rule));
    /// ```
    pub fn by_rule(rule: LatticeRule, desired_rate: f64) -> Self {
        AutoSplit { lattice: Some(rule), ..AutoSplit::for_rate(desired_rate) }
    }

    /// The engine searches the size of the window, and changes nothing else about the split.
    ///
    /// ```
    /// use tidemill_plan::AutoSplit;
    /// let auto = AutoSplit::only_window();
    /// assert!(auto.keeps_shape && auto.searches_window);
    /// ```
    pub fn only_window() -> Self {
        AutoSplit { keeps_shape: true, ..AutoSplit::default() }
    }

    /// The engine does not choose; only the program changes the split.
    pub fn by_hand() -> Self {
        AutoSplit { every: None, ..AutoSplit::default() }
    }
}
