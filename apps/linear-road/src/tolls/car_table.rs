//! The cars of one expressway: an open-addressed table of 16-byte entries in cache-line buckets.
//!
//! One report costs one cache miss here, which [`CarTable::prefetch`] lets overlap with others. Entries of
//! cars that have left are not removed but overwritten once they are more than a trip's gap old (60 s,
//! specification, section 4): such an entry says nothing that the absence of an entry would not.

use tidemill_engine::prefetch;

use crate::event::VID_MAX;

/// The longest gap between two reports of one trip, in seconds.
pub const TRIP_GAP_MAX_S: u16 = 60;

const EMPTY: Car = Car([u32::MAX as u64, 0]);
const CARS_PER_BUCKET: usize = 4;

/// What is known of a car since its last report, in 115 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Car([u64; 2]);

macro_rules! fields {
    ($($get:ident $set:ident $type:ty, $word:literal, $shift:literal, $bits:literal, $doc:literal;)*) => {
        impl Car {
            $(
                #[doc = $doc]
                #[inline]
                pub fn $get(self) -> $type {
                    (self.0[$word] >> $shift & ((1 << $bits) - 1)) as $type
                }
                #[doc = concat!("Sets: ", $doc)]
                #[inline]
                pub fn $set(&mut self, value: $type) {
                    let mask = ((1u64 << $bits) - 1) << $shift;
                    debug_assert!(u64::from(value) < 1 << $bits);
                    self.0[$word] = self.0[$word] & !mask | u64::from(value) << $shift;
                }
            )*
        }
    };
}

fields! {
    vid set_vid u32, 0, 0, 32, "Vehicle id.";
    time set_time u16, 0, 32, 14, "Second of the last report.";
    lane set_lane u8, 0, 46, 3, "Lane of the last report.";
    dir set_dir u8, 0, 49, 1, "Direction of the last report.";
    seg set_seg u8, 0, 50, 7, "Segment of the last report.";
    same_place set_same_place u8, 0, 57, 3, "How many reports in a row came from exactly this place, up to 4.";
    pos set_pos u32, 1, 0, 20, "Position of the last report.";
    toll_root set_toll_root u32, 1, 20, 20, "The toll told and not yet charged is twice the square of this.";
    speed_sum set_speed_sum u16, 1, 40, 10, "Sum of the speeds reported from this segment in this minute.";
    speed_count set_speed_count u8, 1, 50, 4, "How many speeds that sum holds, up to 10.";
}

impl Car {
    /// A car that has not reported yet.
    pub fn new(vid: u32) -> Self {
        Car([u64::from(vid), 0])
    }

    /// The entry as two words, for snapshots.
    pub fn to_words(self) -> [u64; 2] {
        self.0
    }

    /// The entry from its two words.
    pub fn from_words(words: [u64; 2]) -> Self {
        Car(words)
    }

    /// Whether the car's trip must have ended before `now`.
    pub fn has_expired(self, now: u16) -> bool {
        self.time() + TRIP_GAP_MAX_S < now
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket([Car; CARS_PER_BUCKET]);

const EMPTY_BUCKET: Bucket = Bucket([EMPTY; CARS_PER_BUCKET]);

/// Where a car is in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its entry is here.
    Found(usize),
    /// It has none; a new one was made here, with nothing but the car's id in it.
    New(usize),
}

/// The table. Grows as needed; 18 to 24 bytes per car on the road.
#[derive(Debug)]
pub struct CarTable {
    buckets: Vec<Bucket>,
    used: usize,
}

impl Default for CarTable {
    fn default() -> Self {
        CarTable { buckets: vec![EMPTY_BUCKET; 2], used: 0 }
    }
}

impl CarTable {
    /// A table with room for this many cars.
    pub fn with_capacity(cars: usize) -> Self {
        CarTable { buckets: vec![EMPTY_BUCKET; buckets_for(cars)], used: 0 }
    }

    /// Asks for the memory of a car's entry.
    #[inline]
    pub fn prefetch(&self, vid: u32) {
        prefetch::read(&self.buckets[self.home(vid)]);
    }

    /// The car's place; makes an entry if it has none.
    #[inline]
    pub fn find_or_insert(&mut self, vid: u32, now: u16) -> Place {
        let home = self.home(vid);
        let bucket = &self.buckets[home].0;
        for (slot, car) in bucket.iter().enumerate() {
            if car.vid() == vid {
                return Place::Found(home * CARS_PER_BUCKET + slot);
            }
        }
        self.search(home, vid, now)
    }

    /// The entry at a place.
    #[inline]
    pub fn get(&self, index: usize) -> Car {
        self.buckets[index / CARS_PER_BUCKET].0[index % CARS_PER_BUCKET]
    }

    /// Replaces the entry at a place; the car must be the same.
    #[inline]
    pub fn set(&mut self, index: usize, car: Car) {
        let slot = &mut self.buckets[index / CARS_PER_BUCKET].0[index % CARS_PER_BUCKET];
        debug_assert_eq!(slot.vid(), car.vid());
        *slot = car;
    }

    /// All cars that have not expired, in no particular order.
    pub fn cars(&self, now: u16) -> impl Iterator<Item = Car> + '_ {
        self.buckets
            .iter()
            .flat_map(|bucket| bucket.0)
            .filter(move |car| *car != EMPTY && !car.has_expired(now))
    }

    /// Puts an entry into the table that was taken from another.
    pub fn insert(&mut self, car: Car) {
        match self.find_or_insert(car.vid(), car.time()) {
            Place::Found(index) | Place::New(index) => self.set(index, car),
        }
    }

    /// Bytes that the table takes.
    pub fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    #[inline]
    fn home(&self, vid: u32) -> usize {
        // Multiplying by an odd constant and folding spreads ids in sequence, and ids that differ in a stride.
        let mixed = (u64::from(vid) ^ u64::from(vid) >> 15).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed >> 32) * self.buckets.len() as u64 >> 32) as usize
    }

    #[cold]
    fn search(&mut self, home: usize, vid: u32, now: u16) -> Place {
        debug_assert!(vid <= VID_MAX);
        let mut free = None;
        let mut bucket = home;
        loop {
            for (slot, car) in self.buckets[bucket].0.iter().enumerate() {
                let index = bucket * CARS_PER_BUCKET + slot;
                if car.vid() == vid {
                    return Place::Found(index);
                }
                if *car == EMPTY {
                    return self.claim(free, index, vid, now);
                }
                if free.is_none() && car.has_expired(now) {
                    free = Some(index);
                }
            }
            bucket = if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 };
        }
    }

    fn claim(&mut self, expired: Option<usize>, empty: usize, vid: u32, now: u16) -> Place {
        if expired.is_none() {
            // One slot in eight stays empty, so that searches end.
            if (self.used + 1) * 8 > self.buckets.len() * CARS_PER_BUCKET * 7 {
                self.rebuild(now);
                return self.find_or_insert(vid, now);
            }
            self.used += 1;
        }
        let index = expired.unwrap_or(empty);
        self.buckets[index / CARS_PER_BUCKET].0[index % CARS_PER_BUCKET] = Car::new(vid);
        Place::New(index)
    }

    /// Drops what has expired, and makes room.
    fn rebuild(&mut self, now: u16) {
        let live: Vec<Car> = self.cars(now).collect();
        *self = CarTable::with_capacity(live.len() + 1);
        for car in live {
            self.insert(car);
        }
    }
}

/// Two thirds full, so that a rebuild is followed by at least a fifth more cars before the next.
fn buckets_for(cars: usize) -> usize {
    (cars + cars / 2).div_ceil(CARS_PER_BUCKET).max(2)
}
