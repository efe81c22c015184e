//! What the memory itself allows: one bucket of two cache lines per event, read and written at a random place that is
//! known in advance, and nothing else.

use std::hint::black_box;
use std::time::Instant;

use tidemill_engine::prefetch;

const AHEAD: usize = 12;

/// Two cache lines, as a bucket of the table of cars.
#[derive(Clone, Copy)]
#[repr(align(128))]
struct Bucket([u64; 16]);

/// Nanoseconds per event on one core, over tables of this many bytes.
pub fn nanoseconds_per_event(table_bytes: u64, events: u64) -> f64 {
    let buckets = (table_bytes / size_of::<Bucket>() as u64).max(1);
    let mut table = vec![Bucket([1; 16]); buckets as usize];
    // The places of all events in a batch are known when it begins, as a batch's ids are.
    let mut places = vec![0; 65_536 + AHEAD];
    let mut random = fastrand::Rng::with_seed(1);
    let mut measured_ns = 0.0;
    let rounds = events.div_ceil(65_536);
    for _ in 0..rounds {
        for place in &mut places {
            *place = random.usize(..buckets as usize);
        }
        let start = Instant::now();
        for event in 0..65_536 {
            let ahead = &table[places[event + AHEAD]];
            prefetch::read(&ahead.0[0]);
            prefetch::read(&ahead.0[8]);
            let bucket = &mut table[places[event]].0;
            bucket[8] = bucket[8].wrapping_add(bucket[0]);
        }
        measured_ns += start.elapsed().as_nanos() as f64;
    }
    black_box(&table);
    measured_ns / (rounds * 65_536) as f64
}
