//! Turns events into chunks for the engine's gateway, at the run's pace.

use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::{Chunk, Gateway};

use super::control::Control;
use super::options::Pace;
use crate::event::Event;
use crate::intake::EventColumns;

/// The most events in a chunk: large enough that its cost does not matter, small enough for the caches.
const CHUNK_EVENTS: usize = 4096;
/// The longest sleep before checking whether the run should end.
const NAP_NS: u64 = 20_000_000;

/// The run was told to end, or the query has failed: nothing more can be fed.
#[derive(Debug)]
pub(super) struct Ended;

pub(super) struct Feeder {
    gateway: Gateway,
    control: Arc<Control>,
    schedule: Option<Schedule>,
    columns: EventColumns,
    /// In a paced run, the chunks of the current second that are complete; none is pushed before it is due.
    ready: Vec<Chunk>,
    second: u16,
}

/// When the events of each second are due.
struct Schedule {
    times: f64,
    /// When the first second was due, on the engine's clock, and which one it was.
    start: Option<(u64, u16)>,
}

impl Schedule {
    fn due_ns(&mut self, second: u16, now_ns: u64) -> u64 {
        let (start_ns, first) = *self.start.get_or_insert((now_ns, second));
        start_ns + (f64::from(second - first) / self.times * 1e9) as u64
    }
}

impl Feeder {
    pub fn new(gateway: Gateway, pace: Pace, control: Arc<Control>) -> Feeder {
        let schedule = match pace {
            Pace::Max => None,
            Pace::Times(times) => Some(Schedule { times, start: None }),
        };
        Feeder { gateway, control, schedule, columns: EventColumns::default(), ready: Vec::new(), second: 0 }
    }

    /// Takes an event, which is not older than the last one.
    #[inline]
    pub fn event(&mut self, event: &Event) -> Result<(), Ended> {
        if event.time() != self.second {
            self.begin_second(event.time())?;
        }
        self.columns.push(event);
        if self.columns.len() == CHUNK_EVENTS { self.cut() } else { Ok(()) }
    }

    /// Feeds the events taken so far, complete or not.
    pub fn flush(&mut self) -> Result<(), Ended> {
        self.cut()?;
        self.release()
    }

    #[inline(never)]
    fn begin_second(&mut self, second: u16) -> Result<(), Ended> {
        if self.schedule.is_some() {
            self.flush()?;
        }
        self.second = second;
        Ok(())
    }

    /// Makes a chunk of what was taken.
    #[inline(never)]
    fn cut(&mut self) -> Result<(), Ended> {
        if self.columns.is_empty() {
            return Ok(());
        }
        if self.control.is_ended() {
            return Err(Ended);
        }
        let chunk = self.columns.take();
        match &self.schedule {
            Some(_) => self.ready.push(chunk),
            None => self.push(chunk)?,
        }
        Ok(())
    }

    /// Waits until the second is due and pushes its chunks.
    fn release(&mut self) -> Result<(), Ended> {
        let Some(schedule) = &mut self.schedule else { return Ok(()) };
        if self.ready.is_empty() {
            return Ok(());
        }
        let due_ns = schedule.due_ns(self.second, self.gateway.now_ns());
        self.wait_until(due_ns)?;
        for chunk in std::mem::take(&mut self.ready) {
            self.push(Chunk { arrived_ns: Some(due_ns), ..chunk })?;
        }
        Ok(())
    }

    fn wait_until(&self, due_ns: u64) -> Result<(), Ended> {
        loop {
            if self.control.is_ended() {
                return Err(Ended);
            }
            let now_ns = self.gateway.now_ns();
            if now_ns >= due_ns {
                return Ok(());
            }
            std::thread::sleep(Duration::from_nanos((due_ns - now_ns).min(NAP_NS)));
        }
    }

    fn push(&self, chunk: Chunk) -> Result<(), Ended> {
        self.gateway.push(chunk).map_err(|_| Ended)?;
        self.control.reach(self.second);
        Ok(())
    }
}
