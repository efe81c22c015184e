//! What a runtime knows about a query, sink or view by its name, and whose turn it is to read.

use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::{Cause, JournalStatus};
use tidemill_sql::{Planner, RelationKind, StatementKind, ViewHandle};

use crate::runtime::readers::SessionTurns;
use crate::runtime::subscription::Future;
use crate::{Cancellation, Runtime};

impl Runtime {
    /// The turns of a session's queries over tables and views.
    pub(crate) fn turns(&self, cancellation: &Cancellation) -> Arc<SessionTurns> {
        Arc::new(SessionTurns::new(self.readers().turns.clone(), cancellation.clone()))
    }

    /// The plan of the query that writes to this sink or view, as it was when it started, and what the query has done. `None`
    /// if none was started, or it failed to start.
    pub fn explain_output(&self, output: &str) -> Option<String> {
        let query = self.query_of_output(output)??;
        // A description takes time, and is made without the lock.
        query.explain()
    }

    /// After a definition that changes what runs beside each other: queries with a deadline close their cycles accordingly, from
    /// the next one on.
    pub(crate) fn keep_deadlines(&self, kind: &StatementKind) {
        let has_changed = match kind {
            StatementKind::CreateSink(_)
            | StatementKind::CreatePool(_)
            | StatementKind::InsertInto { .. } => true,
            StatementKind::Drop { kind, .. } => matches!(kind, RelationKind::Sink | RelationKind::Pool),
            _ => false,
        };
        if has_changed {
            let planner = Planner::at(self.defined_catalog(), self.defaults().clone());
            self.running().iter().for_each(|query| query.keep_deadline_beside(&planner));
        }
    }

    /// The bound on the time from arrival to result of a query.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn max_latency(&self, name: &str) -> Result<Option<Duration>, Cause> {
        Ok(self.query(name)?.max_latency)
    }

    /// What the journal of the database has, and what its queries keep it for; `None`: it has none. It reads from the disk.
    ///
    /// ```
    /// use tidemill_service::{MemoryCatalogLog, Runtime};
    /// use tidemill_sql::Planner;
    /// let folder = tempfile::tempdir()?;
    /// let runtime = Runtime::open_journaled(Planner::new(), Box::new(MemoryCatalogLog), folder.path())?;
    /// assert!(runtime.journal_status().unwrap().queries.is_empty());
    /// assert!(Runtime::new(Planner::new()).journal_status().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn journal_status(&self) -> Option<JournalStatus> {
        let mut status = self.clock().journal_status()?;
        // A query that has replaced another one has a name of its own there.
        for query in self.running() {
            let own = status.queries.iter_mut().find(|needs| needs.name == query.clock_name());
            if let Some(needs) = own {
                needs.name.clone_from(&query.identity.kept.name);
            }
        }
        Some(status)
    }

    /// The materialized view of this name, if it was started. Its rows stay when its query has ended.
    pub fn running_view(&self, name: &str) -> Option<ViewHandle> {
        self.catalog_store().view(name)
    }

    /// The materialized views that were started, in the order of their names. Their rows stay when their queries have ended.
    ///
    /// ```
    /// use tidemill_service::Runtime;
    /// use tidemill_sql::Planner;
    /// assert!(Runtime::new(Planner::new()).running_views().is_empty());
    /// ```
    pub fn running_views(&self) -> Vec<ViewHandle> {
        self.catalog_store().views()
    }

    /// Whether there will be more changes of a view that was started.
    pub(crate) fn future_of(&self, view: &ViewHandle) -> Future {
        if !self.running_view(view.name()).is_some_and(|newest| newest.is_same(view)) {
            return Future::Gone;
        }
        let Some(query) = self.query_of_output(view.name()) else { return Future::Over };
        match query.map(|query| query.wait_for(Duration::ZERO)) {
            None | Some(None) => Future::Open,
            Some(Some(Ok(_))) => Future::Over,
            Some(Some(Err(cause))) => Future::Failed(cause),
        }
    }
}
