//! Running one case after the other, with an eye on time and memory.

use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidemill_testing::random::Random;

const SECONDS: f64 = 5.0;
/// A case that takes longer hangs.
const CASE_SECONDS_MAX: u64 = 30;
/// The address space that the cases may take, whatever the bytes say.
const MEMORY_BYTES_MAX: u64 = 2 << 30;
/// How many cases pass between two checks of the memory.
const MEMORY_EVERY: u64 = 64;

/// Runs the case, with other random numbers each time, until the time is up; returns how often. A failure prints the
/// seed that repeats it.
///
/// # Panics
/// If a case panics, takes too long, or takes too much memory.
pub fn run(target: &str, case: impl FnMut(&mut Random) + Send + 'static) -> u64 {
    let first = first_seed(target);
    say(&format!("{target}: from TIDEMILL_FUZZ_SEED={first} on"));
    let seed = Arc::new(AtomicU64::new(first));
    let current = Arc::clone(&seed);
    let name = target.to_owned();
    let cases = std::thread::spawn(move || all(&name, first, &current, case));
    while !cases.is_finished() {
        let before = seed.load(Ordering::Relaxed);
        let since = Instant::now();
        while !cases.is_finished() && seed.load(Ordering::Relaxed) == before {
            assert!(since.elapsed().as_secs() < CASE_SECONDS_MAX, "{target}: hangs, {}", repeat(before));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let count = cases.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    say(&format!("{target}: {count} cases"));
    count
}

/// Names the case when it panics.
struct Named<'a>(&'a str, u64);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!("{}: failed, {}", self.0, repeat(self.1)));
        }
    }
}

fn all(target: &str, first: u64, current: &AtomicU64, mut case: impl FnMut(&mut Random)) -> u64 {
    let seconds = variable("TIDEMILL_FUZZ_SECONDS").unwrap_or(SECONDS);
    let cases_max: Option<u64> = variable("TIDEMILL_FUZZ_CASES");
    let (start, memory_bytes) = (Instant::now(), address_space_bytes());
    let mut count = 0;
    while cases_max.map_or_else(|| start.elapsed().as_secs_f64() < seconds, |max| count < max) {
        let seed = first + count;
        current.store(seed, Ordering::Relaxed);
        let _named = Named(target, seed);
        case(&mut Random::new(seed));
        count += 1;
        if count % MEMORY_EVERY == 0 {
            let more = address_space_bytes().saturating_sub(memory_bytes);
            assert!(
                more < MEMORY_BYTES_MAX,
                "{target}: {more} bytes more memory, within {MEMORY_EVERY} cases"
            );
        }
    }
    count
}

/// The same cases each time, so that a change fails for what it has changed; with `new`, other cases.
fn first_seed(target: &str) -> u64 {
    match std::env::var("TIDEMILL_FUZZ_SEED").as_deref() {
        Ok("new") => RandomState::new().hash_one(target) >> 16,
        Ok(seed) => seed.parse().expect("TIDEMILL_FUZZ_SEED is a number, or new"),
        Err(_) => 0,
    }
}

fn repeat(seed: u64) -> String {
    format!("to repeat it: TIDEMILL_FUZZ_SEED={seed} TIDEMILL_FUZZ_CASES=1")
}

/// Writes past the test harness, which would lose it if the process aborts.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "fuzz {text}");
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// The most address space that this process ever had; 0 where the system does not say.
fn address_space_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let kilobytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
