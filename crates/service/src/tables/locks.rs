//! Who changes a table: one transaction at a time, until its end. Readers never wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tidemill_sql::PushTarget;

use super::table_rows::TableRows;
use crate::error::Refused;

/// How often one who waits looks whether to wait on.
const LOOK: Duration = Duration::from_millis(20);
/// The most bytes of rows that are kept for the next change, of all tables together.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// The locks of the tables of a database.
#[derive(Default)]
pub(crate) struct Tables {
    state: Mutex<LockState>,
    freed: Condvar,
}

#[derive(Default)]
struct LockState {
    /// The last number that was given to who changes tables.
    last_owner: u64,
    owners: Vec<(PushTarget, u64)>,
    waiting: Vec<(u64, PushTarget)>,
    /// The rows of tables that nobody changes, the longest unused first.
    kept: Vec<(PushTarget, TableRows)>,
}

impl LockState {
    fn owner_of(&self, table: &PushTarget) -> Option<u64> {
        self.owners.iter().find(|(owned, _)| owned.is(table)).map(|(_, owner)| *owner)
    }

    /// Whether who waits for a table would wait for itself.
    fn would_deadlock(&self, own: u64, table: &PushTarget) -> bool {
        let mut wanted = table;
        // Each waits for one table at most, so a way that does not come back has an end.
        for _ in 0..=self.waiting.len() {
            let Some(owner) = self.owner_of(wanted) else { return false };
            if owner == own {
                return true;
            }
            match self.waiting.iter().find(|(waiting, _)| *waiting == owner) {
                Some((_, next)) => wanted = next,
                None => return false,
            }
        }
        false
    }
}

/// A table that one transaction may change. Dropping it lets the next one.
pub(crate) struct TableLock {
    tables: Arc<Tables>,
    table: PushTarget,
    /// Its rows, to be kept for the next change.
    pub rows: Option<TableRows>,
}

impl Tables {
    /// Returns a number for who changes tables.
    pub fn new_owner(&self) -> u64 {
        let mut state = self.state.lock();
        state.last_owner += 1;
        state.last_owner
    }

    /// Waits until nobody else changes a table, as long as `goes_on`, and at most for some time.
    pub fn lock(
        self: &Arc<Tables>,
        owner: u64,
        table: &PushTarget,
        goes_on: &dyn Fn() -> bool,
        time_max: Option<Duration>,
    ) -> Result<TableLock, Refused> {
        let since = Instant::now();
        let mut state = self.state.lock();
        while state.owner_of(table).is_some() {
            if state.would_deadlock(owner, table) {
                return Err(Refused::new(
                    "40P01",
                    "deadlock detected: two transactions wait for each other's tables",
                )
                .with_hint("repeat the transaction; change tables in the same order everywhere"));
            }
            if !goes_on() {
                return Err(Refused::new("57014", "the statement was cancelled while it waited for a table"));
            }
            if time_max.is_some_and(|time_max| since.elapsed() >= time_max) {
                let message = format!("another transaction changes '{}'", table.name());
                return Err(
                    Refused::new("55P03", message).with_hint("repeat it, or SET lock_timeout to more")
                );
            }
            state.waiting.push((owner, table.clone()));
            self.freed.wait_for(&mut state, LOOK);
            state.waiting.retain(|(waiting, _)| *waiting != owner);
        }
        state.owners.push((table.clone(), owner));
        let place = state.kept.iter().position(|(kept, _)| kept.is(table));
        let rows = place.map(|place| state.kept.remove(place).1);
        Ok(TableLock { tables: Arc::clone(self), table: table.clone(), rows })
    }
}

impl Drop for TableLock {
    fn drop(&mut self) {
        let mut state = self.tables.state.lock();
        state.owners.retain(|(owned, _)| !owned.is(&self.table));
        if let Some(rows) = self.rows.take() {
            state.kept.push((self.table.clone(), rows));
            let mut bytes: usize = state.kept.iter().map(|(_, rows)| rows.bytes()).sum();
            while bytes > KEPT_BYTES_MAX {
                bytes -= state.kept.remove(0).1.bytes();
            }
        }
        drop(state);
        self.tables.freed.notify_all();
    }
}
