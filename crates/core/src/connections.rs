//! Connections of a source: the events that it reports about them, and the event time at each of their rows.

/// An event that a source reports about its connections. Each connection has a number that is not used again.
///
/// ```
/// use tidemill_core::connections::Heard;
/// let heard = [Heard::Opened(7), Heard::Rows { connection: 7, rows: 3 }, Heard::Closed(7)];
/// let rows = heard.iter().map(Heard::rows).sum::<u32>();
/// assert_eq!(rows, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A new connection.
    Opened(u64),
    /// The next rows of a batch came over this connection.
    Rows {
        /// The connection.
        connection: u64,
        /// How many.
        rows: u32,
    },
    /// Nothing has come over this connection for so long that the others no longer wait for it. Its next rows end the
    /// silence.
    Silent(u64),
    /// Nothing will come over this connection any more.
    Closed(u64),
}

impl Heard {
    /// The number of rows that it stands for.
    pub fn rows(&self) -> u32 {
        match self {
            Heard::Rows { rows, .. } => *rows,
            Heard::Opened(_) | Heard::Silent(_) | Heard::Closed(_) => 0,
        }
    }
}

/// Consecutive rows of one connection in a batch, with everything about the connections that determines the source's
/// event time at each of these rows. That time is the smallest of the times of the connection itself and of all others
/// that it waits for.
///
/// ```
/// use tidemill_core::connections::Stretch;
/// let stretch = Stretch { rows: 2, own_ns: 40, others_ns: 70 };
/// assert_eq!(stretch.time_at(55), 55);
/// assert_eq!(stretch.time_at(90), 70, "the others are not as far");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The number of rows.
    pub rows: u32,
    /// The largest event time of the connection before them.
    pub own_ns: i64,
    /// The smallest event time of the other active connections; `i64::MAX` if there are none.
    pub others_ns: i64,
}

impl Stretch {
    /// All rows of a source with one connection or none. Its event time is the largest of its rows.
    pub fn of_all(rows: u32) -> Stretch {
        Stretch { rows, own_ns: i64::MIN, others_ns: i64::MAX }
    }

    /// The source's event time when that of the connection is this.
    pub fn time_at(&self, own_ns: i64) -> i64 {
        own_ns.max(self.own_ns).min(self.others_ns)
    }
}
