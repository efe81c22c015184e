//! `share_rides`: brings offers of rides and requests together, a grouping cycle at a time.

use tidemill_engine::{Cause, Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter};

use super::request_bytes::{read_request, write_request};
use crate::ride_sharing::{Offer, RideSharing, Rides};
use crate::schema;

/// The version of the state's bytes.
const VERSION: u8 = 1;
/// The input of offers; the other one has requests.
const OFFERS: usize = 1;

/// Takes [requests](schema::requests) and [offers](schema::offers). Its first output has the [members](schema::members) of
/// each car that leaves, the owner first, at the end of the grouping cycle in which it leaves. The second one has the
/// [requests](schema::unserved_requests) that nobody took along.
///
/// A grouping cycle is over when the watermark has reached its end. What comes later joins the next one.
pub struct ShareRides {
    sharing: RideSharing,
    rides: Rides,
}

impl ShareRides {
    /// Nobody waits yet. Cars leave at multiples of the cycle, in the unit of the requests' times.
    ///
    /// # Errors
    /// If there can be no such cycle.
    pub fn new(cycle: i64) -> Result<Self, Cause> {
        let sharing = RideSharing::new(cycle)
            .map_err(|error| Cause::user(format!("share_rides: {error}")).with_source(error))?;
        Ok(ShareRides { sharing, rides: Rides::default() })
    }
}

impl Operator for ShareRides {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        if input == OFFERS {
            for offer in schema::offers_of(&rows) {
                let refused = |reason: &dyn std::error::Error| refused("offer", offer.trip.id, reason);
                offer.trip.check().map_err(|error| refused(&error))?;
                offer.check().map_err(|error| refused(&error))?;
                self.sharing.add_offer(offer).map_err(|error| refused(&error))?;
            }
            return Ok(());
        }
        for request in schema::requests_of(&rows, 0) {
            let refused = |reason: &dyn std::error::Error| refused("request", request.id, reason);
            request.check().map_err(|error| refused(&error))?;
            self.sharing.add_request(request).map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        self.sharing.advance(cut.watermark(), &mut self.rides);
        let Rides { shares, unserved } = std::mem::take(&mut self.rides);
        let batches = [schema::rows_of(&shares)?, schema::unserved_rows(&unserved)?];
        for (port, rows) in batches.into_iter().enumerate().filter(|(_, rows)| rows.num_rows() > 0) {
            let positions = vec![output.end_position(); rows.num_rows()];
            output.port(port).push_batch(rows, &positions)?;
        }
        Ok(())
    }

    fn next_timer(&self) -> Option<i64> {
        self.sharing.next_end()
    }

    fn state_bytes(&self) -> usize {
        self.sharing.bytes()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        let last_end = self.sharing.last_end();
        writer.u8(u8::from(last_end.is_some()));
        writer.i64(last_end.unwrap_or(0));
        writer.u64(self.sharing.ends().len() as u64);
        self.sharing.ends().iter().for_each(|end| writer.i64(*end));
        let requests = self.sharing.waiting_requests();
        writer.u64(requests.len() as u64);
        requests.iter().for_each(|request| write_request(request, writer));
        let offers = self.sharing.waiting_offers();
        writer.u64(offers.len() as u64);
        for Offer { trip, leaves_car, extra_cost_max, seats } in &offers {
            write_request(trip, writer);
            writer.u8(u8::from(*leaves_car));
            writer.u64(extra_cost_max.to_bits());
            writer.u64(*seats as u64);
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        let has_ended = reader.u8()? != 0;
        let last_end = Some(reader.i64()?).filter(|_| has_ended);
        let ends = (0..reader.u64()?).map(|_| reader.i64()).collect::<Result<_, _>>()?;
        let requests = (0..reader.u64()?).map(|_| read_request(reader)).collect::<Result<_, _>>()?;
        let offers = (0..reader.u64()?).map(|_| read_offer(reader)).collect::<Result<_, _>>()?;
        self.sharing = RideSharing::resume(self.sharing.cycle(), (last_end, ends), requests, offers)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        Ok(())
    }
}

fn refused(record: &str, id: i64, reason: &dyn std::error::Error) -> Cause {
    Cause::user(format!("share_rides: {record} {id}: {reason}; leave such {record}s out"))
}

fn read_offer(reader: &mut SnapshotReader<'_>) -> Result<Offer, Cause> {
    let trip = read_request(reader)?;
    let (leaves_car, extra_cost_max) = (reader.u8()? != 0, f64::from_bits(reader.u64()?));
    let offer = Offer { trip, leaves_car, extra_cost_max, seats: reader.u64()? as usize };
    offer.check().map_err(|error| Cause::operation(format!("a snapshot is damaged: {error}")))?;
    Ok(offer)
}
