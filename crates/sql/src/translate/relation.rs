//! What is known about a stream while it is planned.

use arrow_schema::SchemaRef;
use tidemill_engine::StreamRef;
use tidemill_operators::EmptyWindows;

use crate::logical::WindowKind;

/// A stream of rows, with the meaning of its columns.
#[derive(Clone, Debug)]
pub(crate) struct Relation {
    pub stream: StreamRef,
    /// The columns, in the order of the logical plan's, with unique names.
    pub schema: SchemaRef,
    /// What each column means for time.
    pub roles: Vec<Role>,
    pub kind: Kind,
    /// The gateways that its rows come from.
    pub sources: Vec<usize>,
    /// Whether its rows come in the order of event time.
    pub ordered: bool,
    /// Whether it ends by itself.
    pub is_finite: bool,
    /// Whether joins see its rows as of the moment of the rows that they join, and are not kept up to date.
    pub is_as_of_the_row: bool,
    /// If its columns are some of another stream's, unchanged: which ones. Whatever is computed from it reads that
    /// stream.
    pub selection: Option<Selection>,
}

/// Columns of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub stream: StreamRef,
    /// How many columns the stream has.
    pub width: usize,
    /// The indexes of the columns; of a changelog, with that of the weight at the end.
    pub columns: Vec<usize>,
}

/// Streams are append-only; tables have one row per key, and a row replaces the previous one; of anything else, each row comes
/// and goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Stream,
    /// A changelog: the stream has one more column than the relation, the weight of each row.
    Changing,
    /// The indexes of the key's columns; `None`: the key is no longer among the columns.
    Table {
        keys: Option<Vec<usize>>,
    },
}

/// The windows that a column holds a bound of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub kind: WindowKind,
    /// Distinguishes assignments.
    pub id: u32,
    /// How far the windowed event time may be behind the watermark.
    pub delay_ns: i64,
    /// Which windows without rows are written, if any are.
    pub empty: Option<EmptyWindows>,
    /// Whether the column holds the bound; otherwise it still holds the row's event time.
    pub is_computed: bool,
}

/// The windows by count that a column belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountWindow {
    /// Distinguishes assignments.
    pub id: u32,
    /// How many columns are the key of these windows.
    pub keys: usize,
}

/// What a column means for time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing.
    None,
    /// No later row has a value that is more than the delay before the watermark.
    EventTime { delay_ns: i64 },
    /// Where the row's window starts.
    WindowStart(Window),
    /// Where it ends.
    WindowEnd(Window),
    /// A bound of the row's window by count. All rows of a window are in one cycle.
    CountBound(CountWindow),
    /// A column whose values have windows by count of their own.
    CountKey(CountWindow),
}

impl Role {
    /// If rows can be sorted by this column: by how much it may be behind the watermark.
    pub fn time_delay_ns(self) -> Option<i64> {
        match self {
            Role::EventTime { delay_ns } => Some(delay_ns),
            // A session is known to be over one instant after its end.
            Role::WindowEnd(window) if window.is_computed && window.size_ns().is_none() => {
                Some(window.delay_ns.saturating_add(1))
            }
            Role::WindowEnd(window) if window.is_computed => Some(window.delay_ns),
            Role::WindowStart(window) if window.is_computed => {
                Some(window.size_ns()?.saturating_add(window.delay_ns))
            }
            _ => None,
        }
    }

    pub fn window(self) -> Option<Window> {
        match self {
            Role::WindowStart(window) | Role::WindowEnd(window) => Some(window),
            _ => None,
        }
    }
}

impl Window {
    /// The common length of all windows; sessions have none.
    pub fn size_ns(&self) -> Option<i64> {
        match self.kind {
            WindowKind::Tumble { size_ns, .. } | WindowKind::Hop { size_ns, .. } => Some(size_ns),
            WindowKind::Session { .. } => None,
        }
    }
}

impl Relation {
    pub fn is_stream(&self) -> bool {
        self.kind == Kind::Stream
    }

    pub fn is_changing(&self) -> bool {
        self.kind == Kind::Changing
    }
}

/// The relation of the joined rows.
pub(super) fn merge_sources(one: Relation, other: &Relation) -> Relation {
    let mut sources: Vec<usize> = one.sources.iter().chain(&other.sources).copied().collect();
    sources.sort_unstable();
    sources.dedup();
    let is_finite = one.is_finite && other.is_finite;
    Relation { sources, is_finite, ..one }
}
