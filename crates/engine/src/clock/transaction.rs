//! Rows that several sources get together: all of them are in one cycle, or none is in any.

use tidemill_core::error::Cause;
use tidemill_flow::Failure;

use super::source_state::SourceState;
use super::state::ClockState;
use super::{ClockShared, DatabaseClock, LOOK};

/// A transaction over sources of a clock: until it [commits](SourceTransaction::commit), no cut has rows that they get. The cut is the
/// commit: a journal that has rows behind its last cut has those of a transaction that was interrupted. Dropping it gives up its
/// rows.
pub struct SourceTransaction {
    clock: DatabaseClock,
    sources: Vec<SourceInTransaction>,
    is_over: bool,
}

struct SourceInTransaction {
    id: u64,
    name: String,
    /// One past the position of its last row in the transaction.
    end: u64,
}

impl DatabaseClock {
    /// Begins a transaction over sources, by their names. Nobody else may give them rows until it has ended.
    ///
    /// # Errors
    /// If no query reads one of them, or it is in another transaction.
    pub fn begin_transaction(&self, sources: &[&str]) -> Result<SourceTransaction, Cause> {
        let mut state = self.shared.lock();
        let found = sources.iter().map(|name| {
            let is_it = |source: &SourceState| source.name == *name && source.end.is_none();
            let (id, source) =
                state.sources.iter().find(|(_, source)| is_it(source)).ok_or_else(|| unread(name))?;
            if source.is_in_transaction {
                return Err(Cause::bug(format!("source '{name}' is in another transaction")));
            }
            Ok(SourceInTransaction { id: *id, name: (*name).to_owned(), end: source.end_of_rows() })
        });
        let found = found.collect::<Result<Vec<_>, Cause>>()?;
        for source in &found {
            if let Some(source) = state.sources.get_mut(&source.id) {
                source.is_in_transaction = true;
            }
        }
        drop(state);
        Ok(SourceTransaction { clock: self.clone(), sources: found, is_over: false })
    }
}

impl SourceTransaction {
    /// One of its sources was given this many more rows.
    pub fn gave(&mut self, source: usize, rows: u64) {
        self.sources[source].end += rows;
    }

    /// Waits until the clock has all rows, and then until they are in a cycle: as durable as the sources promise. Returns the number of
    /// that cycle, or of one behind it.
    ///
    /// # Errors
    /// If a source or the log of cuts fails. A transaction whose rows no cut has does not count.
    pub fn commit(mut self) -> Result<u64, Cause> {
        let shared = &self.clock.shared;
        self.wait_until(|state, source| Ok(source_of(state, source)?.end_of_rows() >= source.end))?;
        let mut state = shared.lock();
        let mut wakers = Vec::new();
        for source in &self.sources {
            if let Some(source) = state.sources.get_mut(&source.id) {
                source.is_in_transaction = false;
            }
        }
        wakers.extend(state.close_if_due(shared.clock.now_ns()).1);
        for source in self.sources.iter().filter_map(|source| state.sources.get(&source.id)) {
            // One that waits for nothing must now wait for the time of these rows.
            let readers = source.queries.iter().filter_map(|query| state.queries.get(query));
            wakers.extend(readers.filter(|query| query.is_ready()).filter_map(|query| query.waker.clone()));
        }
        drop(state);
        shared.announce(&wakers);
        self.wait_until(|state, source| Ok(source_of(state, source)?.position >= source.end))?;
        self.is_over = true;
        let state = shared.lock();
        if let Some(Failure::Engine { cause, .. }) = &state.journal_failure {
            return Err(cause.clone());
        }
        let of_transaction = self.sources.iter().filter_map(|source| state.sources.get(&source.id));
        let waits = of_transaction.filter_map(|source| source.journal.as_ref()).any(|journal| journal.waits);
        let cycle = state.next_cycle.saturating_sub(1);
        drop(state);
        if let Some(journal) = shared.journal.as_ref().filter(|_| waits) {
            journal.cuts().sync()?;
        }
        Ok(cycle)
    }

    /// Waits until something is so of all sources.
    fn wait_until(
        &self,
        is_so: impl Fn(&ClockState, &SourceInTransaction) -> Result<bool, Cause>,
    ) -> Result<(), Cause> {
        let shared = &self.clock.shared;
        let mut state = shared.lock();
        loop {
            let mut sources = self.sources.iter().map(|source| is_so(&state, source));
            if sources.try_fold(true, |all, one| one.map(|one| all && one))? {
                return Ok(());
            }
            shared.wait_for_room(&mut state, LOOK);
        }
    }

    /// Takes back what no cut has. A journal keeps its rows until its source is opened again, so the source is closed, and with it the
    /// queries that read it.
    fn give_up(&self) {
        let shared: &ClockShared = &self.clock.shared;
        let mut journals = Vec::new();
        let mut state = shared.lock();
        for given in &self.sources {
            let Some(source) = state.sources.get_mut(&given.id) else { continue };
            let has_rows = source.position < given.end;
            source.is_in_transaction = false;
            if has_rows {
                source.forget_pending();
                journals.extend(source.journal.as_ref().map(|journal| journal.name.clone()));
            }
        }
        drop(state);
        shared.announce_room();
        for journal in &journals {
            let why =
                "a transaction was interrupted after its first rows were journaled; START what reads it";
            self.clock.close_source(journal, &Cause::operation(why));
        }
    }
}

impl Drop for SourceTransaction {
    fn drop(&mut self) {
        if !self.is_over {
            self.give_up();
        }
    }
}

fn source_of<'a>(state: &'a ClockState, given: &SourceInTransaction) -> Result<&'a SourceState, Cause> {
    let source = state.sources.get(&given.id).ok_or_else(|| unread(&given.name))?;
    match &source.end {
        None => Ok(source),
        Some(super::source_state::SourceEnd::Failed(cause)) => Err(cause.clone()),
        Some(_) => Err(unread(&given.name)),
    }
}

fn unread(name: &str) -> Cause {
    Cause::operation(format!(
        "no query reads '{name}', so its rows would be lost; START the view that reads it"
    ))
}
