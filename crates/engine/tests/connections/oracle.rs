//! How far a source with connections is, found out the plain way: by looking at all of them after each event.

/// A connection, as it is known to be open.
struct Known {
    number: u64,
    /// The largest event time of its rows; before the first, where it began.
    reached_ns: i64,
    has_rows: bool,
    is_silent: bool,
}

/// A source's event time.
pub struct Oracle {
    connections: Vec<Known>,
    pub time_ns: i64,
    largest_ns: i64,
    delay_ns: i64,
}

impl Oracle {
    /// Of a source whose rows may be so much late, and which is as far as this.
    pub fn new(delay_ns: i64, time_ns: i64) -> Oracle {
        Oracle { connections: Vec::new(), time_ns, largest_ns: time_ns, delay_ns }
    }

    pub fn delay_ns(&self) -> i64 {
        self.delay_ns
    }

    pub fn opens(&mut self, number: u64) {
        let with_rows = self.connections.iter().filter(|known| known.has_rows && !known.is_silent);
        let begins_ns = with_rows.map(|known| known.reached_ns).min().unwrap_or(i64::MIN);
        let reached_ns = begins_ns.max(self.time_ns);
        self.connections.push(Known { number, reached_ns, has_rows: false, is_silent: false });
    }

    pub fn falls_silent(&mut self, number: u64) {
        self.connections
            .iter_mut()
            .filter(|known| known.number == number)
            .for_each(|known| known.is_silent = true);
        self.look();
    }

    pub fn closes(&mut self, number: u64) {
        self.connections.retain(|known| known.number != number);
        self.look();
    }

    /// A row of this event time; whether it is late.
    pub fn row(&mut self, number: u64, time_ns: i64) -> bool {
        let time_before = self.time_ns;
        let known = self.connections.iter_mut().find(|known| known.number == number).expect("it is open");
        // It counts again from now on, but takes nothing back.
        if !known.has_rows || known.is_silent {
            let before_ns = if known.has_rows { known.reached_ns } else { i64::MIN };
            known.reached_ns = before_ns.max(time_before);
        }
        (known.has_rows, known.is_silent) = (true, false);
        self.look();
        let is_late = self.time_ns > i64::MIN && time_ns < self.time_ns.saturating_sub(self.delay_ns);
        let known = self.connections.iter_mut().find(|known| known.number == number).expect("it is open");
        known.reached_ns = known.reached_ns.max(time_ns);
        self.largest_ns = self.largest_ns.max(time_ns);
        self.look();
        is_late
    }

    /// The source is idle.
    pub fn rests(&mut self) {
        if self.connections.iter().all(|known| known.is_silent) {
            self.time_ns = self.time_ns.max(self.largest_ns);
        }
    }

    fn look(&mut self) {
        let active = self.connections.iter().filter(|known| !known.is_silent);
        let least_ns = active.map(|known| known.reached_ns).min().unwrap_or(i64::MIN);
        self.time_ns = self.time_ns.max(least_ns);
    }
}
