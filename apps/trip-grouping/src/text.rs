//! Requests and shares as lines of CSV.

use std::io::Write;

use thiserror::Error;

use crate::request::{Place, Request, RequestError};
use crate::share::Share;

/// The first line of a file of requests. Times are seconds, places are metres.
pub const HEADER: &str = "id,requested_s,expires_s,origin_x_m,origin_y_m,destination_x_m,destination_y_m";

/// The names of the fields, in their order.
const FIELDS: [&str; 7] =
    ["id", "requested_s", "expires_s", "origin_x_m", "origin_y_m", "destination_x_m", "destination_y_m"];

/// The first line of a file of shares, which has a line for each member.
pub const SHARE_HEADER: &str = "grouped_s,lead,members,id,waited_s,extra_cost,savings";

/// Why a line is not a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LineError {
    /// There are fewer or more fields than a request has.
    #[error("it has {found} fields; a request has {}: {HEADER}", FIELDS.len())]
    FieldCount {
        /// The number of fields.
        found: usize,
    },
    /// A field is not a number.
    #[error("`{field}` is not a number")]
    NotANumber {
        /// The field's name.
        field: &'static str,
    },
    /// The request itself is impossible.
    #[error("{0}")]
    Request(#[from] RequestError),
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
    let Request { id, requested, expires, origin, destination } = request;
    // Writing to a vector cannot fail.
    let _ = writeln!(
        text,
        "{id},{requested},{expires},{},{},{},{}",
        origin.x_m, origin.y_m, destination.x_m, destination.y_m
    );
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

/// Reads a line without its end.
///
/// # Errors
/// If it is not a valid request.
pub fn parse_request(line: &[u8]) -> Result<Request, LineError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let found = line.split(|byte| *byte == b',').count();
    if found != FIELDS.len() {
        return Err(LineError::FieldCount { found });
    }
    let mut fields = FIELDS.iter().zip(line.split(|byte| *byte == b','));
    let mut next = || fields.next().unwrap_or((&"", b""));
    let request = Request {
        id: number(next())?,
        requested: number(next())?,
        expires: number(next())?,
        origin: Place { x_m: number(next())?, y_m: number(next())? },
        destination: Place { x_m: number(next())?, y_m: number(next())? },
    };
    request.check()?;
    Ok(request)
}

fn number<T: std::str::FromStr>((field, text): (&&'static str, &[u8])) -> Result<T, LineError> {
    let text = std::str::from_utf8(text).ok().map(str::trim);
    text.and_then(|text| text.parse().ok()).ok_or(LineError::NotANumber { field })
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
}
