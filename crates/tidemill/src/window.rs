//! Windows of event time.

use std::time::Duration;

use tidemill_engine::Cause;
use tidemill_operators::{SessionSpec, WindowSpec};

use crate::keyed::KeyedStream;
use crate::stream::Stream;

/// How rows are divided into windows by their event time. The source declares which column that is:
/// [`Stream::event_time`]. A window may use another column, for example one that a function computed, if its times are
/// never earlier than the event time. Rows with an earlier time count as late.
///
/// ```
/// use std::time::Duration;
/// use tidemill::Window;
/// let by_minute = Window::tumbling("time", Duration::from_secs(60));
/// let last_minute = Window::hopping("time", Duration::from_secs(60), Duration::from_secs(1));
/// let visits = Window::session("time", Duration::from_secs(1800));
/// assert_ne!(by_minute, last_minute);
/// # assert_ne!(by_minute, visits);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    time: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Regular { size: Duration, slide: Duration },
    Session { gap: Duration },
}

/// A window with its columns resolved.
pub(crate) enum ResolvedWindow {
    Regular(WindowSpec),
    Session(SessionSpec),
}

impl Window {
    /// Consecutive windows of this size.
    pub fn tumbling(time: &str, size: Duration) -> Window {
        Window { time: time.to_owned(), kind: Kind::Regular { size, slide: size } }
    }

    /// Windows of this size; one begins every `slide`.
    pub fn hopping(time: &str, size: Duration, slide: Duration) -> Window {
        Window { time: time.to_owned(), kind: Kind::Regular { size, slide } }
    }

    /// The rows of a key in which each row is at most `gap` after the row before it.
    pub fn session(time: &str, gap: Duration) -> Window {
        Window { time: time.to_owned(), kind: Kind::Session { gap } }
    }

    pub(crate) fn resolve(&self, stream: &Stream) -> Option<ResolvedWindow> {
        let time = stream.time_column(&self.time)?;
        let nanoseconds = |length: &Duration| i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
        Some(match &self.kind {
            Kind::Regular { size, slide } => ResolvedWindow::Regular(WindowSpec {
                time,
                size_ns: nanoseconds(size),
                slide_ns: nanoseconds(slide),
                offset_ns: 0,
            }),
            Kind::Session { gap } => ResolvedWindow::Session(SessionSpec { time, gap_ns: nanoseconds(gap) }),
        })
    }

    /// Checks that windows can ever close.
    pub(crate) fn check_time(&self, stream: &Stream) -> Result<(), Cause> {
        let build = stream.build.borrow();
        let without = stream.sources.iter().find(|source| build.sources[**source].feed.event_time.is_none());
        match without {
            None => Ok(()),
            Some(source) => Err(Cause::user(format!(
                "source '{}' has no event time, so windows would never close; call .event_time(\"{}\", delay) on it",
                build.plan.sources[*source].name, self.time
            ))),
        }
    }
}

/// A keyed stream divided into windows: [`KeyedStream::window`].
#[derive(Clone)]
pub struct WindowedStream {
    pub(crate) keyed: KeyedStream,
    pub(crate) window: Window,
}

impl KeyedStream {
    /// Divides the rows of each key into windows of event time.
    #[must_use]
    pub fn window(&self, window: Window) -> WindowedStream {
        WindowedStream { keyed: self.clone(), window }
    }
}
