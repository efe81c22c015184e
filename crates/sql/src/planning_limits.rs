//! What a statement may take while it is planned, and while a function computes: time, as its session says, and the
//! memory of its reader. DataFusion's rules and functions take nothing that could say so, so it belongs to the thread
//! that works for a statement.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::common::Result;
use tidemill_engine::{Cause, MemoryAccount, MemoryBudget, interruption};

use crate::limit_reached::{limit_reached, stopped};
use crate::turns::{Turns, turn_refused};

/// What the statement may take that a thread works for.
struct Limits {
    turns: Arc<dyn Turns>,
    /// Holds the constants that were computed while the statement was planned.
    constants: MemoryAccount,
    /// Whether what is computed now is such a constant.
    is_planning: bool,
}

thread_local! {
    static LIMITS: RefCell<Option<Limits>> = const { RefCell::new(None) };
}

/// Sets the limits that were there before, however the work has ended.
struct Restore(Option<Limits>);

impl Drop for Restore {
    fn drop(&mut self) {
        LIMITS.replace(self.0.take());
    }
}

/// Works for a statement within its limits.
pub(crate) fn within<T>(turns: &Arc<dyn Turns>, memory: &MemoryBudget, work: impl FnOnce() -> T) -> T {
    let limits = Limits { turns: Arc::clone(turns), constants: memory.account(), is_planning: false };
    let _restore = Restore(LIMITS.replace(Some(limits)));
    work()
}

/// Pauses for others, and ends the work if its statement was cancelled or has taken too long. Work that takes long calls it every
/// few milliseconds.
///
/// # Errors
/// Why the statement ends.
pub(crate) fn go_on() -> Result<()> {
    let turns = LIMITS.with_borrow(|limits| limits.as_ref().map(|limits| Arc::clone(&limits.turns)));
    match turns {
        Some(turns) => turns.go_on().map_err(turn_refused),
        // A worker of a query that runs.
        None if interruption::is_interrupted() => {
            Err(stopped(Cause::operation("the query ends, and what it was computing is not wanted any more")))
        }
        None => Ok(()),
    }
}

/// Applies a rule, which may compute what reads no column.
pub(crate) fn while_planning<T>(work: impl FnOnce() -> T) -> T {
    let set = |is_planning| {
        LIMITS.with_borrow_mut(|limits| {
            limits.as_mut().is_some_and(|limits| std::mem::replace(&mut limits.is_planning, is_planning))
        })
    };
    let before = set(true);
    let done = work();
    set(before);
    done
}

/// Counts what a function has computed, if it is a constant: it stays until the statement has ended.
///
/// # Errors
/// If the reader may not hold that much.
pub(crate) fn hold_constant(what: &str, bytes: impl FnOnce() -> u64) -> Result<()> {
    LIMITS.with_borrow_mut(|limits| match limits {
        Some(Limits { constants, is_planning: true, .. }) => {
            constants.grow(what, bytes()).map_err(limit_reached)
        }
        _ => Ok(()),
    })
}

/// Checks that there is room for what a function needs only while it computes.
///
/// # Errors
/// If the reader may not hold that much.
pub(crate) fn check_room(what: &str, bytes: u64) -> Result<()> {
    LIMITS.with_borrow_mut(|limits| {
        let Some(Limits { constants, .. }) = limits else { return Ok(()) };
        let before = constants.bytes();
        let grown = constants.grow(what, bytes).map_err(limit_reached);
        constants.set(before);
        grown
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::turns::{AtOnce, Turn};

    struct Cancelled(AtomicBool);

    impl Turns for Cancelled {
        fn begin(&self) -> std::result::Result<Box<dyn Turn>, Cause> {
            AtOnce.begin()
        }

        fn go_on(&self) -> std::result::Result<(), Cause> {
            if self.0.load(Ordering::Relaxed) { Err(Cause::operation("cancelled")) } else { Ok(()) }
        }
    }

    #[test]
    fn limits_are_those_of_the_innermost_statement_and_end_with_it() {
        let (none, one): (Arc<dyn Turns>, _) =
            (Arc::new(AtOnce), Arc::new(Cancelled(AtomicBool::new(false))));
        let turns: Arc<dyn Turns> = one.clone();
        let memory = MemoryBudget::new(1000).query(Some(1000));
        within(&turns, &memory, || {
            assert!(go_on().is_ok());
            one.0.store(true, Ordering::Relaxed);
            within(&none, &MemoryBudget::new(10).query(Some(10)), || {
                assert!(go_on().is_ok());
                assert!(check_room("it", 11).is_err());
                assert!(while_planning(|| hold_constant("it", || 11)).is_err());
                assert!(hold_constant("it", || 11).is_ok(), "it is no constant");
            });
            assert!(go_on().is_err());
            assert!(check_room("it", 600).is_ok());
            assert!(while_planning(|| hold_constant("it", || 600)).is_ok());
            assert!(check_room("it", 600).is_err());
            assert!(while_planning(|| hold_constant("it", || 600)).is_err());
        });
        assert!(go_on().is_ok());
        assert!(check_room("it", u64::MAX).is_ok());
        assert!(memory.account().grow("all of it", 1000).is_ok());
    }
}
