//! Requests for trips.

use std::cmp::Ordering;

use thiserror::Error;

/// The largest coordinate, in metres: 25 times around the Earth. Squares of such distances are exact enough.
pub const COORDINATE_MAX_M: f64 = 1e9;

/// A point of the plane.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// Metres to the east.
    pub x_m: f64,
    /// Metres to the north.
    pub y_m: f64,
}

impl Place {
    /// The straight distance to another place.
    ///
    /// ```
    /// use tidemill_trip_grouping::request::Place;
    /// assert_eq!(Place { x_m: 1.0, y_m: 2.0 }.distance_m(Place { x_m: 4.0, y_m: 6.0 }), 5.0);
    /// ```
    #[inline]
    pub fn distance_m(self, other: Place) -> f64 {
        let (x_m, y_m) = (self.x_m - other.x_m, self.y_m - other.y_m);
        (x_m * x_m + y_m * y_m).sqrt()
    }

    fn is_valid(self) -> bool {
        // NaN is not within the limit either.
        self.x_m.abs() <= COORDINATE_MAX_M && self.y_m.abs() <= COORDINATE_MAX_M
    }
}

/// Somebody wants to go from one place to another. All times of a run have one unit: seconds in files, nanoseconds in
/// SQL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Names the request; no two have the same.
    pub id: i64,
    /// When it was made.
    pub requested: i64,
    /// Until when it waits for others at most.
    pub expires: i64,
    /// Where the trip begins.
    pub origin: Place,
    /// Where it ends.
    pub destination: Place,
}

/// Why a request cannot be grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// It expires before it is made.
    #[error("it expires at {expires}, before it was made at {requested}")]
    ExpiresBefore {
        /// When it was made.
        requested: i64,
        /// When it expires.
        expires: i64,
    },
    /// A time is negative.
    #[error("its time is {requested}; times begin at 0")]
    NegativeTime {
        /// When it was made.
        requested: i64,
    },
    /// A time is so large that no grouping cycle can follow it.
    #[error("it expires at {expires}; times end at {max}", max = TIME_MAX)]
    TimeTooLarge {
        /// When it expires.
        expires: i64,
    },
    /// A coordinate is not a number of a reasonable size.
    #[error("a coordinate is not a number between -{COORDINATE_MAX_M} and {COORDINATE_MAX_M} metres")]
    Coordinate,
}

/// The largest time: half of the range, so that sums of times and cycles fit. As nanoseconds since 1970 it is in 2116.
pub const TIME_MAX: i64 = i64::MAX / 2;

impl Request {
    /// The length of the trip alone.
    #[inline]
    pub fn length_m(&self) -> f64 {
        self.origin.distance_m(self.destination)
    }

    /// The order of arrival, which also decides ties.
    pub fn by_arrival(&self, other: &Request) -> Ordering {
        (self.requested, self.id).cmp(&(other.requested, other.id))
    }

    /// Reports what is wrong with it, if anything.
    ///
    /// # Errors
    /// If a time or a coordinate is out of its range.
    pub fn check(&self) -> Result<(), RequestError> {
        let Request { requested, expires, .. } = *self;
        if requested < 0 {
            return Err(RequestError::NegativeTime { requested });
        }
        if expires < requested {
            return Err(RequestError::ExpiresBefore { requested, expires });
        }
        if expires > TIME_MAX {
            return Err(RequestError::TimeTooLarge { expires });
        }
        if self.origin.is_valid() && self.destination.is_valid() {
            Ok(())
        } else {
            Err(RequestError::Coordinate)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_out_of_range_are_refused() {
        let place = Place { x_m: 1.0, y_m: 2.0 };
        let good = Request { id: 1, requested: 5, expires: 5, origin: place, destination: place };
        assert_eq!(good.check(), Ok(()));
        let check = |change: fn(&mut Request)| {
            let mut request = good;
            change(&mut request);
            request.check()
        };
        let before = RequestError::ExpiresBefore { requested: 5, expires: 4 };
        assert_eq!(check(|request| request.expires = 4), Err(before));
        assert_eq!(
            check(|request| request.requested = -1),
            Err(RequestError::NegativeTime { requested: -1 })
        );
        let too_large = RequestError::TimeTooLarge { expires: i64::MAX };
        assert_eq!(check(|request| request.expires = i64::MAX), Err(too_large));
        assert_eq!(check(|request| request.origin.x_m = f64::NAN), Err(RequestError::Coordinate));
        assert_eq!(check(|request| request.destination.y_m = -1e10), Err(RequestError::Coordinate));
    }
}
