//! Writes the group of each request and of each offer beside it.

use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::{Cause, Operator, Output, Rows, SnapshotReader, SnapshotWriter};

use crate::partitioner::Partitioner;
use crate::ride_sharing::Trip;
use crate::schema;

/// Takes [requests and offers](schema::trips_batch) in the order of their times. Its first output has [requests with their
/// groups](schema::grouped_requests), the second one [offers](schema::grouped_offers). It has one partition, because
/// borders depend on all trips.
pub struct PartitionTrips {
    partitioner: Partitioner,
}

impl PartitionTrips {
    /// Divides trips as this partitioner does.
    pub fn new(partitioner: Partitioner) -> Self {
        PartitionTrips { partitioner }
    }
}

/// Rows of one output with what belongs to them.
struct Divided<T> {
    trips: Vec<T>,
    groups: Vec<u32>,
    positions: Vec<u32>,
}

impl<T> Divided<T> {
    fn new() -> Self {
        Divided { trips: Vec::new(), groups: Vec::new(), positions: Vec::new() }
    }

    fn push(&mut self, trip: T, group: u32, position: u32) {
        self.trips.push(trip);
        self.groups.push(group);
        self.positions.push(position);
    }

    fn write(
        self,
        rows_of: fn(&[T], Vec<u32>) -> Result<RecordBatch, Cause>,
        output: &mut Output,
        port: usize,
    ) -> Result<(), Cause> {
        if self.trips.is_empty() {
            Ok(())
        } else {
            output.port(port).push_batch(rows_of(&self.trips, self.groups)?, &self.positions)
        }
    }
}

impl Operator for PartitionTrips {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let (mut requests, mut offers) = (Divided::new(), Divided::new());
        for (trip, position) in schema::trips_of(&rows).into_iter().zip(rows.positions()) {
            let group = self.partitioner.group(trip.request());
            match trip {
                Trip::Request(request) => requests.push(request, group, *position),
                Trip::Offer(offer) => offers.push(offer, group, *position),
            }
        }
        requests.write(schema::grouped_request_rows, output, 0)?;
        offers.write(schema::grouped_offer_rows, output, 1)
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.partitioner.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.partitioner.restore(reader)
    }
}
