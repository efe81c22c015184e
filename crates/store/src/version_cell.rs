//! The newest version of something, which one thread replaces while others read it.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

/// Versions that can be looked at while a newer one is put in their place. A reader looks at one for some nanoseconds, unless
/// its thread is interrupted just then; so many threads are never interrupted there at once.
const PLACES: usize = 8;

/// The newest version. Readers and the writer do not wait for each other, however many threads there are: what a reader
/// looks at stays in its place, and the writer takes another one. What either of them does takes the same time for a thousand
/// threads as for one.
pub(crate) struct VersionCell<T> {
    /// A place that is not the newest one is empty, or about to be.
    places: [RwLock<Option<Arc<T>>>; PLACES],
    newest: AtomicUsize,
    /// Those of earlier versions that were looked at when they should have been emptied. Held by who writes.
    outdated: Mutex<[bool; PLACES]>,
}

impl<T> VersionCell<T> {
    pub fn new(version: T) -> VersionCell<T> {
        let mut first = Some(Arc::new(version));
        VersionCell {
            places: array::from_fn(|_| RwLock::new(first.take())),
            newest: AtomicUsize::new(0),
            outdated: Mutex::default(),
        }
    }

    /// The newest version.
    pub fn load(&self) -> Arc<T> {
        loop {
            let place = self.newest.load(Ordering::SeqCst);
            let Some(version) = self.places[place].try_read() else { continue };
            // Otherwise it may be one that is older, or one that is not to be seen yet.
            if self.newest.load(Ordering::SeqCst) == place
                && let Some(version) = &*version
            {
                return Arc::clone(version);
            }
        }
    }

    /// Replaces it.
    pub fn store(&self, version: Arc<T>) {
        let mut outdated = self.outdated.lock();
        let before = self.newest.load(Ordering::SeqCst);
        let place = self.put(version, before);
        self.newest.store(place, Ordering::SeqCst);
        outdated[place] = false;
        outdated[before] = true;
        for (is_outdated, place) in outdated.iter_mut().zip(&self.places) {
            if *is_outdated && let Some(mut place) = place.try_write() {
                // What it held may be large, and is dropped when nobody can wait for it.
                let version = place.take();
                drop(place);
                drop(version);
                *is_outdated = false;
            }
        }
    }

    /// Puts a version into a place that nobody looks at; which that is.
    fn put(&self, version: Arc<T>, newest: usize) -> usize {
        let others = || (0..PLACES).filter(|place| *place != newest);
        loop {
            if let Some((index, mut place)) =
                others().find_map(|index| Some((index, self.places[index].try_write()?)))
            {
                let earlier = place.replace(version);
                drop(place);
                drop(earlier);
                return index;
            }
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn only_the_newest_version_is_held() {
        let cell = VersionCell::new(0);
        let versions: Vec<Arc<i32>> = (1..100).map(Arc::new).collect();
        for version in &versions {
            cell.store(Arc::clone(version));
            assert_eq!(*cell.load(), **version);
        }
        let held = versions.iter().filter(|version| Arc::strong_count(version) > 1);
        assert_eq!(held.map(|version| **version).collect::<Vec<_>>(), [99]);
    }

    #[test]
    fn who_looks_at_versions_holds_up_nobody() {
        let cell = VersionCell::new(0);
        let places: Vec<_> = (0..PLACES - 2).map(|place| cell.places[place].read()).collect();
        for version in 1..10 {
            cell.store(Arc::new(version));
            assert_eq!(*cell.load(), version);
        }
        drop(places);
        cell.store(Arc::new(10));
        let held = cell.places.iter().filter(|place| place.read().is_some()).count();
        assert_eq!(held, 1);
    }

    #[test]
    fn versions_grow_for_each_reader() {
        let cell = VersionCell::new((0_u64, 0_u64));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let (mut last, mut seen) = (0, 0_u64);
                    while !is_over.load(Ordering::Relaxed) {
                        let version = cell.load();
                        assert_eq!(version.0 * 7, version.1);
                        assert!(version.0 >= last, "{} after {last}", version.0);
                        last = version.0;
                        seen += 1;
                    }
                    assert!(seen > 0);
                });
            }
            for number in 1..200_000 {
                cell.store(Arc::new((number, number * 7)));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(cell.load().0, 199_999);
    }
}
