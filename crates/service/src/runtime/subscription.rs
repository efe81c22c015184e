//! The changes of a materialized view, for a session that waits for them.

use std::thread;
use std::time::Duration;

use tidemill_engine::Cause;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_sql::{ViewChanges, ViewHandle};

use crate::backoff::Backoff;
use crate::runtime::cancellation::StatementCancellation;
use crate::{Cancellation, Runtime};

/// A waiting subscriber notices a change, or that it was cancelled, at most this late.
pub(crate) const LOOK_MAX: Duration = Duration::from_millis(20);

/// Whether there will be more changes of a view.
pub(crate) enum Future {
    /// Its query runs.
    Open,
    /// Its query has ended, and the rows stay as they are.
    Over,
    /// There is no such view any more.
    Gone,
    /// Its query has failed.
    Failed(Cause),
}

/// The rows of a materialized view, and then its changes as they come, each with its cycle. It is an iterator that ends when
/// the query of the view has ended, and fails when the view is dropped or replaced, or its query fails.
///
/// It reads the versions that the view keeps anyway. So the query does not notice it, and nothing waits for a subscriber who
/// does not read: it fails as soon as the view no longer keeps the cycles that it has missed.
///
/// ```
/// use tidemill_service::{Reply, Runtime, Session};
/// use tidemill_sql::{Planner, parse};
///
/// let runtime = Runtime::new(Planner::new());
/// let mut session = Session::new(&runtime);
/// let mut execute = |session: &mut Session, text| session.execute(&parse(text, "example").unwrap()[0]).unwrap();
/// execute(&mut session, "CREATE MATERIALIZED VIEW small AS SELECT value FROM sequence(count => 3)");
/// let pipeline = session.pipeline_of(&["small"]).unwrap();
/// runtime.start("small", pipeline, false).unwrap();
/// let Reply::Changes(changes) = execute(&mut session, "SUBSCRIBE TO small") else { panic!("it is a subscription") };
/// let rows = changes.map(|rows| rows.unwrap().num_rows()).sum::<usize>();
/// assert_eq!(rows, 3);
/// ```
pub struct Subscription {
    schema: SchemaRef,
    changes: Box<dyn Iterator<Item = Result<RecordBatch, Cause>> + Send>,
}

impl Subscription {
    pub(crate) fn new(
        schema: SchemaRef,
        changes: impl Iterator<Item = Result<RecordBatch, Cause>> + Send + 'static,
    ) -> Subscription {
        Subscription { schema, changes: Box::new(changes) }
    }

    /// Follows a view of this process.
    pub(crate) fn here(runtime: &Runtime, view: ViewHandle, cancellation: Cancellation) -> Subscription {
        let (changes, cancellation) = (view.changes(), cancellation.of_statement());
        let schema = SchemaRef::clone(changes.schema());
        Subscription::new(schema, ChangesHere { runtime: runtime.clone(), view, changes, cancellation })
    }

    /// The columns: `cycle`, `change`, `gateway` if the view has parts at gateways, and those of the view.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for Subscription {
    type Item = Result<RecordBatch, Cause>;

    fn next(&mut self) -> Option<Self::Item> {
        self.changes.next()
    }
}

/// The changes of a view whose query runs in this process.
struct ChangesHere {
    runtime: Runtime,
    view: ViewHandle,
    changes: ViewChanges,
    cancellation: StatementCancellation,
}

impl Iterator for ChangesHere {
    type Item = Result<RecordBatch, Cause>;

    fn next(&mut self) -> Option<Self::Item> {
        let backoff = Backoff::up_to(LOOK_MAX);
        loop {
            if self.cancellation.is_cancelled() {
                return Some(Err(cancelled()));
            }
            // Before the last look at the rows: what came until the end is given.
            let future = self.runtime.future_of(&self.view);
            if let Some(rows) = self.changes.next_rows().transpose() {
                return Some(rows);
            }
            match future {
                Future::Open => thread::sleep(backoff.wait()),
                Future::Over => return None,
                Future::Gone => return Some(Err(gone(self.view.name()))),
                Future::Failed(cause) => return Some(Err(failed(self.view.name(), cause))),
            }
        }
    }
}

pub(crate) fn cancelled() -> Cause {
    Cause::operation("the subscription was cancelled")
}

/// There is no such view any more.
pub(crate) fn gone(view: &str) -> Cause {
    Cause::operation(format!(
        "view '{view}' was dropped or replaced, and the subscription ends with it; SUBSCRIBE TO it again once there is \
         one"
    ))
}

/// The query of a view has failed.
pub(crate) fn failed(view: &str, cause: Cause) -> Cause {
    let reason = cause.to_string();
    cause.map_message(|_| format!("the query of view '{view}' has failed: {reason}"))
}
