//! Sums by the hour, which a sink makes and its caller reads.

use std::sync::Arc;

use parking_lot::Mutex;

/// Seconds of an hour.
pub(crate) const HOUR_S: i64 = 3600;

/// What was committed so far, by the hour; clones share it.
///
/// ```
/// use tidemill_trip_grouping::hour_tally::HourTally;
/// let tally = HourTally::<u64>::default();
/// let of_sink = tally.clone();
/// of_sink.add([(7300, 5), (60, 1), (7200, 2)], |sum, number| *sum += number);
/// assert_eq!(tally.by_hour(), [(0, 1), (2, 7)]);
/// ```
#[derive(Debug)]
pub struct HourTally<T>(Arc<Mutex<Vec<(i64, T)>>>);

impl<T> Default for HourTally<T> {
    fn default() -> Self {
        HourTally(Arc::default())
    }
}

impl<T> Clone for HourTally<T> {
    fn clone(&self) -> Self {
        HourTally(Arc::clone(&self.0))
    }
}

impl<T: Clone + Default> HourTally<T> {
    /// The sums of each hour in which there was something, in the order of the hours, if times are seconds.
    pub fn by_hour(&self) -> Vec<(i64, T)> {
        self.0.lock().clone()
    }

    /// Adds items, each with its time in seconds, to the sums of their hours.
    pub fn add<I>(&self, items: impl IntoIterator<Item = (i64, I)>, add: impl Fn(&mut T, I)) {
        let mut hours = self.0.lock();
        for (time_s, item) in items {
            let hour = time_s.div_euclid(HOUR_S);
            let place = hours.partition_point(|(known, _)| *known < hour);
            if hours.get(place).is_none_or(|(known, _)| *known != hour) {
                hours.insert(place, (hour, T::default()));
            }
            add(&mut hours[place].1, item);
        }
    }
}
