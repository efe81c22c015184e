//! The memory of a query, for what DataFusion computes of it.

use std::fmt;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};
use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::{MemoryAccount, MemoryBudget};

use crate::limit_reached::limit_reached;

/// What DataFusion's operators are called in a query, by the beginnings of the names with which they ask for memory.
const OPERATORS: [(&str, &str); 10] = [
    ("GroupedHashAggregate", "GROUP BY"),
    ("AggregateStream", "an aggregate"),
    ("GroupedTopK", "GROUP BY"),
    ("TopK", "ORDER BY"),
    ("ExternalSorter", "ORDER BY"),
    ("CrossJoin", "a cross join"),
    ("NestedLoopJoin", "a join"),
    ("HashJoin", "a join"),
    ("SMJ", "a join"),
    ("Recursive", "WITH RECURSIVE"),
];

/// Counts what DataFusion's operators hold against a query's budget, and says which of them reached a limit.
#[derive(Debug)]
pub(super) struct QueryPool {
    state: Mutex<PoolState>,
}

#[derive(Debug)]
struct PoolState {
    account: MemoryAccount,
    /// Why the last request was refused.
    refused: Option<String>,
}

impl QueryPool {
    pub fn new(memory: &MemoryBudget) -> QueryPool {
        QueryPool { state: Mutex::new(PoolState { account: memory.account(), refused: None }) }
    }

    /// The error in our words, if a limit was reached.
    pub fn named(&self, error: DataFusionError) -> DataFusionError {
        match (error.find_root(), self.lock().refused.take()) {
            (DataFusionError::ResourcesExhausted(_), Some(refused)) => {
                DataFusionError::ResourcesExhausted(refused)
            }
            _ => error,
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock()
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.lock().account.budget())
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "query"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        let account = &mut self.lock().account;
        account.set(account.bytes().saturating_add(additional as u64));
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        let account = &mut self.lock().account;
        account.set(account.bytes().saturating_sub(shrink as u64));
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut state = self.lock();
        let asking = reservation.consumer().name();
        let known = OPERATORS.iter().find(|(name, _)| asking.starts_with(name));
        let operator = known.map_or("a part of the query", |(_, operator)| operator);
        let grown = state.account.grow(operator, additional as u64);
        grown.map_err(|cause| {
            state.refused = Some(cause.message.to_string());
            limit_reached(cause)
        })
    }

    fn reserved(&self) -> usize {
        usize::try_from(self.lock().account.bytes()).unwrap_or(usize::MAX)
    }
}
