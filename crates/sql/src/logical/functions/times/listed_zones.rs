//! The time zones that `AT TIME ZONE` knows by name, for clients that let people choose one.

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{OffsetComponents, OffsetName, TZ_VARIANTS};

/// A time zone at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedZone {
    /// Its name, such as `Europe/Berlin`.
    pub name: &'static str,
    /// What its time is called then, such as `CEST`.
    pub abbreviation: String,
    /// How far it is ahead of UTC then.
    pub offset_seconds: i32,
    /// Whether its clocks are then put forward for the summer.
    pub is_summer: bool,
}

/// Returns all time zones as they are at a moment, in seconds since 1970.
///
/// ```
/// let july = 1_782_864_000;
/// let zones = tidemill_sql::listed_zones(july);
/// let berlin = zones.iter().find(|zone| zone.name == "Europe/Berlin").unwrap();
/// assert_eq!((berlin.abbreviation.as_str(), berlin.offset_seconds, berlin.is_summer), ("CEST", 7200, true));
/// ```
pub fn listed_zones(at_s: i64) -> Vec<ListedZone> {
    let at = DateTime::from_timestamp(at_s, 0).unwrap_or_default();
    let zone = |zone: &chrono_tz::Tz| {
        let offset = zone.offset_from_utc_datetime(&at.naive_utc());
        ListedZone {
            name: zone.name(),
            abbreviation: offset.abbreviation().unwrap_or(zone.name()).to_owned(),
            offset_seconds: offset.fix().local_minus_utc(),
            is_summer: !offset.dst_offset().is_zero(),
        }
    };
    TZ_VARIANTS.iter().map(zone).collect()
}
