//! Displays a query while it runs.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidemill_engine::{Counter, Takeover};
use tidemill_sql::QueryStatus;

use super::replacement;
use crate::{quantity, terminal};

/// How often the line changes on a terminal, and when it first appears: short queries need none.
const WATCHED: Duration = Duration::from_millis(200);
/// How often there is a line elsewhere.
const UNWATCHED: Duration = Duration::from_secs(5);

/// A line that shows the progress of a query.
pub(crate) struct QueryProgress {
    shown: DisplayMode,
    next: Instant,
    last: (Instant, u64),
    /// As long as it is not reported.
    takeover: Option<Takeover>,
}

enum DisplayMode {
    /// One line that changes.
    Line(ProgressBar),
    /// A line at intervals.
    Lines,
    Nothing,
}

impl QueryProgress {
    /// How often to call [`look`](QueryProgress::look).
    pub const LOOK: Duration = Duration::from_millis(5);

    /// For a query whose rows are shown: on a terminal, unless rows `stream` to the same one.
    pub fn of_query(stream: bool) -> QueryProgress {
        QueryProgress::new(if terminal::is_watched() && !(stream && terminal::shares_terminal()) {
            DisplayMode::line()
        } else {
            DisplayMode::Nothing
        })
    }

    /// For sinks that run until they are stopped: on a terminal, and at intervals into a log.
    pub fn of_pipeline(writes_rows: bool) -> QueryProgress {
        QueryProgress::new(if !terminal::is_watched() {
            DisplayMode::Lines
        } else if writes_rows && terminal::shares_terminal() {
            DisplayMode::Nothing
        } else {
            DisplayMode::line()
        })
    }

    fn new(shown: DisplayMode) -> QueryProgress {
        let now = Instant::now();
        let first = if matches!(shown, DisplayMode::Lines) { UNWATCHED } else { WATCHED };
        QueryProgress { shown, next: now + first, last: (now, 0), takeover: None }
    }

    /// Also reports when the query has taken over from the one that it replaces.
    pub fn replaces(&mut self, takeover: Option<Takeover>) {
        self.takeover = takeover;
    }

    /// At the end of a query that replaces another one: whether it has taken over.
    pub fn tell_takeover(&mut self) {
        self.look_for_takeover();
        if self.takeover.is_some() {
            self.tell(replacement::NOT_DONE);
        }
    }

    fn look_for_takeover(&mut self) {
        if self.takeover.take_if(|takeover| takeover.is_done()).is_some() {
            self.tell(replacement::DONE);
        }
    }

    /// Shows the progress of the query, if an update is due.
    pub fn look(&mut self, status: impl FnOnce() -> Option<QueryStatus>) {
        self.look_for_takeover();
        let now = Instant::now();
        if now < self.next || matches!(self.shown, DisplayMode::Nothing) {
            return;
        }
        self.next = now + if matches!(self.shown, DisplayMode::Lines) { UNWATCHED } else { WATCHED };
        let Some(status) = status() else { return };
        let line = self.line(&status, now);
        match &self.shown {
            DisplayMode::Line(bar) => {
                bar.set_message(line);
                bar.tick();
            }
            _ => terminal::tell(&line),
        }
    }

    /// A line that stays, above the one that changes.
    pub fn tell(&self, text: &str) {
        match &self.shown {
            DisplayMode::Line(bar) => bar.suspend(|| terminal::tell(text)),
            _ => terminal::tell(text),
        }
    }

    /// Removes the line.
    pub fn end(&self) {
        if let DisplayMode::Line(bar) = &self.shown {
            bar.finish_and_clear();
            terminal::set_status_line(None);
        }
    }

    fn line(&mut self, status: &QueryStatus, now: Instant) -> String {
        let rows = status.rows_in();
        let (before, rows_before) = std::mem::replace(&mut self.last, (now, rows));
        let rate = rows.saturating_sub(rows_before) as f64 / (now - before).as_secs_f64().max(1e-3);
        let mut line = match percent(status) {
            Some(percent) => format!("{percent:.0} % | "),
            None => String::new(),
        };
        line.push_str(&quantity::counted_short(rows as f64, "row"));
        line.push_str(&format!(" in, {}/s", quantity::counted_short(rate, "row")));
        line.push_str(&format!(" | {} out", quantity::short(status.engine.get(Counter::RowsOut) as f64)));
        let per_event = &status.engine.per_event;
        if per_event.count() > 0 {
            line.push_str(&format!(" | p99 {}", quantity::time(per_event.quantile(0.99))));
        }
        for (count, what) in [
            (status.late, "late"),
            (status.faults.count, "bad"),
            (status.null_results.count, "null"),
            (status.refused.count, "refused"),
        ] {
            if count > 0 {
                line.push_str(&format!(" | {} {what}", quantity::short(count as f64)));
            }
        }
        line
    }
}

impl DisplayMode {
    fn line() -> DisplayMode {
        let style = ProgressStyle::with_template("{wide_msg}").expect("the template is valid");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
        terminal::set_status_line(Some(bar.clone()));
        DisplayMode::Line(bar)
    }
}

/// The progress of the slowest source; `None` if one of them does not know its end. Sources count in units of their own
/// (bytes, rows), so shares cannot be added up.
fn percent(status: &QueryStatus) -> Option<f64> {
    let shares = status.sources.iter().map(|(_, feed)| match feed.progress.total {
        _ if feed.ended => Some(100.0),
        Some(total) if total > 0 => Some((100.0 * feed.progress.done as f64 / total as f64).min(100.0)),
        _ => None,
    });
    shares.reduce(|least, share| Some(least?.min(share?)))?
}
