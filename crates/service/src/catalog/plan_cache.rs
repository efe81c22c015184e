//! The plans of queries that sessions execute again and again (decision 0105).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tidemill_sql::{CachedPlan, ParameterType, Statement};

/// The most plans of a database.
const PLANS_MAX: usize = 256;
/// The longest text of a query whose plan is kept.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The plans of queries against one version of the catalogue, for all sessions. The ones that were used least recently go first.
#[derive(Default)]
pub(crate) struct PlanCache(Mutex<State>);

#[derive(Default)]
struct State {
    /// The version of the catalogue that they were planned against.
    version: u64,
    plans: HashMap<Planned, Entry>,
    /// How often a plan was asked for.
    uses: u64,
}

struct Entry {
    /// `None`: the query is to be planned each time.
    plan: Option<Arc<CachedPlan>>,
    /// When it was last used.
    used: u64,
}

/// What was planned: what a plan depends on beside the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Planned {
    text: String,
    kinds: Vec<ParameterType>,
    /// Whether names in quotes may be files.
    opens_files: bool,
}

impl Planned {
    /// `None` if the text is too long for its plan to be kept.
    pub fn new(statement: &Statement, kinds: Vec<ParameterType>, opens_files: bool) -> Option<Planned> {
        let is_short = statement.text.len() <= TEXT_BYTES_MAX;
        is_short.then(|| Planned { text: statement.text.clone(), kinds, opens_files })
    }

    /// The types of its parameters.
    pub fn kinds(&self) -> &[ParameterType] {
        &self.kinds
    }
}

impl PlanCache {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// From here on, plans against this version are kept, and no others: they would keep the rows of views that are dropped.
    pub fn begin(&self, version: u64) {
        let mut state = self.lock();
        if version > state.version {
            *state = State { version, ..State::default() };
        }
    }

    /// The plan against this version of the catalogue, which is made if it is not there; `None`: the query is to be planned each
    /// time.
    pub fn get<E>(
        &self,
        version: u64,
        planned: &Planned,
        plan: impl FnOnce() -> Result<Option<CachedPlan>, E>,
    ) -> Result<Option<Arc<CachedPlan>>, E> {
        if let Some(known) = self.lock().get(version, planned) {
            return Ok(known);
        }
        // Others need not wait meanwhile. If two plan the same, the second one counts.
        let plan = plan()?.map(Arc::new);
        self.lock().keep(version, planned, plan.clone());
        Ok(plan)
    }
}

impl State {
    fn get(&mut self, version: u64, planned: &Planned) -> Option<Option<Arc<CachedPlan>>> {
        if self.version != version {
            return None;
        }
        self.uses += 1;
        let entry = self.plans.get_mut(planned)?;
        entry.used = self.uses;
        Some(entry.plan.clone())
    }

    fn keep(&mut self, version: u64, planned: &Planned, plan: Option<Arc<CachedPlan>>) {
        // A transaction reads an older version, or the catalogue has changed since.
        if version != self.version {
            return;
        }
        if self.plans.len() >= PLANS_MAX && !self.plans.contains_key(planned) {
            let oldest =
                self.plans.iter().min_by_key(|(_, entry)| entry.used).map(|(planned, _)| planned.clone());
            oldest.map(|oldest| self.plans.remove(&oldest));
        }
        self.uses += 1;
        self.plans.insert(planned.clone(), Entry { plan, used: self.uses });
    }
}

#[cfg(test)]
mod tests {
    use tidemill_sql::{Planner, divide};

    use super::*;

    fn statement(text: &str) -> Statement {
        divide(text, "test").unwrap()[0].read().unwrap()
    }

    fn planned(text: &str) -> Planned {
        Planned::new(&statement(text), Vec::new(), false).unwrap()
    }

    /// Asks for a plan; whether it had to be made.
    fn is_made(plans: &PlanCache, version: u64, text: &str) -> bool {
        let mut is_made = false;
        let made = plans.get::<()>(version, &planned(text), || {
            is_made = true;
            Ok(Planner::new().keep(&statement(text), &[]))
        });
        assert!(made.unwrap().is_some(), "{text}");
        is_made
    }

    #[test]
    fn a_plan_is_made_once_for_each_version_of_the_catalogue() {
        let plans = PlanCache::default();
        let one = "SELECT 1 AS one";
        plans.begin(4);
        assert!(is_made(&plans, 4, one));
        assert!(!is_made(&plans, 4, one));
        plans.begin(5);
        assert!(plans.lock().plans.is_empty());
        assert!(is_made(&plans, 5, one));
        assert!(!is_made(&plans, 5, one));
        // A transaction that began before does not take the newer plan, nor its place.
        assert!(is_made(&plans, 4, one));
        assert!(!is_made(&plans, 5, one));
    }

    #[test]
    fn the_plans_that_were_used_least_recently_go_first() {
        let plans = PlanCache::default();
        plans.begin(1);
        let text = |number: usize| format!("SELECT {number} AS n");
        assert!((0..PLANS_MAX).all(|number| is_made(&plans, 1, &text(number))));
        assert!(!is_made(&plans, 1, &text(0)));
        assert!(is_made(&plans, 1, &text(PLANS_MAX)));
        assert_eq!(plans.lock().plans.len(), PLANS_MAX);
        assert!(!is_made(&plans, 1, &text(0)));
        assert!(is_made(&plans, 1, &text(1)));
    }

    #[test]
    fn that_a_query_has_no_plan_to_keep_is_kept_too() {
        let plans = PlanCache::default();
        plans.begin(1);
        let mut asked = 0;
        for _ in 0..2 {
            let found = plans.get::<()>(1, &planned("SELECT 2 AS two"), || {
                asked += 1;
                Ok(None)
            });
            assert!(found.unwrap().is_none());
        }
        assert_eq!(asked, 1);
    }
}
