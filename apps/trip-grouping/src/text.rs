//! Requests, offers and shares as lines of CSV.

use std::io::Write;
use std::str::FromStr;

use thiserror::Error;

use crate::request::{Place, Request, RequestError};
use crate::ride_sharing::{Offer, RideSharingError};
use crate::share::Share;

/// The first line of a file of requests. Times are seconds, places are metres.
pub const HEADER: &str = "id,requested_s,expires_s,origin_x_m,origin_y_m,destination_x_m,destination_y_m";

/// The first line of a file of offers: the fields of a request for the owner's own trip, then the terms of the offer.
pub const OFFER_HEADER: &str = "id,requested_s,expires_s,origin_x_m,origin_y_m,destination_x_m,destination_y_m,\
                                leaves_car,extra_cost_max,seats";

/// The first line of a file of shares, which has a line for each member.
pub const SHARE_HEADER: &str = "grouped_s,lead,members,id,waited_s,extra_cost,savings";

/// Why a line is not a request, or not an offer.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LineError {
    /// There are fewer or more fields than the record has.
    #[error("it has {found} fields; {record} has {}: {header}", header.split(',').count())]
    FieldCount {
        /// The number of fields.
        found: usize,
        /// What the line should be.
        record: &'static str,
        /// The names of its fields.
        header: &'static str,
    },
    /// A field is not a number.
    #[error("`{field}` is not a number")]
    NotANumber {
        /// The field's name.
        field: &'static str,
    },
    /// A field is neither true nor false.
    #[error("`{field}` is neither true nor false")]
    NotABoolean {
        /// The field's name.
        field: &'static str,
    },
    /// The request itself is impossible.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// The terms of the offer are impossible.
    #[error("{0}")]
    Offer(#[from] RideSharingError),
}

/// Appends a request as a line.
///
/// ```
/// use tidemill_trip_grouping::text::{parse_request, write_request};
/// let request = parse_request(b"7,60,660,1000,2000.5,8000,9000")?;
/// let mut line = Vec::new();
/// write_request(&request, &mut line);
/// assert_eq!(line, b"7,60,660,1000,2000.5,8000,9000\n");
/// # Ok::<(), tidemill_trip_grouping::text::LineError>(())
/// ```
pub fn write_request(request: &Request, text: &mut Vec<u8>) {
    write_trip(request, text);
    text.push(b'\n');
}

fn write_trip(request: &Request, text: &mut Vec<u8>) {
    let Request { id, requested, expires, origin, destination } = request;
    // Writing to a vector cannot fail.
    let _ = write!(
        text,
        "{id},{requested},{expires},{},{},{},{}",
        origin.x_m, origin.y_m, destination.x_m, destination.y_m
    );
}

/// Appends an offer as a line.
///
/// ```
/// use tidemill_trip_grouping::text::{parse_offer, write_offer};
/// let offer = parse_offer(b"7,60,660,1000,2000.5,8000,9000,true,0.3,3")?;
/// assert!(offer.leaves_car && offer.seats == 3);
/// let mut line = Vec::new();
/// write_offer(&offer, &mut line);
/// assert_eq!(line, b"7,60,660,1000,2000.5,8000,9000,true,0.3,3\n");
/// # Ok::<(), tidemill_trip_grouping::text::LineError>(())
/// ```
pub fn write_offer(offer: &Offer, text: &mut Vec<u8>) {
    let Offer { trip, leaves_car, extra_cost_max, seats } = offer;
    write_trip(trip, text);
    // Writing to a vector cannot fail.
    let _ = writeln!(text, ",{leaves_car},{extra_cost_max},{seats}");
}

/// Appends the members of a share as lines, the lead first.
///
/// ```
/// use tidemill_trip_grouping::share::Share;
/// use tidemill_trip_grouping::text::{parse_request, write_share};
/// let mut lines = Vec::new();
/// write_share(&Share::alone(600, parse_request(b"7,60,660,1000,2000.5,8000,9000")?), &mut lines);
/// assert_eq!(lines, b"600,7,1,7,540,0.0000,0.0000\n");
/// # Ok::<(), tidemill_trip_grouping::text::LineError>(())
/// ```
pub fn write_share(share: &Share, text: &mut Vec<u8>) {
    let (lead, size, savings) = (share.lead().id, share.members.len(), share.savings());
    for member in &share.members {
        let waited = share.grouped - member.request.requested;
        let (grouped, id, extra_cost) = (share.grouped, member.request.id, member.extra_cost);
        // Writing to a vector cannot fail.
        let _ = writeln!(text, "{grouped},{lead},{size},{id},{waited},{extra_cost:.4},{savings:.4}");
    }
}

/// Appends a request that nobody took along as a line of a file of shares: without a lead, and without savings.
///
/// ```
/// use tidemill_trip_grouping::text::{parse_request, write_unserved};
/// let mut lines = Vec::new();
/// write_unserved(600, &parse_request(b"7,60,660,1000,2000.5,8000,9000")?, &mut lines);
/// assert_eq!(lines, b"600,,,7,540,,\n");
/// # Ok::<(), tidemill_trip_grouping::text::LineError>(())
/// ```
pub fn write_unserved(grouped: i64, request: &Request, text: &mut Vec<u8>) {
    let waited = grouped - request.requested;
    // Writing to a vector cannot fail.
    let _ = writeln!(text, "{grouped},,,{},{waited},,", request.id);
}

/// Reads a line without its end.
///
/// # Errors
/// If it is not a valid request.
pub fn parse_request(line: &[u8]) -> Result<Request, LineError> {
    let mut fields = Fields::of(line, "a request", HEADER)?;
    let request = fields.trip()?;
    request.check()?;
    Ok(request)
}

/// Reads a line without its end.
///
/// # Errors
/// If it is not a valid offer.
pub fn parse_offer(line: &[u8]) -> Result<Offer, LineError> {
    let mut fields = Fields::of(line, "an offer", OFFER_HEADER)?;
    let trip = fields.trip()?;
    let (leaves_car, extra_cost_max) = (fields.boolean()?, fields.number()?);
    let offer = Offer { trip, leaves_car, extra_cost_max, seats: fields.number()? };
    trip.check()?;
    offer.check()?;
    Ok(offer)
}

/// The fields of a line, one after the other, with their names.
struct Fields<'a> {
    names: std::str::Split<'static, char>,
    rest: std::slice::Split<'a, u8, fn(&u8) -> bool>,
}

fn is_comma(byte: &u8) -> bool {
    *byte == b','
}

impl<'a> Fields<'a> {
    fn of(line: &'a [u8], record: &'static str, header: &'static str) -> Result<Self, LineError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let found = line.split(is_comma).count();
        if found != header.split(',').count() {
            return Err(LineError::FieldCount { found, record, header });
        }
        Ok(Fields { names: header.split(','), rest: line.split(is_comma as fn(&u8) -> bool) })
    }

    fn next<T: FromStr>(&mut self) -> (&'static str, Option<T>) {
        let text = self.rest.next().and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::trim);
        (self.names.next().unwrap_or(""), text.and_then(|text| text.parse().ok()))
    }

    fn number<T: FromStr>(&mut self) -> Result<T, LineError> {
        let (field, number) = self.next();
        number.ok_or(LineError::NotANumber { field })
    }

    fn boolean(&mut self) -> Result<bool, LineError> {
        let (field, boolean) = self.next();
        boolean.ok_or(LineError::NotABoolean { field })
    }

    fn trip(&mut self) -> Result<Request, LineError> {
        Ok(Request {
            id: self.number()?,
            requested: self.number()?,
            expires: self.number()?,
            origin: Place { x_m: self.number()?, y_m: self.number()? },
            destination: Place { x_m: self.number()?, y_m: self.number()? },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_lines_say_what_is_wrong() {
        let wrong =
            |line: &str| parse_request(line.as_bytes()).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(wrong(" 1 ,0,0,0,0,0,0\r"), Ok(()));
        assert!(wrong("1,2,3").is_err_and(|text| text.starts_with("it has 3 fields; a request has 7: id,")));
        assert_eq!(wrong("1,x,3,0,0,0,0"), Err("`requested_s` is not a number".to_owned()));
        assert_eq!(wrong("1,2.5,3,0,0,0,0"), Err("`requested_s` is not a number".to_owned()));
        assert_eq!(wrong("1,2,3,0,0,0,"), Err("`destination_y_m` is not a number".to_owned()));
        assert!(wrong("1,2,3,0,nan,0,0").is_err_and(|text| text.starts_with("a coordinate is not")));
        assert!(wrong("1,20,3,0,0,0,0").is_err_and(|text| text.starts_with("it expires at 3")));
        assert!(wrong(HEADER).is_err());
    }

    #[test]
    fn bad_offers_say_what_is_wrong() {
        let wrong = |line: &str| parse_offer(line.as_bytes()).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(wrong("1,0,0,0,0,0,0, false ,0.5,7\r"), Ok(()));
        assert!(
            wrong("1,0,0,0,0,0,0").is_err_and(|text| text.starts_with("it has 7 fields; an offer has 10"))
        );
        assert_eq!(wrong("1,0,0,0,0,0,0,no,0,1"), Err("`leaves_car` is neither true nor false".to_owned()));
        assert_eq!(wrong("1,0,0,0,0,0,0,true,x,1"), Err("`extra_cost_max` is not a number".to_owned()));
        assert_eq!(wrong("1,0,0,0,0,0,0,true,0,-1"), Err("`seats` is not a number".to_owned()));
        assert!(wrong("1,0,0,0,0,0,0,true,0,8").is_err_and(|text| text.contains("the offer has 8 seats")));
        assert!(wrong("1,0,0,0,0,0,0,true,nan,1").is_err_and(|text| text.contains("extra_cost_max is NaN")));
        assert!(wrong("1,9,0,0,0,0,0,true,0,1").is_err_and(|text| text.starts_with("it expires at 0")));
    }
}
