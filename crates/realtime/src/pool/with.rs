//! Settings of a pool, one after another.

use std::time::Duration;

use super::settings::{Policy, PoolSettings};
use crate::analysis::DeferrableServer;

impl PoolSettings {
    /// Its threads go before all threads of a lower priority, from 1 to 99 ([`Policy::Fifo`]).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidemill_realtime::{Policy, PoolSettings};
    ///
    /// let (budget, period) = (Duration::from_millis(20), Duration::from_millis(100));
    /// let settings = PoolSettings::new("words").with_priority(26).with_budget(budget, period).with_best_effort();
    /// assert_eq!(settings.policy, Policy::Fifo { priority: 26 });
    /// assert_eq!(settings.budget.unwrap().capacity_ns, 20_000_000);
    /// assert!(settings.best_effort && settings.check().is_ok());
    /// ```
    #[must_use]
    pub fn with_priority(self, priority: u32) -> Self {
        PoolSettings { policy: Policy::Fifo { priority }, ..self }
    }

    /// The processor time of all its threads together, in each period.
    #[must_use]
    pub fn with_budget(self, capacity: Duration, period: Duration) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let budget = DeferrableServer { capacity_ns: ns(capacity), period_ns: ns(period) };
        PoolSettings { budget: Some(budget), ..self }
    }

    /// It runs also if it cannot get what it asks for. Its status says what is missing.
    #[must_use]
    pub fn with_best_effort(self) -> Self {
        PoolSettings { best_effort: true, ..self }
    }
}
