//! Many threads that keep a little of what they have allocated keep little memory, once each has released it.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_types,
    reason = "parking_lot allocates for each thread that waits, and this test counts what threads keep"
)]

use std::error::Error;
use std::sync::{Barrier, Mutex, PoisonError};
use std::{fs, thread};

#[global_allocator]
static ALLOCATOR: tidemill_allocator::Allocator = tidemill_allocator::Allocator;

const THREADS: usize = 100;
const ROUNDS: u64 = 5;
const STACK_BYTES: usize = 256 * 1024;

/// As a session that plans: thousands of objects of all sizes up to 32 KiB, of which it keeps a few.
fn plan(seed: u64) -> Vec<Vec<u8>> {
    let (mut kept, mut dropped) = (Vec::new(), Vec::new());
    let mut random = seed;
    for index in 0..10_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let least = 16_usize << ((random >> 33) % 11);
        let object = vec![1_u8; least + (random >> 44) as usize % least];
        let of = if index % 250 == 0 { &mut kept } else { &mut dropped };
        of.push(object);
        if dropped.len() > 2_000 {
            dropped.swap_remove((random >> 20) as usize % 2_000);
        }
    }
    kept
}

fn resident_bytes() -> Result<usize, Box<dyn Error>> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    let pages = pages.split(' ').nth(1).ok_or("no resident size")?.parse::<usize>()?;
    Ok(pages * 4096)
}

#[test]
fn a_thread_goes_on_after_its_release() -> Result<(), Box<dyn Error>> {
    let release = || {
        for _ in 0..3 {
            tidemill_allocator::release();
            assert_eq!(vec![7_u8; 100_000].iter().map(|byte| usize::from(*byte)).sum::<usize>(), 700_000);
        }
    };
    // Before and after the program is tuned, on the thread that tunes it, and on one with the name of the first.
    release();
    tidemill_allocator::tune();
    release();
    for name in ["main", "other"] {
        thread::Builder::new().name(name.into()).spawn(release)?.join().map_err(|_| "the thread panicked")?;
    }
    Ok(())
}

#[test]
fn threads_share_the_pages_on_which_they_keep_little() -> Result<(), Box<dyn Error>> {
    tidemill_allocator::tune();
    let (turn, kept_bytes) = (Mutex::new(()), Mutex::new(0));
    let (planned, ends) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        for number in 0..THREADS as u64 {
            let (turn, kept_bytes, planned, ends) = (&turn, &kept_bytes, &planned, &ends);
            let work = move || {
                let mut kept = Vec::new();
                for round in 0..ROUNDS {
                    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                    kept = plan(number * ROUNDS + round);
                    tidemill_allocator::release();
                }
                *kept_bytes.lock().unwrap_or_else(PoisonError::into_inner) +=
                    kept.iter().map(Vec::len).sum::<usize>();
                planned.wait();
                ends.wait();
                assert!(kept.iter().flatten().all(|byte| *byte == 1), "kept objects changed");
            };
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, work)?;
        }
        planned.wait();
        let resident = resident_bytes();
        ends.wait();
        let (resident, kept) = (resident?, *kept_bytes.lock().unwrap_or_else(PoisonError::into_inner));
        // Without sharing: 700 MB or more for 17 MB that are kept, and what one thread needs at a time.
        assert!(resident < 200 << 20, "{resident} bytes are resident for {kept} that are kept");
        Ok(())
    })
}
