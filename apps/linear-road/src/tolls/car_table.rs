//! The cars of one expressway: an open-addressed table of 16-byte entries in buckets of two cache lines.
//!
//! One report costs one wait for memory here, which [`CarTable::prefetch`] lets overlap with others. Entries of cars
//! that have left are not removed but overwritten once they are older than a trip's gap (60 s, specification, section
//! 4): such an entry means the same as no entry.

use tidemill_engine::prefetch;

use crate::event::VID_MAX;

/// The longest gap between two reports of one trip, in seconds.
pub const TRIP_GAP_MAX_S: u16 = 60;

const EMPTY: u32 = VID_MAX + 1;
const CARS_PER_BUCKET: usize = 8;

/// What is known about a car since its last report, except for its toll, in 62 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Car(u64);

/// The fields of a [`Car`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarFields {
    /// Second of the last report.
    pub time: u16,
    /// Lane of the last report.
    pub lane: u8,
    /// Direction of the last report.
    pub dir: u8,
    /// Segment of the last report.
    pub seg: u8,
    /// Position of the last report.
    pub pos: u32,
    /// How many reports in a row came from exactly this place, up to 4.
    pub same_place: u8,
    /// Sum of the speeds reported from this segment in this minute.
    pub speed_sum: u16,
    /// The number of speeds in that sum, up to 10.
    pub speed_count: u8,
}

impl Car {
    /// Packs the fields.
    #[inline]
    pub fn new(fields: CarFields) -> Self {
        debug_assert!(fields.time < 1 << 14 && fields.pos < 1 << 20 && fields.speed_sum < 1 << 10);
        Car(u64::from(fields.time)
            | u64::from(fields.lane) << 14
            | u64::from(fields.dir) << 17
            | u64::from(fields.seg) << 18
            | u64::from(fields.pos) << 25
            | u64::from(fields.same_place) << 45
            | u64::from(fields.speed_sum) << 48
            | u64::from(fields.speed_count) << 58)
    }

    /// Unpacks the fields.
    #[inline]
    pub fn fields(self) -> CarFields {
        CarFields {
            time: self.time(),
            lane: (self.0 >> 14 & 0x7) as u8,
            dir: (self.0 >> 17 & 0x1) as u8,
            seg: (self.0 >> 18 & 0x7F) as u8,
            pos: (self.0 >> 25 & 0xF_FFFF) as u32,
            same_place: (self.0 >> 45 & 0x7) as u8,
            speed_sum: (self.0 >> 48 & 0x3FF) as u16,
            speed_count: (self.0 >> 58 & 0xF) as u8,
        }
    }

    fn time(self) -> u16 {
        (self.0 & 0x3FFF) as u16
    }

    /// Whether the car's trip must have ended before `now`.
    pub fn has_expired(self, now: u16) -> bool {
        self.time() + TRIP_GAP_MAX_S < now
    }

    /// The entry as a word, for snapshots.
    pub fn to_word(self) -> u64 {
        self.0
    }

    /// The entry from its word.
    pub fn from_word(word: u64) -> Self {
        Car(word)
    }
}

/// Two cache lines. Every report needs the ids from the first one, all at once.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Bucket {
    vids: [u32; CARS_PER_BUCKET],
    toll_roots: [u32; CARS_PER_BUCKET],
    cars: [Car; CARS_PER_BUCKET],
}

const EMPTY_BUCKET: Bucket = Bucket {
    vids: [EMPTY; CARS_PER_BUCKET],
    toll_roots: [0; CARS_PER_BUCKET],
    cars: [Car(0); CARS_PER_BUCKET],
};

impl Bucket {
    /// A bit for each slot that holds this id. Without branches, because the slot of a car cannot be predicted.
    #[inline]
    fn slots_of(&self, vid: u32) -> u32 {
        let mut slots = 0;
        for (slot, other) in self.vids.iter().enumerate() {
            slots |= u32::from(*other == vid) << slot;
        }
        slots
    }
}

/// Where a car is in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarSlot {
    bucket: u32,
    slot: u32,
}

/// The table. Grows as needed; 21 to 32 bytes per car on the road.
#[derive(Debug)]
pub struct CarTable {
    buckets: Vec<Bucket>,
    used: usize,
    /// It grows when more slots than this are used.
    used_max: usize,
}

impl Default for CarTable {
    fn default() -> Self {
        CarTable::with_capacity(0, 0)
    }
}

impl CarTable {
    /// A table with room for this many cars: they fill it by half, so that hardly any is outside its home bucket, where
    /// finding it would cost another wait for memory.
    ///
    /// It grows when 5/8 to 6/8 of its slots are used, depending on the id of one of its cars. Expressways with equal traffic
    /// would grow at the same moment otherwise, and all cars of all of them would move in one cycle.
    pub fn with_capacity(cars: usize, vid: u32) -> Self {
        let buckets = (2 * cars).div_ceil(CARS_PER_BUCKET).max(1);
        let spread = (mixed(vid) >> 56) as usize;
        let used_max = buckets * CARS_PER_BUCKET * 5 / 8 + buckets * spread / 256;
        CarTable { buckets: vec![EMPTY_BUCKET; buckets], used: 0, used_max }
    }

    /// Prefetches the memory of a car's entry.
    #[inline]
    pub fn prefetch(&self, vid: u32) {
        let bucket = &self.buckets[self.home(vid)];
        prefetch::read(&bucket.vids);
        prefetch::read(&bucket.cars);
    }

    /// The car's place and entry, or its place and `None` if it had no entry; one was created then.
    #[inline]
    pub fn find_or_insert(&mut self, vid: u32, now: u16) -> (CarSlot, Option<Car>) {
        let home = self.home(vid);
        let bucket = &self.buckets[home];
        let slots = bucket.slots_of(vid);
        if slots == 0 {
            return self.search(home, vid, now);
        }
        let slot = slots.trailing_zeros();
        (CarSlot { bucket: home as u32, slot }, Some(bucket.cars[slot as usize % CARS_PER_BUCKET]))
    }

    /// Replaces the entry at a place.
    #[inline]
    pub fn set(&mut self, place: CarSlot, car: Car) {
        self.buckets[place.bucket as usize].cars[place.slot as usize % CARS_PER_BUCKET] = car;
    }

    /// Replaces the toll that the car was notified of and not yet charged, and returns the previous one. The toll is
    /// twice the square of this number.
    #[inline]
    pub fn replace_toll_root(&mut self, place: CarSlot, toll_root: u32) -> u32 {
        let slot = place.slot as usize % CARS_PER_BUCKET;
        std::mem::replace(&mut self.buckets[place.bucket as usize].toll_roots[slot], toll_root)
    }

    /// All cars that have not expired, as (vehicle id, toll root, entry), in no particular order.
    pub fn cars(&self, now: u16) -> impl Iterator<Item = (u32, u32, Car)> + '_ {
        let of_bucket = |bucket: &Bucket| {
            let bucket = *bucket;
            (0..CARS_PER_BUCKET)
                .map(move |slot| (bucket.vids[slot], bucket.toll_roots[slot], bucket.cars[slot]))
        };
        let is_live = move |(vid, _, car): &(u32, u32, Car)| *vid != EMPTY && !car.has_expired(now);
        self.buckets.iter().flat_map(of_bucket).filter(is_live)
    }

    /// Inserts an entry that was taken from another table.
    pub fn insert(&mut self, vid: u32, toll_root: u32, car: Car) {
        let (place, _) = self.find_or_insert(vid, car.time());
        self.set(place, car);
        self.replace_toll_root(place, toll_root);
    }

    /// Bytes that the table takes.
    pub fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    #[inline]
    fn home(&self, vid: u32) -> usize {
        (((mixed(vid) >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    /// The car is not in its home bucket.
    #[cold]
    fn search(&mut self, home: usize, vid: u32, now: u16) -> (CarSlot, Option<Car>) {
        let mut free = None;
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            let slots = bucket.slots_of(vid);
            if slots != 0 {
                let slot = slots.trailing_zeros();
                return (CarSlot { bucket: at as u32, slot }, Some(bucket.cars[slot as usize]));
            }
            let expired = |slot: &usize| bucket.vids[*slot] != EMPTY && bucket.cars[*slot].has_expired(now);
            let place = |slot: usize| CarSlot { bucket: at as u32, slot: slot as u32 };
            free = free.or_else(|| (0..CARS_PER_BUCKET).find(expired).map(place));
            let empty = bucket.slots_of(EMPTY);
            if empty != 0 {
                return (self.claim(free, place(empty.trailing_zeros() as usize), vid, now), None);
            }
            at = if at + 1 == self.buckets.len() { 0 } else { at + 1 };
        }
    }

    fn claim(&mut self, expired: Option<CarSlot>, empty: CarSlot, vid: u32, now: u16) -> CarSlot {
        if expired.is_none() {
            // At least one slot in four stays empty: searches end, and end soon.
            if self.used + 1 > self.used_max {
                self.rebuild(now, vid);
                return self.find_or_insert(vid, now).0;
            }
            self.used += 1;
        }
        let place = expired.unwrap_or(empty);
        let (bucket, slot) = (&mut self.buckets[place.bucket as usize], place.slot as usize);
        (bucket.vids[slot], bucket.toll_roots[slot]) = (vid, 0);
        // Not expired as of now, in case it is never set.
        bucket.cars[slot] = Car(u64::from(now));
        place
    }

    /// Drops expired entries, and makes room for the car with this id.
    fn rebuild(&mut self, now: u16, vid: u32) {
        let live = self.cars(now).count();
        let old = std::mem::replace(self, CarTable::with_capacity(live + 1, vid));
        old.cars(now).for_each(|(vid, toll_root, car)| self.insert(vid, toll_root, car));
    }
}

/// Multiplying by an odd constant and folding spreads ids in sequence, and ids that differ in a stride.
#[inline]
fn mixed(vid: u32) -> u64 {
    (u64::from(vid) ^ u64::from(vid) >> 15).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::event::POSITION_MAX;

    const POSITIONS: u32 = POSITION_MAX + 1;

    fn car(time: u16, pos: u32) -> Car {
        Car::new(CarFields {
            time,
            lane: 4,
            dir: 1,
            seg: 99,
            pos,
            same_place: 4,
            speed_sum: 1000,
            speed_count: 10,
        })
    }

    #[test]
    fn fields_survive_packing() {
        let fields = car(10_799, 527_999).fields();
        assert_eq!((fields.time, fields.pos, fields.lane, fields.dir), (10_799, 527_999, 4, 1));
        assert_eq!((fields.seg, fields.same_place, fields.speed_sum, fields.speed_count), (99, 4, 1000, 10));
    }

    #[test]
    fn tables_with_equal_traffic_do_not_grow_at_the_same_moment() {
        const CARS: u32 = 1000;
        let mut tables: Vec<CarTable> = (0..200).map(|_| CarTable::default()).collect();
        // How many tables grow while the traffic grows by a hundredth.
        let mut grown = Vec::new();
        for hundredth in 0..100 {
            let before: Vec<usize> = tables.iter().map(CarTable::bytes).collect();
            for (road, table) in (0..).zip(&mut tables) {
                for car in 0..CARS / 100 {
                    table.find_or_insert(road * CARS + hundredth * CARS / 100 + car, 1);
                }
            }
            grown.push(tables.iter().zip(before).filter(|(table, before)| table.bytes() > *before).count());
        }
        // In the second half of the growth every table grows once, or twice if it was early.
        let late = &grown[50..];
        assert!(late.iter().sum::<usize>() >= 100, "{grown:?}");
        assert!(late.iter().all(|grown| *grown <= 40), "{grown:?}");
    }

    proptest! {
        /// Compared with a map that never forgets: an entry may be missing only if it has expired.
        #[test]
        fn cars_are_found_until_they_expire(reports in prop::collection::vec((0u32..400, 0u16..5), 0..3000)) {
            let mut table = CarTable::default();
            let mut model: HashMap<u32, (Car, u32)> = HashMap::new();
            let mut now = 0;
            for (index, (vid, pause)) in reports.into_iter().enumerate() {
                let (vid, toll_root) = (vid * 7919, index as u32);
                now += pause;
                let (place, found) = table.find_or_insert(vid, now);
                match (found, model.get(&vid)) {
                    (Some(found), Some((expected, _))) => prop_assert_eq!(found, *expected),
                    (None, Some((expected, _))) => prop_assert!(expected.has_expired(now)),
                    (found, None) => prop_assert_eq!(found, None),
                }
                table.set(place, car(now, vid % POSITIONS));
                let before = table.replace_toll_root(place, toll_root);
                prop_assert_eq!(before, if found.is_some() { model[&vid].1 } else { 0 });
                model.insert(vid, (car(now, vid % POSITIONS), toll_root));
            }
            let live = model.values().filter(|(car, _)| !car.has_expired(now)).count();
            prop_assert_eq!(table.cars(now).count(), live);
        }
    }
}
