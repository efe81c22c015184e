//! Sends reports to the server's source.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::reports::report;

/// Reports that are written at once.
const PIECE_ROWS: u64 = 1000;

/// A connection to the source.
pub struct Feed {
    stream: UnixStream,
    cars: u64,
    sent: AtomicU64,
}

impl Feed {
    pub fn connect(path: &Path, cars: u64) -> anyhow::Result<Feed> {
        let stream = UnixStream::connect(path).with_context(|| format!("no source at {}", path.display()))?;
        Ok(Feed { stream, cars, sent: AtomicU64::new(0) })
    }

    pub fn cars(&self) -> u64 {
        self.cars
    }

    /// How many reports were sent; it is the number of the next one.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sends this many reports, as fast as they are taken.
    pub fn send(&self, mut rows: u64) -> anyhow::Result<()> {
        let mut text = Vec::new();
        while rows > 0 {
            let piece = rows.min(PIECE_ROWS);
            text.clear();
            for number in self.sent()..self.sent() + piece {
                report(self.cars, number).write(&mut text)?;
            }
            (&self.stream).write_all(&text)?;
            self.sent.fetch_add(piece, Ordering::Relaxed);
            rows -= piece;
        }
        Ok(())
    }

    /// Sends reports at a rate until the end. If they are not taken in time, it does not make up for that.
    pub fn send_at_rate(&self, rate: u64, end: &AtomicBool) -> anyhow::Result<()> {
        let mut start = Instant::now();
        let mut sent = 0;
        while !end.load(Ordering::Relaxed) {
            let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
            self.send(due.saturating_sub(sent).min(PIECE_ROWS))?;
            sent += due.saturating_sub(sent).min(PIECE_ROWS);
            if due > sent + rate / 10 {
                (start, sent) = (Instant::now(), 0);
            }
            if due <= sent {
                thread::sleep(Duration::from_micros(500));
            }
        }
        Ok(())
    }
}
