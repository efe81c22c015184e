//! The event time of each connection of a source, and from that the event time of the source: that of the active
//! connection that is furthest behind.
//!
//! Chance determines which connection gets its rows in first. So this is decided once, where rows are taken in, and the
//! facts that decide are written with the rows ([`Stretch`]). A replay reads them there and knows nothing of
//! connections.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_core::arrow::array::RecordBatch;
use tidemill_core::error::Cause;
use tidemill_core::{Heard, Source, Stretch};

use crate::event_times::EventTimes;
use crate::feed_settings::FeedSettings;

/// An open connection.
struct Connection {
    /// Its largest event time; before its first row, the event time of the source when it was opened.
    reached_ns: i64,
    has_rows: bool,
    /// Whether the others wait for it.
    is_active: bool,
}

/// The connections of a source. Takes a few words of memory for each open connection; the source bounds their number.
pub(crate) struct ConnectionTimes {
    event_times: EventTimes,
    open: BTreeMap<u64, Connection>,
    /// The event time of each active connection, smallest first, and the same for those that have sent rows.
    active: BTreeSet<(i64, u64)>,
    active_with_rows: BTreeSet<(i64, u64)>,
    time_ns: i64,
    latest_ns: i64,
}

impl ConnectionTimes {
    /// Asks a source to watch its connections, and starts at this event time of the source. `None` if its rows have no
    /// event time.
    pub fn watch(source: &mut dyn Source, settings: &FeedSettings, time_ns: i64) -> Option<ConnectionTimes> {
        let event_times = EventTimes::of(settings)?;
        source.watch_connections(settings.idle_after);
        Some(ConnectionTimes {
            event_times,
            open: BTreeMap::new(),
            active: BTreeSet::new(),
            active_with_rows: BTreeSet::new(),
            time_ns,
            latest_ns: time_ns,
        })
    }

    /// How far the source is.
    pub fn time_ns(&self) -> i64 {
        self.time_ns
    }

    /// Processes events that came with rows; `is_in` says which rows were admitted. Returns the stretches of the rows;
    /// nothing if the source reports no connections.
    pub fn hear(
        &mut self,
        heard: Vec<Heard>,
        rows: &RecordBatch,
        is_in: impl Fn(usize) -> bool,
    ) -> Result<Vec<Stretch>, Cause> {
        let (mut stretches, mut given, mut taken) = (Vec::new(), 0, 0);
        for heard in heard {
            let Heard::Rows { connection, rows: count } = heard else {
                self.hear_one(heard);
                continue;
            };
            let end = given + count as usize;
            let came_in = (given..end).filter(|row| is_in(*row)).count();
            given = end;
            if came_in > 0 {
                let reached_ns = self.event_times.largest_of(&rows.slice(taken, came_in))?;
                stretches.push(self.rows(connection, came_in as u32, reached_ns));
                taken += came_in;
            }
        }
        if taken == rows.num_rows() || stretches.is_empty() {
            Ok(stretches)
        } else {
            let all = rows.num_rows();
            Err(Cause::bug(format!("a source states the connection of only {taken} of its {all} rows")))
        }
    }

    /// Processes events that came without rows. When the source is idle and no connection is active, no connection
    /// waits for another any more.
    pub fn hear_nothing(&mut self, heard: Vec<Heard>, is_idle: bool) {
        heard.into_iter().for_each(|heard| self.hear_one(heard));
        if is_idle && self.active.is_empty() {
            self.time_ns = self.time_ns.max(self.latest_ns);
        }
    }

    fn hear_one(&mut self, heard: Heard) {
        match heard {
            Heard::Opened(connection) => self.opened(connection),
            Heard::Silent(connection) => self.silent(connection),
            Heard::Closed(connection) => self.closed(connection),
            Heard::Rows { .. } => {}
        }
    }

    /// A new connection begins at the event time of the source. It does not wait for other connections that have not
    /// sent anything either. Otherwise senders that each connect before the previous one has sent its first row would
    /// hold time back forever.
    fn opened(&mut self, connection: u64) {
        let least = self.active_with_rows.first().map_or(self.time_ns, |(reached_ns, _)| *reached_ns);
        let reached_ns = self.time_ns.max(least);
        self.set(connection, Connection { reached_ns, has_rows: false, is_active: true });
    }

    fn closed(&mut self, connection: u64) {
        self.leave(connection);
        self.open.remove(&connection);
        self.move_on();
    }

    fn silent(&mut self, connection: u64) {
        self.leave(connection);
        if let Some(silent) = self.open.get_mut(&connection) {
            silent.is_active = false;
        }
        self.move_on();
    }

    fn rows(&mut self, connection: u64, rows: u32, reached_ns: i64) -> Stretch {
        self.leave(connection);
        let before = self.open.get(&connection);
        let is_first = before.is_none_or(|before| !before.has_rows);
        let own_ns = before.map_or(i64::MIN, |before| before.reached_ns).max(self.time_ns);
        let others_ns = self.active.first().map_or(i64::MAX, |(others_ns, _)| *others_ns);
        let reached_ns = if is_first {
            // Its beginning was a guess. Now it is known.
            self.time_ns.max(reached_ns)
        } else {
            own_ns.max(reached_ns)
        };
        let own_ns = if is_first { self.time_ns } else { own_ns };
        self.latest_ns = self.latest_ns.max(reached_ns);
        self.set(connection, Connection { reached_ns, has_rows: true, is_active: true });
        self.move_on();
        Stretch { rows, own_ns, others_ns }
    }

    /// Time advances to the smallest time of the active connections. If there are none it stops, because a sender may
    /// connect again.
    fn move_on(&mut self) {
        if let Some((least_ns, _)) = self.active.first() {
            self.time_ns = self.time_ns.max(*least_ns);
        }
    }

    fn set(&mut self, number: u64, connection: Connection) {
        self.leave(number);
        let place = (connection.reached_ns, number);
        self.active.insert(place);
        if connection.has_rows {
            self.active_with_rows.insert(place);
        }
        self.open.insert(number, connection);
    }

    /// The others do not wait for this connection.
    fn leave(&mut self, number: u64) {
        if let Some(connection) = self.open.get(&number).filter(|connection| connection.is_active) {
            let place = (connection.reached_ns, number);
            self.active.remove(&place);
            self.active_with_rows.remove(&place);
        }
    }
}
