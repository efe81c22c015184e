//! `group_trips`: groups the requests of one group, a grouping cycle at a time.

use tidemill_engine::{Cause, Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter};

use super::request_bytes::{read_request, write_request};
use crate::criteria::Criteria;
use crate::grouping::Grouping;
use crate::request::Request;
use crate::schema;
use crate::share::Share;

/// The version of the state's bytes.
const VERSION: u8 = 1;

/// Takes [requests](schema::requests), and writes the [members](schema::members) of their shares at the end of the
/// grouping cycle before they expire. Its timer calls it then, whether rows come or not.
///
/// A grouping cycle is over when the watermark has reached its end. Requests that come later join the next one.
pub struct GroupTrips {
    grouping: Grouping,
    shares: Vec<Share>,
}

impl GroupTrips {
    /// Nobody waits yet.
    ///
    /// # Errors
    /// If the criteria are out of range.
    pub fn new(criteria: Criteria) -> Result<Self, Cause> {
        criteria.check().map_err(|error| Cause::user(format!("group_trips: {error}")).with_source(error))?;
        Ok(GroupTrips { grouping: Grouping::new(criteria), shares: Vec::new() })
    }
}

impl Operator for GroupTrips {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        for request in schema::requests_of(&rows, 0) {
            request.check().map_err(|error| {
                let text = format!("group_trips: request {}: {error}; leave such requests out", request.id);
                Cause::user(text).with_source(error)
            })?;
            self.grouping.add(request);
        }
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        self.grouping.advance(cut.watermark(), &mut self.shares);
        if self.shares.is_empty() {
            return Ok(());
        }
        let members = schema::rows_of(&self.shares)?;
        self.shares.clear();
        let positions = vec![output.end_position(); members.num_rows()];
        output.port(0).push_batch(members, &positions)
    }

    fn next_timer(&self) -> Option<i64> {
        self.grouping.next_end()
    }

    fn state_bytes(&self) -> usize {
        self.grouping.bytes()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        let last_end = self.grouping.last_end();
        writer.u8(u8::from(last_end.is_some()));
        writer.i64(last_end.unwrap_or(0));
        // In a fixed order, so that equal states have equal bytes.
        let mut waiting: Vec<&Request> = self.grouping.waiting().collect();
        waiting.sort_by(|a, b| a.by_arrival(b));
        writer.u64(waiting.len() as u64);
        waiting.into_iter().for_each(|request| write_request(request, writer));
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        let has_ended = reader.u8()? != 0;
        let last_end = Some(reader.i64()?).filter(|_| has_ended);
        let waiting = (0..reader.u64()?).map(|_| read_request(reader)).collect::<Result<Vec<_>, _>>()?;
        self.grouping = Grouping::resume(*self.grouping.criteria(), last_end, waiting);
        Ok(())
    }
}
