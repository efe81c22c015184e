//! What stands between a durable query and its sinks' commits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidemill_core::error::Cause;
use tidemill_core::{CommitGuard, Cut};
use tidemill_journal::{CommitFile, CutJournal, StreamProgress};

/// How long a wait for a disk goes on without asking whether the query still runs.
const WAIT: Duration = Duration::from_millis(50);

/// A sink as recovery found it.
#[derive(Clone, Debug)]
pub(super) struct SinkPlace {
    pub name: String,
    /// Whether the sink itself knows how far it is; if not, we note it.
    pub remembers: bool,
    /// Its last committed cycle.
    pub committed: Option<u64>,
}

pub(super) struct Guard {
    /// Each stream, and whether a commit waits for its sync.
    streams: Vec<(Arc<StreamProgress>, bool)>,
    cuts: CutJournal,
    places: Mutex<Vec<SinkPlace>>,
    file: CommitFile,
}

impl Guard {
    pub fn new(
        streams: Vec<(Arc<StreamProgress>, bool)>,
        cuts: CutJournal,
        file: CommitFile,
        places: Vec<SinkPlace>,
    ) -> Self {
        Guard { streams, cuts, places: Mutex::new(places), file }
    }

    /// The last cycle that all sinks have committed, if there is one.
    pub fn committed(&self) -> Option<u64> {
        let places = self.lock();
        // `None` is less than any cycle.
        places.iter().map(|place| place.committed).min().flatten()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<SinkPlace>> {
        self.places.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl CommitGuard for Guard {
    fn before_commit(&self, cut: &Cut, is_stopped: &dyn Fn() -> bool) -> Result<(), Cause> {
        let mut any_waits = false;
        for ((progress, waits), position) in self.streams.iter().zip(&cut.positions) {
            any_waits |= waits;
            while *waits && !progress.wait_synced(*position, WAIT) {
                if let Some(cause) = progress.failure() {
                    return Err(cause);
                }
                if is_stopped() {
                    return Ok(());
                }
            }
        }
        match any_waits && self.cuts.synced() < Some(cut.cycle) {
            true => self.cuts.sync(),
            false => Ok(()),
        }
    }

    fn after_commit(&self, sink: usize, cycle: u64) -> Result<(), Cause> {
        let mut places = self.lock();
        places[sink].committed = Some(cycle);
        if places[sink].remembers {
            return Ok(());
        }
        let noted = places.iter().filter(|place| !place.remembers);
        let noted = noted.filter_map(|place| Some((place.name.clone(), place.committed?)));
        // Under the lock, so that an older list does not take the place of a newer one.
        self.file.write(&noted.collect::<BTreeMap<_, _>>())
    }
}
