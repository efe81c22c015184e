//! Displays a run while it continues: two lines that change on a terminal, one line per second elsewhere.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidemill_engine::Counter;
use tidemill_linear_road::answers::ACCIDENTS;
use tidemill_linear_road::run::{Progress, Run};

use crate::{quantity, terminal};

/// How often the lines change on a terminal; and elsewhere, how often there is a line after the first.
const WATCHED: Duration = Duration::from_millis(200);
const UNWATCHED: Duration = Duration::from_secs(1);
/// The interval over which rates are measured.
const RATE_NS: u64 = 2_000_000_000;

/// Displays a run.
pub(crate) struct RunProgress {
    /// `None` if nobody watches.
    bar: Option<ProgressBar>,
    next: Instant,
    rates: Rates,
    end_s: Option<u32>,
}

impl RunProgress {
    /// How often to call [`look`](RunProgress::look).
    pub(crate) const LOOK: Duration = Duration::from_millis(10);

    /// For a run of this length, if it is known.
    pub(crate) fn new(end_s: Option<u32>) -> RunProgress {
        let bar = terminal::is_watched().then(|| {
            // One line would be cut off on a terminal of 80 columns.
            let style = ProgressStyle::with_template("{prefix}\n{wide_msg}").expect("the template is valid");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        RunProgress { bar, next: Instant::now() + WATCHED, rates: Rates::default(), end_s }
    }

    /// Shows the progress of the run, if an update is due.
    pub(crate) fn look(&mut self, run: &Run) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + if self.bar.is_some() { WATCHED } else { UNWATCHED };
        let [progress, results] = self.lines(&run.progress());
        match &self.bar {
            Some(bar) => {
                bar.set_prefix(progress);
                bar.set_message(results);
                bar.tick();
            }
            None => terminal::tell(&format!("{progress} | {results}")),
        }
    }

    /// Prints a message in between.
    pub(crate) fn tell(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| terminal::tell(line)),
            None => terminal::tell(line),
        }
    }

    /// Removes the lines.
    pub(crate) fn end(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Progress and rates; response times and results.
    fn lines(&mut self, progress: &Progress) -> [String; 2] {
        let (events_per_second, cycles_per_second) = self.rates.take(progress);
        let times = &progress.status.per_event;
        let of = self.end_s.map(|end_s| format!(" of {}", quantity::clock(end_s))).unwrap_or_default();
        let speed = format!(
            "{}{of} | {} events/s | {} cycles/s",
            quantity::clock(progress.simulated_s.unwrap_or(0)),
            quantity::short(events_per_second),
            quantity::short(cycles_per_second),
        );
        let mut results = format!(
            "p50 {}, p99 {}, max {} | {} tolls | {} accident notices",
            quantity::time(times.quantile(0.5)),
            quantity::time(times.quantile(0.99)),
            quantity::time(times.max()),
            quantity::short(progress.answers.tolls_above_zero as f64),
            quantity::short(progress.answers.kinds[ACCIDENTS].answers as f64),
        );
        if progress.bad_lines > 0 {
            results += &format!(" | {} bad lines", quantity::count(progress.bad_lines));
        }
        [speed, results]
    }
}

/// Events and cycles per second over the last moments.
#[derive(Default)]
struct Rates {
    /// (nanoseconds since the start, events committed, cycles committed), oldest first.
    samples: VecDeque<(u64, u64, u64)>,
}

impl Rates {
    fn take(&mut self, progress: &Progress) -> (f64, f64) {
        let status = &progress.status;
        let now =
            (status.elapsed_ns, status.get(Counter::EventsCommitted), status.get(Counter::CyclesCommitted));
        while self.samples.len() > 1 && self.samples[0].0 + RATE_NS < now.0 {
            self.samples.pop_front();
        }
        let from = self.samples.front().copied().unwrap_or_default();
        self.samples.push_back(now);
        let seconds = (now.0 - from.0) as f64 / 1e9;
        let rate = |from: u64, to: u64| if seconds > 0.0 { (to - from) as f64 / seconds } else { 0.0 };
        (rate(from.1, now.1), rate(from.2, now.2))
    }
}
