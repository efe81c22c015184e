//! The read side of a store.

use std::sync::Arc;

use tidemill_core::Cause;

use crate::config::StoreConfig;
use crate::marks::Mark;
use crate::store_state::{Published, StoreState, StoreStatistics};
use crate::version::Version;

/// Reads a store from any thread, while it changes and after. Clones read the same store. It never waits for the writer,
/// and the writer never waits for it.
#[derive(Clone)]
pub struct StoreReader {
    pub(crate) shared: Arc<StoreState>,
}

impl StoreReader {
    /// What the store holds.
    pub fn config(&self) -> &StoreConfig {
        &self.shared.config
    }

    /// Whether both read the same store.
    pub fn is_of(&self, other: &StoreReader) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The newest version.
    pub fn latest(&self) -> Version {
        let published = self.shared.current.load_full();
        let (cycle, first, end) = (published.newest_cycle.unwrap_or(0), published.first, published.end);
        Version { shared: self.shared.clone(), published, cycle, first, end }
    }

    /// The rows after this cycle.
    ///
    /// # Errors
    /// [`Cause::user`] with the cycles that can be read if this one has not been committed yet, or is gone.
    pub fn as_of_cycle(&self, cycle: u64) -> Result<Version, Cause> {
        let published = self.shared.current.load_full();
        let Some((oldest, newest)) = cycles_of(&published) else {
            return Err(Cause::user(format!(
                "cycle {cycle} cannot be read: no cycle has been committed yet"
            )));
        };
        let mark = published.marks.last_before(|mark| mark.cycle <= cycle);
        match mark.filter(|_| cycle <= newest) {
            Some(mark) => Ok(self.at(&mark, cycle, published)),
            None => {
                let why = if cycle > newest { "has not been committed yet" } else { "is no longer kept" };
                Err(Cause::user(format!("cycle {cycle} {why}; the cycles {oldest} to {newest} can be read")))
            }
        }
    }

    /// The rows of all cycles before this one, whether or not later ones were committed.
    ///
    /// # Errors
    /// [`Cause::user`] with the cycles that can be read if that version is gone.
    pub fn before_cycle(&self, cycle: u64) -> Result<Version, Cause> {
        let published = self.shared.current.load_full();
        let last = cycle.saturating_sub(1);
        if cycle > 0 && published.newest_cycle.is_none_or(|newest| newest <= last) {
            let (first, end) = (published.first, published.end);
            return Ok(Version { shared: self.shared.clone(), published, cycle: last, first, end });
        }
        match published.marks.last_before(|mark| mark.cycle < cycle) {
            Some(mark) => Ok(self.at(&mark, last, published)),
            // No rows had come by then.
            None if published.gone.is_none() => {
                Ok(Version { shared: self.shared.clone(), published, cycle: last, first: 0, end: 0 })
            }
            None => {
                let kept = match cycles_of(&published) {
                    Some((oldest, newest)) => format!("the cycles {oldest} to {newest} can be read"),
                    None => "no cycle can be read".to_owned(),
                };
                Err(Cause::user(format!("cycle {last} is not kept any more; {kept}")))
            }
        }
    }

    /// The newest version whose rows are all at or before this time, as is every row that was stored before them.
    ///
    /// # Errors
    /// [`Cause::user`] with the earliest time that can be read if that version is gone; [`Cause::bug`] if the rows have
    /// no time.
    pub fn as_of_time(&self, time: i64) -> Result<Version, Cause> {
        if self.shared.config.time.is_none() {
            return Err(Cause::bug("a store without times was asked for a time"));
        }
        let published = self.shared.current.load_full();
        let Some(mark) = published.marks.last_before(|mark| mark.latest <= time) else {
            let oldest = published.marks.oldest().map(|mark| mark.latest);
            let oldest =
                oldest.map_or("there are no rows".to_owned(), |time| format!("the earliest is {time}"));
            return Err(Cause::user(format!("the rows as of time {time} cannot be read; {oldest}")));
        };
        let is_newest = published.marks.newest().is_some_and(|newest| newest.cycle == mark.cycle);
        let cycle = published.newest_cycle.filter(|_| is_newest).unwrap_or(mark.cycle);
        Ok(self.at(&mark, cycle, published))
    }

    /// The oldest and the newest cycle that can be read.
    pub fn cycles(&self) -> Option<(u64, u64)> {
        cycles_of(&self.shared.current.load())
    }

    /// How much it holds.
    pub fn statistics(&self) -> StoreStatistics {
        self.shared.current.load().statistics
    }

    fn at(&self, mark: &Mark, cycle: u64, published: Arc<Published>) -> Version {
        Version { shared: self.shared.clone(), published, cycle, first: mark.first, end: mark.end }
    }
}

fn cycles_of(published: &Published) -> Option<(u64, u64)> {
    let oldest = published.marks.oldest()?.cycle;
    Some((oldest, published.newest_cycle?))
}
