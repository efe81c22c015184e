//! The names of the relations that a statement reads, as they are found while it is planned.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The names of the relations that a statement reads. Clones refer to the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadNames(Arc<Mutex<BTreeSet<String>>>);

impl ReadNames {
    pub fn add(&self, name: &str) {
        self.0.lock().insert(name.to_owned());
    }

    /// All of them; from here on there are none.
    pub fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.0.lock())
    }
}
