//! The read side of a store.

use std::slice;
use std::sync::Arc;

use tidemill_core::Cause;

use crate::config::StoreConfig;
use crate::fragment_version::FragmentVersion;
use crate::store_state::{FragmentStatus, FragmentsState, Published, StoreState, StoreStatistics};
use crate::version::Version;

/// Reads a store from any thread, while it changes and after. Clones read the same store. It never waits for the writer,
/// and the writer never waits for it.
#[derive(Clone)]
pub struct StoreReader {
    /// The store, or its first fragment.
    pub(crate) shared: Arc<StoreState>,
    /// What the fragments share if there are several.
    pub(crate) whole: Option<Arc<FragmentsState>>,
}

/// What a store has published last, of each fragment: all after the same cycle.
enum Newest {
    One(Arc<Published>),
    Fragments(Arc<Vec<Arc<Published>>>),
}

/// Which rows of a fragment a version has: the cycle, the number of the first row, and one past that of the last.
type Bounds = (u64, u64, u64);

impl StoreReader {
    /// What the store holds.
    pub fn config(&self) -> &StoreConfig {
        self.whole.as_ref().map_or(&self.shared.config, |whole| &whole.config)
    }

    /// Whether both read the same store.
    pub fn is_of(&self, other: &StoreReader) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The newest version.
    pub fn latest(&self) -> Version {
        let newest =
            |published: &Published| (published.newest_cycle.unwrap_or(0), published.first, published.end);
        self.version(&self.newest(), newest)
    }

    /// The rows after this cycle.
    ///
    /// # Errors
    /// [`Cause::user`] with the cycles that can be read if this one has not been committed yet, or is gone.
    pub fn as_of_cycle(&self, cycle: u64) -> Result<Version, Cause> {
        let newest = self.newest();
        let Some((oldest, last)) = newest.cycles() else {
            return Err(Cause::user(format!(
                "cycle {cycle} cannot be read: no cycle has been committed yet"
            )));
        };
        if !(oldest..=last).contains(&cycle) {
            let why = if cycle > last { "has not been committed yet" } else { "is no longer kept" };
            return Err(Cause::user(format!(
                "cycle {cycle} {why}; the cycles {oldest} to {last} can be read"
            )));
        }
        Ok(self.version(&newest, |published| {
            let mark = published.marks.last_before(|mark| mark.cycle <= cycle);
            mark.map_or((cycle, 0, 0), |mark| (cycle, mark.first, mark.end))
        }))
    }

    /// The rows of all cycles before this one, whether or not later ones were committed.
    ///
    /// # Errors
    /// [`Cause::user`] with the cycles that can be read if that version is gone.
    pub fn before_cycle(&self, cycle: u64) -> Result<Version, Cause> {
        let newest = self.newest();
        let last = cycle.saturating_sub(1);
        let of_fragment = |published: &Published| {
            if cycle > 0 && published.newest_cycle.is_none_or(|newest| newest <= last) {
                return Some((last, published.first, published.end));
            }
            match published.marks.last_before(|mark| mark.cycle < cycle) {
                Some(mark) => Some((last, mark.first, mark.end)),
                // No rows had come by then.
                None => published.gone.is_none().then_some((last, 0, 0)),
            }
        };
        self.kept_version(&newest, of_fragment).ok_or_else(|| {
            let kept = match newest.cycles() {
                Some((oldest, newest)) => format!("the cycles {oldest} to {newest} can be read"),
                None => "no cycle can be read".to_owned(),
            };
            Cause::user(format!("cycle {last} is not kept any more; {kept}"))
        })
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
        let newest = self.newest();
        let of_fragment = |published: &Published| {
            let mark = published.marks.last_before(|mark| mark.latest <= time)?;
            let is_newest = published.marks.newest().is_some_and(|newest| newest.cycle == mark.cycle);
            let cycle = published.newest_cycle.filter(|_| is_newest).unwrap_or(mark.cycle);
            Some((cycle, mark.first, mark.end))
        };
        self.kept_version(&newest, of_fragment).ok_or_else(|| {
            let oldest = |published: &Arc<Published>| published.marks.oldest().map(|mark| mark.latest);
            let oldest = newest.fragments().iter().filter_map(oldest).max();
            let oldest =
                oldest.map_or("there are no rows".to_owned(), |time| format!("the earliest is {time}"));
            Cause::user(format!("the rows as of time {time} cannot be read; {oldest}"))
        })
    }

    /// The oldest and the newest cycle that can be read.
    pub fn cycles(&self) -> Option<(u64, u64)> {
        self.newest().cycles()
    }

    /// How much it holds.
    pub fn statistics(&self) -> StoreStatistics {
        let newest = self.newest();
        let statistics = newest.fragments().iter().map(|published| published.statistics);
        statistics.reduce(StoreStatistics::and).unwrap_or_default()
    }

    /// What each of its fragments holds; a store that is not divided has one.
    pub fn fragments(&self) -> Vec<FragmentStatus> {
        let status = |published: &Arc<Published>| FragmentStatus {
            statistics: published.statistics,
            cycles: published.cycles(),
        };
        self.newest().fragments().iter().map(status).collect()
    }

    fn newest(&self) -> Newest {
        match &self.whole {
            None => Newest::One(self.shared.current.load()),
            Some(whole) => Newest::Fragments(whole.current.load()),
        }
    }

    /// The version with these rows of each fragment, if all of them are kept.
    fn kept_version(
        &self,
        newest: &Newest,
        bounds: impl Fn(&Published) -> Option<Bounds>,
    ) -> Option<Version> {
        let is_kept = newest.fragments().iter().all(|published| bounds(published).is_some());
        is_kept.then(|| self.version(newest, |published| bounds(published).unwrap_or_default()))
    }

    fn version(&self, newest: &Newest, bounds: impl Fn(&Published) -> Bounds) -> Version {
        let states = self.whole.as_ref().map_or(slice::from_ref(&self.shared), |whole| &whole.fragments);
        let fragment = |(shared, published): (&Arc<StoreState>, &Arc<Published>)| {
            let (cycle, first, end) = bounds(published);
            FragmentVersion { shared: shared.clone(), published: published.clone(), cycle, first, end }
        };
        let fragments = states.iter().zip(newest.fragments()).map(fragment).collect();
        Version { whole: self.whole.clone(), fragments }
    }
}

impl Newest {
    fn fragments(&self) -> &[Arc<Published>] {
        match self {
            Newest::One(only) => slice::from_ref(only),
            Newest::Fragments(all) => all,
        }
    }

    /// The oldest and the newest cycle that every fragment can show.
    fn cycles(&self) -> Option<(u64, u64)> {
        let cycles = self.fragments().iter().map(|published| published.cycles());
        let both = |one: (u64, u64), other: (u64, u64)| (one.0.max(other.0), one.1.min(other.1));
        cycles.reduce(|one, other| Some(both(one?, other?))).flatten()
    }
}
