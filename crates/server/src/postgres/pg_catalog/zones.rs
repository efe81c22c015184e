//! The time zones that `pg_timezone_names` lists.

use std::time::{SystemTime, UNIX_EPOCH};

use tidemill_sql::value_text::calendar::interval;
use tidemill_sql::{ListedZone, listed_zones};

use super::table::Cell;
use super::table::CellKind::{self, Flag, Text};

pub(super) const PG_TIMEZONE_NAMES: &[(&str, CellKind)] =
    &[("name", Text), ("abbrev", Text), ("utc_offset", Text), ("is_dst", Flag)];

/// The zones as they are now.
pub(super) fn rows() -> Vec<Vec<Cell>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let row = |zone: ListedZone| -> Vec<Cell> {
        let offset = interval(0, 0, i64::from(zone.offset_seconds) * 1_000_000, 0);
        vec![
            zone.name.into(),
            zone.abbreviation.as_str().into(),
            offset.as_str().into(),
            zone.is_summer.into(),
        ]
    };
    listed_zones(now.as_secs().cast_signed()).into_iter().map(row).collect()
}
