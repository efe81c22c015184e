//! A program that has become idle gives its memory back, also if no thread asks for memory any more.
#![cfg(target_os = "linux")]

use std::error::Error;
use std::time::{Duration, Instant};
use std::{fs, thread};

#[global_allocator]
static ALLOCATOR: tidemill_allocator::Allocator = tidemill_allocator::Allocator;

const HELD_BYTES: usize = 400 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

fn resident_bytes() -> Result<usize, Box<dyn Error>> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    let pages = pages.split(' ').nth(1).ok_or("no resident size")?.parse::<usize>()?;
    Ok(pages * 4096)
}

#[test]
fn what_was_free_for_long_is_given_back() -> Result<(), Box<dyn Error>> {
    tidemill_allocator::tune_to(Duration::from_millis(200));
    let before = resident_bytes()?;
    let hold = |size: usize| move || vec![vec![1_u8; size]; HELD_BYTES / 4 / size];
    // Small objects, and large ones, on threads that end before what they made is dropped.
    let threads = [1 << 10, 1 << 14, 1 << 18, 1 << 22].map(|size| thread::spawn(hold(size)));
    let held: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().map_err(|_| "a thread panicked"))
        .collect::<Result<_, _>>()?;
    let peak = resident_bytes()?;
    assert!(peak - before >= HELD_BYTES, "{before} bytes, then {peak}");
    drop(held);
    thread::sleep(Duration::from_millis(400));
    let since = Instant::now();
    let mut resident = resident_bytes()?;
    while resident - before > HELD_BYTES / 8 && since.elapsed() < PATIENCE {
        tidemill_allocator::give_back();
        thread::sleep(Duration::from_millis(50));
        resident = resident_bytes()?;
    }
    assert!(resident - before <= HELD_BYTES / 8, "{before} bytes, {peak} at the peak, {resident} at the end");
    Ok(())
}
