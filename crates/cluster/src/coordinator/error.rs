//! Why a coordinator did not do what it was asked.

use thiserror::Error;

use super::{Record, Revision};

/// An error of a coordinator, which says whether the change may have been made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CoordinatorError {
    /// The record was changed by somebody else. Read it, and decide again.
    #[error(
        "the record '{key}' at {place} {}, and the change was made from {}; read it again",
        state_of(.found.as_deref()),
        origin_of(*.expected)
    )]
    Stale {
        /// Where.
        place: String,
        /// Which record.
        key: String,
        /// The revision that the change was made from.
        expected: Option<Revision>,
        /// The record as it is now.
        found: Option<Box<Record>>,
    },
    /// The coordinator could not be reached or did not answer, and nothing was changed.
    #[error(
        "the coordinator at {place} is not available: {reason}. Nodes continue to work, but nothing can be decided"
    )]
    Unavailable {
        /// Where.
        place: String,
        /// Why.
        reason: String,
    },
    /// The connection was lost, or the time was over, before the answer to a change came: it may have been made, or may still
    /// be. Sending it again with the same stamp settles it.
    #[error("it is unknown whether the record '{key}' at {place} was changed: {reason}. Read it to find out")]
    Unknown {
        /// Where.
        place: String,
        /// Which record.
        key: String,
        /// Why.
        reason: String,
    },
    /// Trying again would not help: an address, a permission or a value must change first. Nothing was changed.
    #[error("the coordinator at {place} cannot be used like this: {reason}")]
    Refused {
        /// Where.
        place: String,
        /// Why, and what to do about it.
        reason: String,
    },
    /// The stored records cannot be read.
    #[error("the records at {place} are damaged: {reason}")]
    Damaged {
        /// Where.
        place: String,
        /// The fault and its remedy.
        reason: String,
    },
}

fn state_of(record: Option<&Record>) -> String {
    match record {
        Some(record) => format!("has revision {}", record.revision.0),
        None => "does not exist".to_owned(),
    }
}

fn origin_of(expected: Option<Revision>) -> String {
    match expected {
        Some(revision) => format!("revision {}", revision.0),
        None => "no record".to_owned(),
    }
}
