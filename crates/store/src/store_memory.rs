//! The memory of a store, counted in the budget of whoever fills it.

use parking_lot::Mutex;
use tidemill_core::{Cause, MemoryAccount};

/// Rows that can still be read when their query has ended leave this part of the memory to what runs.
const PART_LEFT: u64 = 16;

/// What a store holds in memory. It counts as long as somebody can read the store, also when nobody fills it any more.
#[derive(Default)]
pub(crate) struct StoreMemory(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    account: MemoryAccount,
    /// What an error names.
    holder: String,
}

impl StoreMemory {
    /// Counts in another account from here on.
    pub fn count_in(&self, account: MemoryAccount, holder: &str, bytes: usize) {
        let mut counted = self.0.lock();
        *counted = Counted { account, holder: holder.to_owned() };
        counted.account.set(bytes as u64);
    }

    /// Holds this much more, if that is allowed.
    pub fn grow(&self, bytes: usize) -> Result<(), Cause> {
        let mut counted = self.0.lock();
        let Counted { account, holder } = &mut *counted;
        let left = account.budget().limit() / PART_LEFT;
        account.grow_and_leave(holder, bytes as u64, left)
    }

    /// Says how much is held now.
    pub fn set(&self, bytes: usize) {
        self.0.lock().account.set(bytes as u64);
    }
}
