//! What is known of a stream while it is planned.

use arrow_schema::SchemaRef;
use tidemill_engine::StreamRef;

use crate::logical::WindowKind;

/// A stream of rows, with what its columns mean.
#[derive(Clone, Debug)]
pub(crate) struct Relation {
    pub stream: StreamRef,
    /// The columns, in the order of the logical plan's; names are unique.
    pub schema: SchemaRef,
    /// What each column means to time.
    pub roles: Vec<Role>,
    pub kind: Kind,
    /// The gateways that its rows come from.
    pub sources: Vec<usize>,
    /// Whether its rows come in the order of event time.
    pub ordered: bool,
    /// Whether it ends by itself.
    pub is_finite: bool,
    /// If its columns are some of another stream's, unchanged: which. What is computed of it reads that one.
    pub selection: Option<Selection>,
}

/// Columns of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub stream: StreamRef,
    /// How many columns the stream has.
    pub width: usize,
    /// The numbers of the columns.
    pub columns: Vec<usize>,
}

/// Streams are append-only; tables have one row per key, and a row takes the place of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Stream,
    /// The numbers of the key's columns; `None`: the key is not among the columns any more.
    Table {
        keys: Option<Vec<usize>>,
    },
}

/// The windows that a column of a stream is the bound of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub kind: WindowKind,
    /// Tells assignments apart.
    pub id: u32,
    /// How far the event time that is windowed may be behind the watermark.
    pub delay_ns: i64,
    /// Whether the column holds the bound; else it still holds the event time of the row.
    pub is_computed: bool,
}

/// What a column means to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing.
    None,
    /// No row still to come has a value that is more than the delay before the watermark.
    EventTime { delay_ns: i64 },
    /// Where the row's window starts.
    WindowStart(Window),
    /// Where it ends.
    WindowEnd(Window),
}

impl Role {
    /// If rows can be put into the order of this column: by how much it may be behind the watermark.
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
    /// How long all of them are; sessions differ.
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
}
