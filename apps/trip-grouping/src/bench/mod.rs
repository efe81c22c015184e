//! The experiments of the paper (III 6), repeated on the generator's city.
//!
//! Its cluster had a node for each group. Here each group is grouped by itself, and the slowest one counts, with the time
//! that the partitioner takes for all of them: what a machine with enough cores would need. Times are processor time, so
//! that other programs on the machine do not count.

mod answers;
mod charts;
mod goals;
mod measure;
mod statements;
mod tables;

pub use answers::{AnswerTimes, answer_times};
pub use charts::charts;
pub use goals::goals;
pub use measure::{Measured, Serial, measure, serial};
pub use statements::{Statement, open_questions, statements};
pub use tables::{answers_table, by_groups_tables, by_history_tables, by_load_tables, serial_table};

use tidemill_engine::Cause;

use crate::criteria::Criteria;
use crate::generator::GeneratorConfig;
use crate::partitioner::{PARTITIONINGS, PartitionerPlan, Partitioning};
use crate::request::Request;

/// Every n-th request is part of a load.
pub const LOADS: [usize; 5] = [16, 8, 4, 2, 1];
/// The numbers of groups that are compared.
pub const GROUPS: [u32; 4] = [2, 4, 8, 16];
/// How often borders are renewed, in seconds.
pub const PERIOD_S: i64 = 600;

/// From how many seconds before borders are computed, where the paper leaves open how long is best.
pub const HISTORIES_S: [i64; 4] = [600, 1800, 3600, 7200];
/// How often borders are renewed, in seconds, where the paper leaves open how often is best.
pub const PERIODS_S: [i64; 3] = [60, 600, 3600];

/// The requests of a load.
pub fn load_of(requests: &[Request], every: usize) -> Vec<Request> {
    requests.iter().step_by(every.max(1)).copied().collect()
}

/// The partitionings that are compared: all that divide.
pub fn compared() -> impl Iterator<Item = Partitioning> {
    PARTITIONINGS.into_iter().map(|(_, partitioning)| partitioning).skip(1)
}

fn histories() -> impl Iterator<Item = (i64, i64)> {
    HISTORIES_S.into_iter().flat_map(|history_s| PERIODS_S.map(|period_s| (history_s, period_s)))
}

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Results {
    /// One group for all, at each load: in the order of arrival.
    pub serial: Vec<Serial>,
    /// The same with the cheapest share first.
    pub cheapest_first: Vec<Serial>,
    /// The full load, for each number of groups and each partitioning.
    pub by_groups: Vec<Measured>,
    /// Sixteen groups, for each load and each partitioning.
    pub by_load: Vec<Measured>,
    /// Adaptive k-d trees in sixteen groups with the full load, for each history and each period.
    pub by_history: Vec<(i64, i64, Measured)>,
}

impl Results {
    /// Measures a city's day; static partitionings learn from another day of the same city. Calls `tell` with what comes
    /// next.
    ///
    /// # Errors
    /// If there can be no such city, or the criteria are out of range.
    pub fn measure(
        city: GeneratorConfig,
        criteria: Criteria,
        mut tell: impl FnMut(&str),
    ) -> Result<Results, Cause> {
        let user = |error: &dyn std::error::Error| Cause::user(error.to_string());
        criteria.check().map_err(|error| user(&error))?;
        let day = city.day().map_err(|error| user(&error))?;
        let earlier = GeneratorConfig { seed: city.seed.wrapping_add(1), ..city };
        let history = earlier.day().map_err(|error| user(&error))?.requests;
        let mut results = Results {
            serial: Vec::new(),
            cheapest_first: Vec::new(),
            by_groups: Vec::new(),
            by_load: Vec::new(),
            by_history: Vec::new(),
        };
        for every in LOADS {
            tell(&format!("one group, 1/{every} of the load"));
            let requests = load_of(&day.requests, every);
            results.serial.push(serial(every, &requests, criteria));
            let criteria = Criteria { order: crate::criteria::Order::CheapestFirst, ..criteria };
            results.cheapest_first.push(serial(every, &requests, criteria));
        }
        for partitioning in compared() {
            for groups in GROUPS {
                tell(&format!("{partitioning}, {groups} groups"));
                let plan = PartitionerPlan::new(partitioning, groups, PERIOD_S, &history);
                let plan = plan.map_err(|error| user(&error))?;
                results.by_groups.push(measure(partitioning, 1, &day.requests, &plan, criteria));
            }
            for every in LOADS {
                tell(&format!("{partitioning}, 1/{every} of the load"));
                let plan = PartitionerPlan::new(partitioning, 16, PERIOD_S, &history);
                let plan = plan.map_err(|error| user(&error))?;
                let requests = load_of(&day.requests, every);
                results.by_load.push(measure(partitioning, every, &requests, &plan, criteria));
            }
        }
        for (history_s, period_s) in histories() {
            tell(&format!("borders from the last {history_s} s, renewed after {period_s} s"));
            let plan = PartitionerPlan::new(Partitioning::AdaptiveKdTree, 16, period_s, &[]);
            let plan = plan.map_err(|error| user(&error))?.with_history(history_s);
            let measured = measure(Partitioning::AdaptiveKdTree, 1, &day.requests, &plan, criteria);
            results.by_history.push((history_s, period_s, measured));
        }
        Ok(results)
    }

    /// What was measured with borders from this history that are renewed after this period.
    pub fn history(&self, history_s: i64, period_s: i64) -> Option<&Measured> {
        let found =
            self.by_history.iter().find(|(history, period, _)| (*history, *period) == (history_s, period_s));
        found.map(|(.., measured)| measured)
    }

    /// What was measured for the full load in this many groups.
    pub fn groups(&self, partitioning: Partitioning, groups: u32) -> Option<&Measured> {
        self.by_groups
            .iter()
            .find(|measured| (measured.partitioning, measured.groups) == (partitioning, groups))
    }

    /// What was measured for a load in sixteen groups.
    pub fn load(&self, partitioning: Partitioning, every: usize) -> Option<&Measured> {
        self.by_load.iter().find(|measured| (measured.partitioning, measured.every) == (partitioning, every))
    }

    /// What was measured for a load in one group.
    pub fn serial(&self, every: usize) -> Option<&Serial> {
        self.serial.iter().find(|serial| serial.every == every)
    }
}
