//! Reads a file of requests and one of offers as one stream, in the order of their times.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use tidemill_engine::Cause;

use crate::request::Request;
use crate::ride_sharing::{Offer, Trip};
use crate::trip_file::{BadLines, TripFile, TripLine};

/// Two files that are merged. Of equal times, requests come first, so that the order depends on the files alone.
///
/// Ids must be different among all who may wait at the same time. A line with the id of somebody who may still wait is a
/// bad one.
pub struct TripReader {
    requests: Side<Request>,
    offers: Side<Offer>,
    ids: WaitingIds,
}

/// One of the files.
struct Side<T> {
    file: TripFile<T>,
    /// What was read, with the numbers of its lines.
    coming: VecDeque<(u64, T)>,
    has_more: bool,
}

impl<T: TripLine> Side<T> {
    fn open(path: &Path) -> Result<Self, Cause> {
        Ok(Side { file: TripFile::open(path)?, coming: VecDeque::new(), has_more: true })
    }

    /// Reads until something is there, or the file ends.
    fn fill(&mut self) -> Result<(), Cause> {
        while self.coming.is_empty() && self.has_more {
            self.has_more = self.file.read_numbered(|line, record| self.coming.push_back((line, record)))?;
        }
        Ok(())
    }

    fn next_time(&self) -> Option<i64> {
        self.coming.front().map(|(_, record)| record.trip().requested)
    }

    /// The next one, unless somebody who waits has its id.
    fn take(&mut self, ids: &mut WaitingIds) -> Option<T> {
        let (line, record) = self.coming.pop_front()?;
        let id = record.trip().id;
        if ids.add(record.trip()) {
            return Some(record);
        }
        self.file
            .refuse(line, &format!("somebody who waits has the id {id}; give every trip an id of its own"));
        None
    }
}

impl TripReader {
    /// Opens both files. `cycle` is the length of a grouping cycle.
    ///
    /// # Errors
    /// If one of them cannot be opened, or both are standard input.
    pub fn open(requests: &Path, offers: &Path, cycle: i64) -> Result<Self, Cause> {
        if requests == offers {
            let path = requests.display();
            let text = format!("{path} is to be read both as requests and as offers; name two files");
            return Err(Cause::user(text));
        }
        Ok(TripReader {
            requests: Side::open(requests)?,
            offers: Side::open(offers)?,
            ids: WaitingIds { cycle, expiries: HashMap::new(), pruned_at: PRUNED_MIN },
        })
    }

    /// Appends the next trips, at most about two mebibytes of text. Returns whether there may be more.
    ///
    /// # Errors
    /// If a file cannot be read any further.
    pub fn read(&mut self, trips: &mut Vec<Trip>) -> Result<bool, Cause> {
        self.requests.fill()?;
        self.offers.fill()?;
        loop {
            let (request, offer) = (self.requests.next_time(), self.offers.next_time());
            let is_request = match (request, offer) {
                (Some(request), Some(offer)) => request <= offer,
                // What comes next in the other file may be earlier.
                (None, _) if self.requests.has_more => return Ok(true),
                (_, None) if self.offers.has_more => return Ok(true),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return Ok(false),
            };
            trips.extend(if is_request {
                self.requests.take(&mut self.ids).map(Trip::Request)
            } else {
                self.offers.take(&mut self.ids).map(Trip::Offer)
            });
        }
    }

    /// The bad lines of both files so far.
    pub fn bad_lines(&self) -> BadLines {
        self.requests.file.bad_lines().clone().and(self.offers.file.bad_lines())
    }
}

/// Ids of trips that are over are removed once this many are kept.
const PRUNED_MIN: usize = 1024;

/// The ids of those who may wait.
struct WaitingIds {
    cycle: i64,
    /// For each id, when its trip expires.
    expiries: HashMap<i64, i64>,
    /// Those that are over are removed when there are this many, so their number is bounded by those who wait.
    pruned_at: usize,
}

impl WaitingIds {
    /// Adds a trip, unless somebody who may wait has its id.
    fn add(&mut self, trip: &Request) -> bool {
        let cycle = self.cycle;
        // Everybody has left or given up at the end of the cycle in which they expire.
        let may_wait = |expires: i64| expires.saturating_add(cycle) >= trip.requested;
        if self.expiries.get(&trip.id).is_some_and(|expires| may_wait(*expires)) {
            return false;
        }
        self.expiries.insert(trip.id, trip.expires);
        if self.expiries.len() >= self.pruned_at {
            self.expiries.retain(|_, expires| may_wait(*expires));
            self.pruned_at = PRUNED_MIN.max(2 * self.expiries.len());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Place;

    #[test]
    fn ids_of_trips_that_are_over_are_free_and_forgotten() {
        let mut ids = WaitingIds { cycle: 60, expiries: HashMap::new(), pruned_at: PRUNED_MIN };
        let place = Place::default();
        let trip = |id, requested| Request {
            id,
            requested,
            expires: requested + 600,
            origin: place,
            destination: place,
        };
        assert!(ids.add(&trip(1, 0)) && !ids.add(&trip(1, 660)) && ids.add(&trip(1, 661)));
        for second in 0..100_000 {
            assert!(ids.add(&trip(second + 10, second + 661)));
        }
        assert!(ids.expiries.len() <= 2 * PRUNED_MIN, "{}", ids.expiries.len());
    }
}
