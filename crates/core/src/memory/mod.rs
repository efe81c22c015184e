//! The memory that a process and each of its queries may hold, and who holds it.

mod column_bytes;
mod state_limit;

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;

pub use self::column_bytes::bytes_of_column;
pub use self::state_limit::StateLimit;
use crate::error::Cause;

/// Bytes that may be held: by a whole process, or by one of its queries as part of that. Clones are the same budget.
///
/// Whoever holds memory keeps a [`MemoryAccount`] and says how much it holds. That is accounting, not allocation: it says
/// who is at fault while memory is still left, so that one query ends with a reason and the process lives on.
///
/// ```
/// use tidemill_core::{Fault, MemoryBudget};
/// let process = MemoryBudget::new(1 << 30);
/// let query = process.query(Some(1 << 20));
/// let mut state = query.account();
/// state.set(1 << 19);
/// assert_eq!((query.held(), process.held()), (1 << 19, 1 << 19));
/// assert_eq!(state.check("the state"), Ok(()));
/// state.set(1 << 21);
/// let refused = state.check("the state").unwrap_err();
/// assert_eq!(refused.fault, Fault::Resource);
/// assert!(refused.message.contains("2.0 MB") && refused.message.contains("memory_limit"), "{refused}");
/// drop(state);
/// assert_eq!(process.held(), 0);
/// ```
#[derive(Clone)]
pub struct MemoryBudget(Arc<Level>);

struct Level {
    holders: Holders,
    limit: u64,
    held: AtomicU64,
    /// Queries that have a budget of their own out of this one.
    queries: AtomicU64,
    above: Option<MemoryBudget>,
    /// Lets other threads use what is free in the memory of the calling thread.
    release: Option<fn()>,
}

/// Who shares a budget.
#[derive(Clone, Copy)]
enum Holders {
    /// The queries of a process.
    Process,
    /// Those who read what is there, apart from the queries that keep it up to date.
    Readers,
    /// The parts of a query.
    Query,
}

impl MemoryBudget {
    /// The budget of a process.
    pub fn new(limit: u64) -> MemoryBudget {
        MemoryBudget::below(None, limit, Holders::Process)
    }

    /// A budget of readers: of queries over views and tables, beside those that run all the time. They cannot take
    /// what those need, whose memory is counted apart.
    ///
    /// ```
    /// use tidemill_core::MemoryBudget;
    /// let (process, readers) = (MemoryBudget::new(1000), MemoryBudget::of_readers(100));
    /// let mut answer = readers.query(None).account();
    /// let refused = answer.grow("ORDER BY", 200).unwrap_err();
    /// assert!(refused.message.contains("raise --readers-memory"), "{refused}");
    /// assert!(process.query(None).account().grow("the state", 1000).is_ok());
    /// ```
    pub fn of_readers(limit: u64) -> MemoryBudget {
        MemoryBudget::below(None, limit, Holders::Readers)
    }

    /// A budget without a limit: what is held is only counted.
    pub fn unlimited() -> MemoryBudget {
        MemoryBudget::new(u64::MAX)
    }

    /// The budget of a query out of that of its process, with a limit of its own if one is given.
    pub fn query(&self, limit: Option<u64>) -> MemoryBudget {
        self.0.queries.fetch_add(1, Ordering::Relaxed);
        MemoryBudget::below(Some(self.clone()), limit.unwrap_or(u64::MAX), Holders::Query)
    }

    fn below(above: Option<MemoryBudget>, limit: u64, holders: Holders) -> MemoryBudget {
        let (held, queries) = (AtomicU64::new(0), AtomicU64::new(0));
        let release = above.as_ref().and_then(|above| above.0.release);
        MemoryBudget(Arc::new(Level { holders, limit, held, queries, above, release }))
    }

    /// A budget of a process whose threads, when they have nothing to do, call `release`: it lets others use what is free in their
    /// memory. A library does not know the allocator that could do that.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use tidemill_core::MemoryBudget;
    /// static RELEASED: AtomicU32 = AtomicU32::new(0);
    /// let process = MemoryBudget::of_releasing_threads(1 << 30, || {
    ///     RELEASED.fetch_add(1, Ordering::Relaxed);
    /// });
    /// process.query(None).release_thread();
    /// assert_eq!(RELEASED.load(Ordering::Relaxed), 1);
    /// ```
    pub fn of_releasing_threads(limit: u64, release: fn()) -> MemoryBudget {
        let (held, queries) = (AtomicU64::new(0), AtomicU64::new(0));
        let (holders, release) = (Holders::Process, Some(release));
        MemoryBudget(Arc::new(Level { holders, limit, held, queries, above: None, release }))
    }

    /// Lets other threads use what is free in the memory of the calling thread, which has nothing to do.
    pub fn release_thread(&self) {
        self.0.release.iter().for_each(|release| release());
    }

    /// Whether [`release_thread`](MemoryBudget::release_thread) does anything.
    pub fn releases_threads(&self) -> bool {
        self.0.release.is_some()
    }

    /// The most that may be held: by the query, or, if it has no limit of its own, by the process.
    pub fn limit(&self) -> u64 {
        self.levels().map(|level| level.limit).min().unwrap_or(u64::MAX)
    }

    /// The bytes held now.
    pub fn held(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed)
    }

    /// How much more may be held now.
    pub fn left(&self) -> u64 {
        let left = |level: &Level| level.limit.saturating_sub(level.held.load(Ordering::Relaxed));
        self.levels().map(left).min().unwrap_or(u64::MAX)
    }

    /// An account that holds nothing yet.
    pub fn account(&self) -> MemoryAccount {
        MemoryAccount { budget: self.clone(), bytes: 0 }
    }

    fn levels(&self) -> impl Iterator<Item = &Level> {
        std::iter::successors(Some(&*self.0), |level| level.above.as_ref().map(|above| &*above.0))
    }

    /// Whether this much more may be held, and if not, why.
    fn excess(&self, more: u64) -> Option<Excess> {
        let mut below: Option<u64> = None;
        for level in self.levels() {
            let held = level.held.load(Ordering::Relaxed).saturating_add(more);
            if held > level.limit && level.is_to_stop(below, held) {
                return Some(Excess { held, limit: level.limit, holders: level.holders });
            }
            below = Some(held);
        }
        None
    }

    fn change(&self, from: u64, to: u64) {
        for level in self.levels() {
            // A difference that wraps counts down.
            level.held.fetch_add(to.wrapping_sub(from), Ordering::Relaxed);
        }
    }
}

impl Level {
    /// Whether the one that holds `below` of what is held here ends because the limit is passed. A query that holds less
    /// than its share continues: another is at fault, and will notice. The last quarter above the limit is for nobody.
    fn is_to_stop(&self, below: Option<u64>, held: u64) -> bool {
        let queries = self.queries.load(Ordering::Relaxed).max(1);
        let has_its_share = below.is_none_or(|below| below >= held / queries);
        has_its_share || held - self.limit > self.limit / 4
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        if let Some(above) = &self.above {
            above.0.queries.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Two budgets are equal if they have the same limits, whatever is held.
impl PartialEq for MemoryBudget {
    fn eq(&self, other: &MemoryBudget) -> bool {
        self.levels().map(|level| level.limit).eq(other.levels().map(|level| level.limit))
    }
}

impl Eq for MemoryBudget {}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.held(), self.limit())
    }
}

/// What one part of a query holds. Dropping it gives everything back.
#[derive(Debug)]
pub struct MemoryAccount {
    budget: MemoryBudget,
    bytes: u64,
}

impl MemoryAccount {
    /// The bytes that it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The budget that they count against.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Says how much is held now, whether that is allowed or not.
    pub fn set(&mut self, bytes: u64) {
        self.budget.change(self.bytes, bytes);
        self.bytes = bytes;
    }

    /// Holds this much more, if that is allowed. `holder` is what an error names.
    ///
    /// # Errors
    /// [`Cause::resource`] if a limit would be passed; then the account holds what it held before.
    pub fn grow(&mut self, holder: &str, bytes: u64) -> Result<(), Cause> {
        self.grow_and_leave(holder, bytes, 0)
    }

    /// As [`grow`](MemoryAccount::grow), for what stays when its query has ended: this much must be left afterwards, so that other
    /// queries can continue.
    ///
    /// # Errors
    /// As for [`grow`](MemoryAccount::grow).
    ///
    /// ```
    /// use tidemill_core::MemoryBudget;
    /// let budget = MemoryBudget::new(1000);
    /// let mut rows = budget.account();
    /// assert!(rows.grow_and_leave("view 'v'", 900, 100).is_ok());
    /// assert!(rows.grow_and_leave("view 'v'", 1, 100).is_err());
    /// assert!(budget.account().grow("its state", 100).is_ok());
    /// ```
    pub fn grow_and_leave(&mut self, holder: &str, bytes: u64, left: u64) -> Result<(), Cause> {
        match self.budget.excess(bytes.saturating_add(left)) {
            None => {
                self.set(self.bytes.saturating_add(bytes));
                Ok(())
            }
            Some(excess) => {
                let (held, limit) = (excess.held.saturating_sub(left), excess.limit.saturating_sub(left));
                let excess = Excess { held, limit, ..excess };
                Err(excess.cause(holder, "would take", self.bytes.saturating_add(bytes)))
            }
        }
    }

    /// Whether what is held is allowed.
    ///
    /// # Errors
    /// [`Cause::resource`] if a limit is passed.
    pub fn check(&self, holder: &str) -> Result<(), Cause> {
        self.check_all(holder, self.bytes)
    }

    /// As [`check`](MemoryAccount::check), for a holder that has several accounts, with this much in all of them.
    ///
    /// # Errors
    /// [`Cause::resource`] if a limit is passed.
    pub fn check_all(&self, holder: &str, bytes: u64) -> Result<(), Cause> {
        match self.budget.excess(0) {
            None => Ok(()),
            Some(excess) => Err(excess.cause(holder, "takes", bytes)),
        }
    }
}

/// An account that counts against no limit.
impl Default for MemoryAccount {
    fn default() -> MemoryAccount {
        MemoryBudget::unlimited().account()
    }
}

impl Drop for MemoryAccount {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A limit that is passed.
struct Excess {
    held: u64,
    limit: u64,
    holders: Holders,
}

impl Excess {
    fn cause(&self, holder: &str, verb: &str, bytes: u64) -> Cause {
        let (bytes, held, limit) = (Bytes(bytes), Bytes(self.held), Bytes(self.limit));
        Cause::resource(match self.holders {
            Holders::Query => format!(
                "{holder} {verb} {bytes}, the whole query {held}, but memory_limit allows {limit}; raise \
                 memory_limit, or let the query keep less: fewer or shorter keys, shorter windows or bounds"
            ),
            Holders::Process => format!(
                "{holder} {verb} {bytes}, all queries of this process {held}, but they may take {limit}; \
                 raise --memory, stop other queries, or let the query keep less: fewer or shorter keys, shorter \
                 windows or bounds"
            ),
            Holders::Readers => format!(
                "{holder} {verb} {bytes}, all readers of this server {held}, but they may take {limit}; raise \
                 --readers-memory, ask for fewer rows, columns or groups, or define a materialized view for what is \
                 asked often"
            ),
        })
    }
}

/// The bytes of the values of these rows. Rows that are part of a larger batch count by themselves.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{Int64Array, RecordBatch};
/// use tidemill_core::memory::bytes_of_rows;
/// let values = Arc::new(Int64Array::from_iter_values(0..1000)) as _;
/// let rows = RecordBatch::try_from_iter([("value", values)]).unwrap();
/// assert_eq!((bytes_of_rows(&rows), bytes_of_rows(&rows.slice(10, 3))), (8000, 24));
/// ```
pub fn bytes_of_rows(rows: &RecordBatch) -> usize {
    rows.columns().iter().map(bytes_of_column).sum()
}

/// Bytes for people, as in `2.0 MB`: powers of 1024, as sizes are read, and at least two digits.
///
/// ```
/// use tidemill_core::memory::Bytes;
/// let shown = [1023, 2 << 20, 12_345_678, 3 << 29].map(|bytes| Bytes(bytes).to_string());
/// assert_eq!(shown, ["1023 bytes", "2.0 MB", "12 MB", "1.5 GB"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Display for Bytes {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
        if self.0 < 1024 {
            return write!(formatter, "{} bytes", self.0);
        }
        let unit = ((self.0.ilog2() / 10) as usize).min(UNITS.len());
        let number = self.0 as f64 / (1_u64 << (10 * unit)) as f64;
        let digits = usize::from(number < 9.95);
        write!(formatter, "{number:.digits$} {}", UNITS[unit - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_query_survives_a_large_one_that_passes_the_limit_of_the_process() {
        let process = MemoryBudget::new(1000);
        let (large, small) = (process.query(None), process.query(None));
        let (mut large, mut small) = (large.account(), small.account());
        large.set(990);
        small.set(20);
        assert_eq!(small.check("small"), Ok(()));
        let refused = large.check("the large one").unwrap_err().message;
        assert!(refused.starts_with("the large one takes 990 bytes") && refused.contains("--memory"));
        // Unless it grows to its share, or too much is held already.
        small.set(600);
        assert!(small.check("small").is_err());
        small.set(260);
        assert_eq!(small.check("small"), Ok(()));
        large.set(1100);
        assert!(small.check("small").is_err());
        drop(large);
        assert_eq!(small.check("small"), Ok(()));
        assert_eq!(process.held(), 260);
    }

    #[test]
    fn growth_that_is_refused_is_not_held() {
        let query = MemoryBudget::unlimited().query(Some(100));
        let mut account = query.account();
        account.grow("a", 60).unwrap();
        assert!(account.grow("a", 60).unwrap_err().message.contains("120 bytes"));
        assert_eq!((query.held(), query.left(), query.limit()), (60, 40, 100));
    }

    #[test]
    fn nothing_overflows() {
        let process = MemoryBudget::unlimited();
        let mut account = process.query(None).account();
        account.set(u64::MAX);
        assert_eq!(account.check("a"), Ok(()));
        account.set(5);
        assert_eq!(process.held(), 5);
    }
}
