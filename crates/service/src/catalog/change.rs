//! Queries that a session is changing: replacing, stopping, starting or dropping.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_engine::Cause;

/// The queries that are being changed, each with what is being done to it.
#[derive(Clone, Default)]
pub(crate) struct Changes(Arc<Mutex<BTreeMap<String, &'static str>>>);

/// Keeps others from changing a query, until it is dropped.
#[must_use]
pub(crate) struct Change {
    changes: Changes,
    name: String,
}

impl Changes {
    /// One session at a time changes a query. `done` says in messages what is done to it.
    ///
    /// # Errors
    /// If another session is changing it.
    pub fn begin(&self, name: &str, done: &'static str) -> Result<Change, Cause> {
        let mut changing = self.0.lock();
        if let Some(doing) = changing.get(name) {
            return Err(Cause::operation(format!(
                "'{name}' is being {doing} already; wait until that is done, or cancel it"
            )));
        }
        changing.insert(name.to_owned(), done);
        Ok(Change { changes: self.clone(), name: name.to_owned() })
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.changes.0.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_changed_by_one_at_a_time() {
        let changes = Changes::default();
        let one = changes.begin("v", "replaced").unwrap();
        let refused = changes.begin("v", "stopped").err().unwrap().to_string();
        assert!(refused.contains("'v' is being replaced already"), "{refused}");
        let other = changes.begin("w", "stopped").unwrap();
        drop(one);
        drop(changes.begin("v", "stopped").unwrap());
        drop(other);
    }
}
