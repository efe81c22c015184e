//! What a share must fulfil, and how often shares are made.

use thiserror::Error;

use crate::request::TIME_MAX;

/// The largest share that can be asked for: a minibus.
pub const SHARE_MAX: usize = 8;

/// In which order expiring requests get their shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One after the other, in the order of arrival: as the paper's procedure does it (III 4.1).
    #[default]
    Arrival,
    /// The cheapest share of all first: as the paper defines the heuristic (III 3.3).
    CheapestFirst,
}

/// The parameters of grouping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criteria {
    /// The most people in a share, 2 to [`SHARE_MAX`].
    pub max_share: usize,
    /// The part of the cost that each member of a share saves at least, 0 to 1. If a request finds no such share, it
    /// goes alone.
    pub min_savings: f64,
    /// The grouping cycle: shares are made at its multiples, of all that expires before the next one. In the unit of
    /// the requests' times.
    pub cycle: i64,
    /// Who is served first.
    pub order: Order,
}

impl Default for Criteria {
    /// As in the experiments of the paper: four people, a fifth saved, 60 seconds.
    fn default() -> Self {
        Criteria { max_share: 4, min_savings: 0.2, cycle: 60, order: Order::Arrival }
    }
}

/// Criteria that no grouping can follow.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum CriteriaError {
    /// Too few or too many people in a share.
    #[error("max_share is {given}; a share has 2 to {SHARE_MAX} people")]
    MaxShare {
        /// The number asked for.
        given: usize,
    },
    /// Not a part of a cost.
    #[error("min_savings is {given}; it is a fraction of the cost, from 0 to 1")]
    MinSavings {
        /// The part asked for.
        given: f64,
    },
    /// No cycle at all, or one beyond all times.
    #[error("the grouping cycle is {given}; it must be positive, and at most {TIME_MAX}")]
    Cycle {
        /// The length asked for.
        given: i64,
    },
}

impl Criteria {
    /// Reports what is wrong with these values, if anything.
    ///
    /// # Errors
    /// If a value is out of its range.
    pub fn check(&self) -> Result<(), CriteriaError> {
        if !(2..=SHARE_MAX).contains(&self.max_share) {
            return Err(CriteriaError::MaxShare { given: self.max_share });
        }
        if !(0.0..=1.0).contains(&self.min_savings) {
            return Err(CriteriaError::MinSavings { given: self.min_savings });
        }
        if !(1..=TIME_MAX).contains(&self.cycle) {
            return Err(CriteriaError::Cycle { given: self.cycle });
        }
        Ok(())
    }

    /// The largest savings that any share can have: with `n` people, the cost of each is at least `1 / n`.
    ///
    /// ```
    /// use tidemill_trip_grouping::criteria::Criteria;
    /// assert_eq!(Criteria { max_share: 4, ..Criteria::default() }.savings_max(), 0.75);
    /// ```
    pub fn savings_max(&self) -> f64 {
        1.0 - 1.0 / self.max_share as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_criteria_are_refused() {
        let usual = Criteria::default();
        assert_eq!(usual.check(), Ok(()));
        for given in [0, 1, 9] {
            let found = Criteria { max_share: given, ..usual }.check();
            assert_eq!(found, Err(CriteriaError::MaxShare { given }));
        }
        for given in [-0.1, 1.1] {
            let found = Criteria { min_savings: given, ..usual }.check();
            assert_eq!(found, Err(CriteriaError::MinSavings { given }));
        }
        assert!(Criteria { min_savings: f64::NAN, ..usual }.check().is_err());
        for given in [-1, 0, i64::MAX] {
            assert_eq!(Criteria { cycle: given, ..usual }.check(), Err(CriteriaError::Cycle { given }));
        }
    }
}
