//! Requests in snapshots.

use tidemill_engine::{Cause, SnapshotReader, SnapshotWriter};

use crate::request::{Place, Request};

/// Writes a request.
pub fn write_request(request: &Request, writer: &mut SnapshotWriter) {
    let Request { id, requested, expires, origin, destination } = request;
    [id, requested, expires].into_iter().for_each(|number| writer.i64(*number));
    let coordinates = [origin.x_m, origin.y_m, destination.x_m, destination.y_m];
    coordinates.into_iter().for_each(|coordinate| writer.u64(coordinate.to_bits()));
}

/// Reads what [`write_request`] wrote.
///
/// # Errors
/// If the bytes end early, or the request is not possible.
pub fn read_request(reader: &mut SnapshotReader<'_>) -> Result<Request, Cause> {
    let (id, requested, expires) = (reader.i64()?, reader.i64()?, reader.i64()?);
    let mut coordinate = || reader.u64().map(f64::from_bits);
    let origin = Place { x_m: coordinate()?, y_m: coordinate()? };
    let destination = Place { x_m: coordinate()?, y_m: coordinate()? };
    let request = Request { id, requested, expires, origin, destination };
    request.check().map_err(|error| Cause::operation(format!("a snapshot is damaged: {error}")))?;
    Ok(request)
}
