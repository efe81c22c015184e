//! Turns events into chunks for the engine's gateway, at the run's pace.

use std::collections::VecDeque;
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
    /// In how many parts they come.
    ticks: u32,
    /// When the first second was due, on the engine's clock, and which one it was.
    start: Option<(u64, u16)>,
}

impl Schedule {
    fn due_ns(&mut self, second: u16, tick: u32, now_ns: u64) -> u64 {
        let (start_ns, first) = *self.start.get_or_insert((now_ns, second));
        let seconds = f64::from(second - first) + f64::from(tick) / f64::from(self.ticks);
        start_ns + (seconds / self.times * 1e9) as u64
    }
}

/// Divides the events of a second evenly; each part has the number of its tick.
fn parts(chunks: Vec<Chunk>, ticks: u32) -> impl Iterator<Item = (u32, Chunk)> {
    let events: u64 = chunks.iter().map(|chunk| u64::from(chunk.events)).sum();
    let mut chunks = VecDeque::from(chunks);
    let (mut tick, mut taken) = (0, 0_u64);
    std::iter::from_fn(move || {
        let chunk = chunks.pop_front()?;
        // The first tick whose events are not all taken; the last one takes the rest.
        let end = |tick: u32| events * u64::from(tick + 1) / u64::from(ticks);
        while tick + 1 < ticks && end(tick) <= taken {
            tick += 1;
        }
        let room = u32::try_from(end(tick) - taken).unwrap_or(u32::MAX);
        let (part, rest) = chunk.split_at(room);
        rest.into_iter().for_each(|rest| chunks.push_front(rest));
        let part = part?;
        taken += u64::from(part.events);
        Some((tick, part))
    })
}

impl Feeder {
    /// At a pace, with the events of a second in this many parts.
    pub fn new(gateway: Gateway, (pace, ticks): (Pace, u32), control: Arc<Control>) -> Feeder {
        let schedule = match pace {
            Pace::Max => None,
            Pace::Times(times) => Some(Schedule { times, ticks: ticks.max(1), start: None }),
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

    /// Pushes the events of the second, each part when it is due.
    fn release(&mut self) -> Result<(), Ended> {
        let Some(schedule) = &mut self.schedule else { return Ok(()) };
        if self.ready.is_empty() {
            return Ok(());
        }
        let (now_ns, ticks) = (self.gateway.now_ns(), schedule.ticks);
        let due_ns = |tick| schedule.due_ns(self.second, tick, now_ns);
        let due: Vec<u64> = (0..ticks).map(due_ns).collect();
        for (tick, chunk) in parts(std::mem::take(&mut self.ready), ticks) {
            let due_ns = due[tick as usize];
            self.wait_until(due_ns)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(events: u32) -> Chunk {
        Chunk { streams: Vec::new(), events, watermark: i64::MIN, arrived_ns: None, idle: false }
    }

    #[test]
    fn the_events_of_a_second_are_spread_evenly_and_all_come() {
        for (chunks, ticks) in [(vec![4096, 4096, 1000], 200), (vec![7], 3), (vec![2], 5), (vec![10, 10], 1)]
        {
            let events: u32 = chunks.iter().sum();
            let mut of_tick = vec![0_u32; ticks as usize];
            let mut last = 0;
            for (tick, part) in parts(chunks.iter().copied().map(chunk).collect(), ticks) {
                assert!(tick >= last && part.events > 0);
                last = tick;
                of_tick[tick as usize] += part.events;
            }
            assert_eq!(of_tick.iter().sum::<u32>(), events);
            let even = events / ticks;
            assert!(of_tick.iter().all(|count| (even..=even + 1).contains(count)), "{of_tick:?}");
        }
    }

    #[test]
    fn parts_are_due_one_after_another_at_the_pace() {
        let mut schedule = Schedule { times: 2.0, ticks: 4, start: None };
        assert_eq!(schedule.due_ns(5, 0, 1000), 1000);
        assert_eq!(schedule.due_ns(5, 3, 9000), 375_001_000);
        assert_eq!(schedule.due_ns(7, 1, 9000), 1_125_001_000);
    }
}
