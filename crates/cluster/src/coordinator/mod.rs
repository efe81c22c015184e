//! The coordinator: a few small records on which all nodes agree.
//!
//! It holds what a cluster decides (members, generation, placement, epochs of logs, the head of the catalogue). It is asked
//! when something changes, never per cycle: without it decisions stop, and the flow continues.
//!
//! A record is changed by **compare-and-set**: the change names the revision that it was made from, and is refused if the
//! record has another one. Revisions of one cluster only grow, so the revision that a change was given is its fencing token.
//! There are no locks, and nothing depends on anybody's clock.
//!
//! | address | where records are | change | watch |
//! |---|---|---|---|
//! | `file:DIR` | one file, replaced as a whole | under a lock that the system releases when a process dies | looks every 20 ms |
//! | `postgres://...` | a table | one transaction, sent at once | `LISTEN` |
//! | `etcd://HOST:PORT,...` | keys, by the JSON gateway | a transaction of etcd | a watch of etcd |
//!
//! ```
//! use std::time::Duration;
//! use tidemill_cluster::coordinator::{CoordinatorError, open, settle};
//!
//! let folder = tempfile::tempdir()?;
//! let address = format!("file:{}", folder.path().display());
//! let timeout = Duration::from_secs(5);
//! let mut one = open(&address, "metrics", timeout)?;
//! let mut other = open(&address, "metrics", timeout)?;
//!
//! let first = settle(&mut *one, "leader", None, b"a", timeout)?;
//! assert_eq!(other.read("leader")?.unwrap().value, b"a");
//! let second = settle(&mut *other, "leader", Some(first), b"b", timeout)?;
//! assert!(second > first);
//! // The first node still thinks that it leads.
//! let refused = settle(&mut *one, "leader", Some(first), b"a", timeout);
//! assert!(matches!(refused, Err(CoordinatorError::Stale { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checks;
mod error;
mod etcd;
mod folder;
mod lease;
mod open;
mod postgres;
mod record;
mod settle;

use std::collections::BTreeMap;
use std::time::Duration;

pub use error::CoordinatorError;
pub use lease::LeaseObserver;
pub use open::open;
pub use record::{Record, Revision, Stamp};
pub use settle::settle;

/// A connection to the records of one cluster. Each call returns within the time that [`open`] was given, [`Coordinator::wait`]
/// within the time that it is given more.
pub trait Coordinator: Send {
    /// Returns where the records are, for messages. It has no secrets.
    fn place(&self) -> &str;

    /// Returns a record; `None` if there is none. It is the newest one: a change that was confirmed to anybody is seen.
    ///
    /// # Errors
    /// If the coordinator does not answer, or refuses.
    fn read(&mut self, key: &str) -> Result<Option<Record>, CoordinatorError>;

    /// Returns the records whose keys begin with `prefix`, all as of one moment.
    ///
    /// # Errors
    /// If the coordinator does not answer, or refuses.
    fn list(&mut self, prefix: &str) -> Result<BTreeMap<String, Record>, CoordinatorError>;

    /// Changes a record if its revision is `expected` (`None`: there must be no record). Returns its new revision, which is
    /// larger than all that the cluster had before. A change with the same stamp may be sent again: it counts once.
    /// [`settle`] does so.
    ///
    /// # Errors
    /// [`CoordinatorError::Stale`] if the record has another revision, [`CoordinatorError::Unknown`] if the change may or may
    /// not have been made; otherwise it was not made.
    fn compare_and_set(
        &mut self,
        key: &str,
        expected: Option<Revision>,
        stamp: Stamp,
        value: &[u8],
    ) -> Result<Revision, CoordinatorError>;

    /// Waits until a record has a revision larger than `seen`, and returns the largest revision that it knows; `seen` if the time
    /// is over. The caller then reads what it is interested in, so a change that is missed is never one that is lost.
    ///
    /// # Errors
    /// If the coordinator does not answer, or refuses.
    fn wait(&mut self, seen: Revision, at_most: Duration) -> Result<Revision, CoordinatorError>;
}
