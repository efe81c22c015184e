//! What must be true, judged by what was written and answered, and by nothing that the protocol says of itself.

use std::collections::BTreeMap;

use tidemill_cluster::log::{Epoch, LogRecord, Position};

use super::message::Row;

#[derive(Default)]
pub struct Ledger {
    written: BTreeMap<(Epoch, Position), Row>,
    writers: BTreeMap<Epoch, (u32, u64)>,
    pub acknowledged: BTreeMap<Position, (Epoch, Row)>,
    pub records: Vec<LogRecord>,
    committed_by: BTreeMap<u64, (u32, u64)>,
    pub committed: Vec<Row>,
    newest_leader: u64,
}

impl Ledger {
    pub fn log(&self) -> &LogRecord {
        self.records.last().expect("a record")
    }

    /// A life of a node wrote a row.
    pub fn wrote(&mut self, life: (u32, u64), epoch: Epoch, position: Position, row: Row) {
        let first = *self.writers.entry(epoch).or_insert(life);
        assert_eq!(first, life, "{epoch:?} has two writers");
        assert!(
            self.written.insert((epoch, position), row).is_none(),
            "{position} of {epoch:?} is written twice"
        );
    }

    /// A client was answered that its row counts.
    pub fn acknowledged(&mut self, epoch: Epoch, position: Position) {
        let closed = self.log().closed.iter().find(|closed| closed.epoch == epoch);
        if let Some(closed) = closed {
            assert!(
                position < closed.end,
                "{position} of {epoch:?} was acknowledged behind its end {}",
                closed.end
            );
        }
        let row = self.written[&(epoch, position)];
        let before = self.acknowledged.insert(position, (epoch, row));
        assert!(
            before.is_none_or(|before| before == (epoch, row)),
            "{position} was acknowledged for two rows"
        );
    }

    /// The coordinator's record has changed.
    pub fn recorded(&mut self, log: LogRecord) {
        let before = self.records.last().map_or(&[][..], |before| &before.closed[..]);
        assert!(log.closed.starts_with(before), "a closed epoch has changed: {before:?} -> {:?}", log.closed);
        let is_next = self.records.is_empty() || log.closed.len() == before.len() + 1;
        assert!(is_next, "an epoch was left out");
        let mut end = 0;
        for (closed, number) in log.closed.iter().zip(1..) {
            assert_eq!((closed.epoch, closed.start), (Epoch(number), end), "there is a gap");
            end = closed.end;
        }
        assert_eq!(log.open.start, end, "there is a gap before the open epoch");
        if let Some(closed) = log.closed.last() {
            let mut acknowledged = self.acknowledged.iter().filter(|(_, (epoch, _))| *epoch == closed.epoch);
            let lost = acknowledged.find(|(position, _)| **position >= closed.end);
            assert!(
                lost.is_none(),
                "{lost:?} was acknowledged, but {:?} ends at {}",
                closed.epoch,
                closed.end
            );
        }
        self.records.push(log);
    }

    /// Returns the row at a position whose place is final.
    pub fn row(&self, position: Position) -> Option<Row> {
        let closed = self.log().closed.iter().find(|closed| (closed.start..closed.end).contains(&position));
        match closed {
            Some(closed) => Some(self.written[&(closed.epoch, position)]),
            None => self.acknowledged.get(&position).map(|(_, row)| *row),
        }
    }

    /// The leader of a generation has reached the sink.
    pub fn takes_over(&mut self, generation: u64) {
        self.newest_leader = self.newest_leader.max(generation);
    }

    /// The sink has committed what it had staged.
    pub fn committed(&mut self, generation: u64, life: (u32, u64), rows: &[Row]) {
        let first = *self.committed_by.entry(generation).or_insert(life);
        assert_eq!(first, life, "generation {generation} has two leaders that commit");
        assert_eq!(self.newest_leader, generation, "a generation commits after a newer one has taken over");
        self.committed.extend_from_slice(rows);
        for (position, row) in (0..).zip(&self.committed) {
            assert_eq!(self.row(position), Some(*row), "the sink has another row at {position} than the log");
        }
    }
}
