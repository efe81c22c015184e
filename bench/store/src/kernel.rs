//! What the kernel says about waiting: for a processor, and for the machine that this machine runs on.

use std::fs::{File, read_to_string};
use std::os::unix::fs::FileExt;

/// How long the thread that opened it has waited for a processor while it could have run.
pub struct RunQueue {
    /// `None`: the kernel does not count it.
    schedstat: Option<File>,
}

impl RunQueue {
    pub fn of_this_thread() -> RunQueue {
        RunQueue { schedstat: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// Nanoseconds since the thread began.
    pub fn waited_ns(&self) -> u64 {
        let mut text = [0_u8; 96];
        let read = self.schedstat.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = std::str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
        text.split(' ').nth(1).and_then(|waited| waited.parse().ok()).unwrap_or(0)
    }
}

/// Ticks of all processors of this machine.
#[derive(Clone, Copy, Default)]
pub struct Ticks {
    all: u64,
    idle: u64,
    stolen: u64,
}

impl Ticks {
    /// Until now; nothing if the kernel does not tell.
    pub fn now() -> Ticks {
        let text = read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).flat_map(str::parse).take(8).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        Ticks { all: ticks.iter().sum(), idle: at(3) + at(4), stolen: at(7) }
    }

    /// Which share of the processors' time was used since, and which share the host took.
    pub fn since(self, before: Ticks) -> (f64, f64) {
        let all = (self.all - before.all).max(1) as f64;
        (1.0 - (self.idle - before.idle) as f64 / all, (self.stolen - before.stolen) as f64 / all)
    }
}
