//! Rows that a client has not read yet.

use std::fmt::{self, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_engine::{Cause, MemoryAccount, MemoryBudget};

/// An answer of at most this size is never refused: whoever looks for what takes the memory must learn it.
const SMALL_BYTES: u64 = 64 << 10;

/// The bytes of the rows that one client has not read: they wait for it, or are being sent. They count against the memory of
/// readers, so that clients which do not read cannot take all of it.
///
/// ```
/// use tidemill_service::{Runtime, Session};
/// use tidemill_sql::Planner;
///
/// let runtime = Runtime::new(Planner::new());
/// let mut unread = Session::new(&runtime).unread_rows();
/// unread.set(1000);
/// unread.check()?;
/// assert_eq!(runtime.unread_bytes(), 1000);
/// drop(unread);
/// assert_eq!(runtime.unread_bytes(), 0);
/// # Ok::<(), tidemill_engine::Cause>(())
/// ```
pub struct UnreadRows {
    account: MemoryAccount,
    total: UnreadBytes,
}

/// The bytes that all clients of a runtime have not read.
#[derive(Clone, Default)]
pub(crate) struct UnreadBytes(Arc<AtomicU64>);

impl UnreadBytes {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn change(&self, from: u64, to: u64) {
        // A difference that wraps counts down.
        self.0.fetch_add(to.wrapping_sub(from), Ordering::Relaxed);
    }
}

impl UnreadRows {
    /// Of a client that shares memory with other clients and their queries.
    pub(crate) fn new(readers: &MemoryBudget, total: UnreadBytes) -> UnreadRows {
        UnreadRows { account: readers.query(None).account(), total }
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        self.account.bytes()
    }

    /// Says how many bytes there are now, whether that is allowed or not.
    pub fn set(&mut self, bytes: u64) {
        self.total.change(self.account.bytes(), bytes);
        self.account.set(bytes);
    }

    /// Whether what there is is allowed.
    ///
    /// # Errors
    /// [`Cause::resource`] if the process holds more than it may, and this client has at least its share.
    pub fn check(&self) -> Result<(), Cause> {
        match self.bytes() {
            ..=SMALL_BYTES => Ok(()),
            _ => self.account.check("the answer that the client has not read yet"),
        }
    }
}

impl Drop for UnreadRows {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for UnreadRows {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("UnreadRows").field(&self.bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(unread: &mut UnreadRows, bytes: u64) -> Result<(), Cause> {
        unread.set(bytes);
        unread.check()
    }

    #[test]
    fn who_holds_most_is_refused() {
        let (process, total) = (MemoryBudget::new(1 << 20), UnreadBytes::default());
        let mut small = UnreadRows::new(&process, total.clone());
        let mut large = UnreadRows::new(&process, total.clone());
        assert_eq!(hold(&mut small, 100_000), Ok(()));
        let refused = hold(&mut large, 1 << 20).unwrap_err();
        let words = "the answer that the client has not read yet takes 1.0 MB";
        assert!(refused.message.contains(words), "{refused}");
        assert_eq!(hold(&mut small, 110_000), Ok(()), "another one is at fault");
        assert_eq!((total.get(), process.held()), (1_158_576, 1_158_576));
        drop(large);
        assert_eq!((total.get(), process.held()), (110_000, 110_000));
    }

    #[test]
    fn a_short_answer_is_given_whatever_others_hold() {
        let process = MemoryBudget::new(1 << 20);
        let mut query = process.query(None).account();
        query.set(2 << 20);
        let mut unread = UnreadRows::new(&process, UnreadBytes::default());
        assert_eq!(hold(&mut unread, 1000), Ok(()));
        assert!(hold(&mut unread, 1 << 17).is_err(), "the last quarter above the limit is for nobody");
    }
}
