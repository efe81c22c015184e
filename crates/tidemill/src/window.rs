//! Windows of event time, and windows by count.

use std::time::Duration;

use tidemill_engine::Cause;
use tidemill_operators::{EmptyWindows, SessionSpec, WindowSpec};

use crate::empty_windows::windows_in;
use crate::keyed::KeyedStream;
use crate::stream::Stream;

/// How rows are divided into windows, by their event time or by their number. The source declares which column is its event
/// time: [`Stream::event_time`]. A window may use another column, for example one that a function computed, if its times are
/// never earlier than the event time. Rows with an earlier time count as late.
///
/// ```
/// use std::time::Duration;
/// use tidemill::Window;
/// let by_minute = Window::tumbling("time", Duration::from_secs(60));
/// let last_minute = Window::hopping("time", Duration::from_secs(60), Duration::from_secs(1));
/// let visits = Window::session("time", Duration::from_secs(1800));
/// let hundreds = Window::rows(100);
/// assert_ne!(by_minute, last_minute);
/// # assert_ne!(by_minute, visits);
/// # assert_ne!(visits, hundreds);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    kind: Kind,
    /// How long a key gets windows without rows.
    empty: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Regular { time: String, size: Duration, slide: Duration },
    Session { time: String, gap: Duration },
    Rows(RowWindow),
}

/// A window by count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowWindow {
    pub size: u32,
    /// The rows from the beginning of one window to that of the next.
    pub slide: u32,
}

/// A window with its columns resolved.
pub(crate) enum ResolvedWindow {
    Regular(WindowSpec, Option<EmptyWindows>),
    Session(SessionSpec),
    Rows(RowWindow),
}

impl Window {
    /// Consecutive windows of this size.
    pub fn tumbling(time: &str, size: Duration) -> Window {
        Window::hopping(time, size, size)
    }

    /// Windows of this size; one begins every `slide`.
    pub fn hopping(time: &str, size: Duration, slide: Duration) -> Window {
        Window { kind: Kind::Regular { time: time.to_owned(), size, slide }, empty: None }
    }

    /// The rows of a key in which each row is at most `gap` after the row before it.
    pub fn session(time: &str, gap: Duration) -> Window {
        Window { kind: Kind::Session { time: time.to_owned(), gap }, empty: None }
    }

    /// Consecutive windows of this many rows of a key, in the order of arrival. The last one may have fewer. `window_start`
    /// and `window_end` are numbers of rows, from 0.
    pub fn rows(size: u32) -> Window {
        Window::sliding_rows(size, size)
    }

    /// Windows of this many rows of a key; one begins every `slide` rows.
    pub fn sliding_rows(size: u32, slide: u32) -> Window {
        Window { kind: Kind::Rows(RowWindow { size, slide }), empty: None }
    }

    /// Also writes windows without rows, with a count of 0 and NULL as most other results: those that follow a key's window
    /// with rows until this long after it, as long as the sources still have rows. Then the key is forgotten until its next
    /// row. Without key columns, windows are written whenever a source has rows, also rows that a filter removed.
    ///
    /// Only for windows of equal size, and at most 100,000 in a row.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidemill::aggregate::count;
    /// use tidemill::{Engine, Query, Timestamp, Window, rows_of};
    ///
    /// let mut query = Query::new("clicks");
    /// let clicks = query.rows::<(u32, Timestamp)>("clicks", ["page", "time"]);
    /// let clicks = clicks.event_time("time", Duration::ZERO);
    /// let window = Window::tumbling("time", Duration::from_secs(10)).with_empty(Duration::from_secs(60));
    /// let counts = clicks.key_by("page").window(window).aggregate([count()]).collect("counts", 100);
    /// let run = Engine::new().start(query)?;
    /// let second = |second: i64| Timestamp(second * 1_000_000_000);
    /// run.input(&clicks)?.push([(1, second(5)), (1, second(25))])?;
    /// run.finish()?;
    /// let counts = rows_of::<(Timestamp, Option<i64>)>(&counts.read()?, ["window_end", "count"])?;
    /// assert_eq!(counts, [(second(10), Some(1)), (second(20), Some(0)), (second(30), Some(1))]);
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    #[must_use]
    pub fn with_empty(self, reach: Duration) -> Window {
        Window { empty: Some(reach), ..self }
    }

    /// The window with its columns, if they are there. A fault that is not kept yet is returned.
    pub(crate) fn resolve(&self, stream: &Stream) -> Result<Option<ResolvedWindow>, Cause> {
        let nanoseconds = |length: &Duration| i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
        let column = |time: &str| -> Result<Option<usize>, Cause> {
            stream.check_event_time(time, "windows would never close")?;
            Ok(stream.time_column(time))
        };
        let is_regular = matches!(self.kind, Kind::Regular { .. });
        if self.empty.is_some() && !is_regular {
            return Err(Cause::user(
                "a session begins with a row, and a window by count has its rows, so none is empty; use a tumbling or \
                 a hopping window with with_empty",
            ));
        }
        Ok(match &self.kind {
            Kind::Regular { time, size, slide } => column(time)?.map(|time| {
                let (size_ns, slide_ns) = (nanoseconds(size), nanoseconds(slide));
                let window = WindowSpec { time, size_ns, slide_ns, offset_ns: 0 };
                ResolvedWindow::Regular(window, self.empty.map(|reach| windows_in(reach, &window)))
            }),
            Kind::Session { time, gap } => column(time)?
                .map(|time| ResolvedWindow::Session(SessionSpec { time, gap_ns: nanoseconds(gap) })),
            Kind::Rows(window) => Some(ResolvedWindow::Rows(*window)),
        })
    }
}

/// A keyed stream divided into windows: [`KeyedStream::window`].
#[derive(Clone)]
pub struct WindowedStream {
    pub(crate) keyed: KeyedStream,
    pub(crate) window: Window,
}

impl KeyedStream {
    /// Divides the rows of each key into windows.
    #[must_use]
    pub fn window(&self, window: Window) -> WindowedStream {
        WindowedStream { keyed: self.clone(), window }
    }
}
