//! The account operator: charges and balance queries in, balances out (specification, sections 6 and 8).
//!
//! Partitioned by vehicle, so that a car has one account, whichever expressways it used, and a query goes to one
//! partition. The answer is the balance as of the query's own second: the sum of all charges caused by events before
//! it. This is exact because in valid data a query follows the report that its car sent in that second.

pub mod pages;

use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::{UInt16Type, UInt32Type, UInt64Type};
use tidemill_engine::{Cause, Cut, Operator, Output, Route, Rows, SnapshotReader, SnapshotWriter};

use pages::{Pages, page_of};

/// Input of balance queries. It comes before the charges: answers start from the balance before the cycle.
pub const QUERY_INPUT: usize = 0;
/// Input of charges.
pub const CHARGE_INPUT: usize = 1;

const SNAPSHOT_VERSION: u8 = 1;
const PREFETCH_ROWS: usize = 12;

#[derive(Clone, Copy, Debug)]
struct OpenQuery {
    position: u32,
    time: u16,
    vid: u32,
    qid: u64,
    balance: u64,
}

/// One logical partition.
#[derive(Debug)]
pub struct Accounts {
    partition: u32,
    pages: Pages,
    /// This cycle's queries.
    open: Vec<OpenQuery>,
    /// A bit for each remainder of the vehicle ids in the queries: most charges concern none of them.
    asked: u64,
}

/// Sends rows to the partition of their vehicle, which is in this column.
pub fn route(vid_column: usize, partitions: u32) -> Box<Route> {
    Box::new(move |rows, destinations| {
        let vids = rows.column(vid_column).as_primitive::<UInt32Type>().values();
        destinations.extend(vids.iter().map(|vid| page_of(*vid) % partitions));
    })
}

fn asked_bit(vid: u32) -> u64 {
    1 << (vid % 64)
}

impl Accounts {
    /// A partition, given the number of partitions.
    pub fn new(partition: u32, partitions: u32) -> Self {
        Accounts { partition, pages: Pages::new(partitions), open: Vec::new(), asked: 0 }
    }

    fn queries(&mut self, rows: Rows<'_>) {
        let times = rows.column::<UInt16Type>(0);
        let vids = rows.column::<UInt32Type>(1);
        let qids = rows.column::<UInt64Type>(2);
        for row in 0..rows.len() {
            let vid = vids[row];
            self.asked |= asked_bit(vid);
            self.open.push(OpenQuery {
                position: rows.positions()[row],
                time: times[row],
                vid,
                qid: qids[row],
                balance: self.pages.balance(vid),
            });
        }
    }

    fn charges(&mut self, rows: Rows<'_>) {
        let vids = rows.column::<UInt32Type>(0);
        let tolls = rows.column::<UInt64Type>(1);
        for row in 0..rows.len() {
            if let Some(ahead) = vids.get(row + PREFETCH_ROWS) {
                self.pages.prefetch(*ahead);
            }
            self.pages.add(vids[row], tolls[row]);
            if self.asked & asked_bit(vids[row]) != 0 {
                self.charge_open(vids[row], tolls[row], rows.positions()[row]);
            }
        }
    }

    /// A charge counts for the queries of its car that come after it.
    fn charge_open(&mut self, vid: u32, toll: u64, position: u32) {
        for query in &mut self.open {
            if query.vid == vid && query.position > position {
                query.balance += toll;
            }
        }
    }

    /// The state of `copies` of this partition, copy `k` with vehicle ids larger by `k * vid_span`, as
    /// snapshot bytes. The span must be a multiple of the page size times the number of partitions, so that
    /// copies stay in the partition.
    pub fn snapshot_copies(&self, vid_span: u32, copies: u16) -> Vec<u8> {
        let mut writer = SnapshotWriter::default();
        writer.u8(SNAPSHOT_VERSION);
        writer.u64(self.account_count() as u64 * u64::from(copies));
        (0..copies).for_each(|copy| self.write_shifted(&mut writer, u32::from(copy) * vid_span));
        writer.finish()
    }

    fn write_shifted(&self, writer: &mut SnapshotWriter, vid_shift: u32) {
        for (index, offset, balance) in self.pages.accounts() {
            writer.u32(self.pages.vid_of(self.partition, index, offset) + vid_shift);
            writer.u64(balance);
        }
    }

    /// The number of accounts that are not 0.
    pub fn account_count(&self) -> usize {
        self.pages.accounts().count()
    }
}

impl Operator for Accounts {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        match input {
            QUERY_INPUT => self.queries(rows),
            _ => self.charges(rows),
        }
        Ok(())
    }

    fn end_of_cycle(&mut self, _cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        self.asked = 0;
        for query in self.open.drain(..) {
            output.port(0).push(query.position, (query.time, query.qid, query.balance));
        }
        Ok(())
    }

    fn prefetch(&self, input: usize, rows: Rows<'_>) {
        let vids = rows.column::<UInt32Type>(if input == QUERY_INPUT { 1 } else { 0 });
        vids.iter().take(PREFETCH_ROWS).for_each(|vid| self.pages.prefetch(*vid));
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(SNAPSHOT_VERSION);
        writer.u64(self.account_count() as u64);
        self.write_shifted(writer, 0);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(SNAPSHOT_VERSION)?;
        for _ in 0..reader.u64()? {
            let (vid, balance) = (reader.u32()?, reader.u64()?);
            self.pages.add(vid, balance);
        }
        Ok(())
    }
}
