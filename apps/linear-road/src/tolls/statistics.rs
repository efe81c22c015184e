//! Segment statistics: cars and speeds of the current minute and the five before (specification, section 3).

/// The smallest number divisible by all of 1 to 10: the mean of up to ten speeds, times this, is an integer.
const SCALE: u64 = 2520;
/// The most reports of one car from one segment in one minute for which the mean is exact; valid data has one or two.
pub const REPORTS_MAX: u8 = 10;
const INVERSES: [u64; REPORTS_MAX as usize + 1] = {
    let mut inverses = [0; REPORTS_MAX as usize + 1];
    let mut count = 1;
    while count <= REPORTS_MAX as usize {
        inverses[count] = SCALE / count as u64;
        count += 1;
    }
    inverses
};

/// Cars in a segment in a minute (24 bits), and the sum of their mean speeds times [`SCALE`] (40 bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentMinute(u64);

const CARS_SHIFT: u32 = 40;
/// More cars of one segment and minute are not counted: that would be 70,000 new ones per second on one mile.
const CARS_MAX: u32 = 4_000_000;

impl SegmentMinute {
    /// No cars.
    pub const NONE: SegmentMinute = SegmentMinute(0);

    /// The number of distinct cars.
    #[inline]
    pub fn cars(self) -> u32 {
        (self.0 >> CARS_SHIFT) as u32
    }

    fn speed_sum(self) -> u64 {
        self.0 & ((1 << CARS_SHIFT) - 1)
    }

    /// A car's first report of the minute from the segment.
    #[inline]
    pub fn add_car(&mut self, speed: u8) {
        if self.cars() < CARS_MAX {
            self.0 += (1 << CARS_SHIFT) + SCALE * u64::from(speed);
        }
    }

    /// A further report of a counted car: its mean changes. `count` and `sum` are the values before.
    #[inline]
    pub fn add_report(&mut self, count: u8, sum: u16, speed: u8) {
        let before = INVERSES[count as usize] * u64::from(sum);
        let after = INVERSES[count as usize + 1] * (u64::from(sum) + u64::from(speed));
        self.0 = self.0 + after - before;
    }

    /// The word that holds it, for snapshots.
    pub fn to_word(self) -> u64 {
        self.0
    }

    /// From the word that holds it.
    pub fn from_word(word: u64) -> Self {
        SegmentMinute(word)
    }
}

/// How many complete minutes the latest average velocity looks back.
pub const MINUTES_BACK: usize = 5;

/// The latest average velocity: the floor of the mean of the minutes' mean speeds, without minutes that have no cars;
/// -1 if there are none. It is exact: the integer parts are summed separately, so that the numerator of the fractions
/// stays below 2^123.
pub fn latest_average_velocity(minutes: impl Iterator<Item = SegmentMinute> + Clone) -> i8 {
    let present = minutes.filter(|minute| minute.cars() > 0).map(|m| (m.speed_sum(), u64::from(m.cars())));
    let count = present.clone().count() as u64;
    if count == 0 {
        return -1;
    }
    let whole: u64 = present.clone().map(|(sum, cars)| sum / cars).sum();
    let floor = |sum: u64| sum / (count * SCALE);
    // The fractions add up to less than one each, which hardly ever matters.
    if floor(whole) == floor(whole + count - 1) {
        return floor(whole) as i8;
    }
    let denominator: u128 = present.clone().map(|(_, cars)| u128::from(cars)).product();
    let rests = present.map(|(sum, cars)| u128::from(sum % cars) * (denominator / u128::from(cars)));
    let from_rests = (rests.sum::<u128>() / denominator) as u64;
    floor(whole + from_rests) as i8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(speeds: &[u8]) -> SegmentMinute {
        let mut minute = SegmentMinute::default();
        speeds.iter().for_each(|speed| minute.add_car(*speed));
        minute
    }

    #[test]
    fn means_of_means_are_floored_exactly() {
        let lav = |minutes: &[SegmentMinute]| latest_average_velocity(minutes.iter().copied());
        assert_eq!(lav(&[]), -1);
        assert_eq!(lav(&[minute(&[])]), -1);
        assert_eq!(lav(&[minute(&[40])]), 40);
        assert_eq!(lav(&[minute(&[39, 40])]), 39);
        // The minutes weigh the same, not the cars: (30 + 60) / 2.
        assert_eq!(lav(&[minute(&[30]), minute(&[60, 60, 60]), minute(&[])]), 45);
        // 1/3 + 2/3 = 1: an exact integer that sums of floats may miss.
        assert_eq!(lav(&[minute(&[0, 0, 1]), minute(&[0, 2, 0]), minute(&[2])]), 1);
    }

    #[test]
    fn a_car_weighs_the_same_however_often_it_reports() {
        let mut minute = minute(&[10]);
        minute.add_report(1, 10, 20);
        minute.add_report(2, 30, 33);
        assert_eq!(minute.cars(), 1);
        assert_eq!(latest_average_velocity([minute].into_iter()), 21);
    }

    #[test]
    fn the_largest_statistics_do_not_overflow() {
        let mut crowded =
            SegmentMinute((u64::from(CARS_MAX - 1) << CARS_SHIFT) | (u64::from(CARS_MAX - 1) * 100 * SCALE));
        crowded.add_car(100);
        crowded.add_car(100);
        assert_eq!(crowded.cars(), CARS_MAX);
        assert_eq!(latest_average_velocity([crowded; 5].into_iter()), 100);
    }
}
