//! Windows over a column with the local time of a zone. Windows have one length and are counted from 1970 in UTC; a day of a zone
//! begins elsewhere, and where clocks change it is an hour shorter or longer.

use std::sync::Arc;

use datafusion::arrow::array::temporal_conversions::as_datetime_with_timezone;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::types::TimestampSecondType;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::window_assign::WindowKind;
use crate::refusal::refuse;

const NS_PER_SECOND: i64 = 1_000_000_000;
/// The offsets of a zone are looked up this often, from 1970 to 2100.
const STEP_SECONDS: i64 = 7 * 86_400;
const YEARS_SECONDS: i64 = 130 * 366 * 86_400;

/// The windows, so that they begin where the clocks of the column's zone say so.
pub(super) fn local_windows(kind: WindowKind, time: &DataType, column: &str) -> Result<WindowKind> {
    let DataType::Timestamp(_, Some(zone)) = time else { return Ok(kind) };
    let slide_ns = match kind {
        WindowKind::Tumble { size_ns, .. } => size_ns,
        WindowKind::Hop { slide_ns, .. } => slide_ns,
        // They begin with a row.
        WindowKind::Session { .. } => return Ok(kind),
    };
    let mut starts_ns = offsets_ns(zone).into_iter().map(|offset_ns| (-offset_ns).rem_euclid(slide_ns));
    let Some(start_ns) = starts_ns.next() else { return Ok(kind) };
    if !starts_ns.all(|other_ns| other_ns == start_ns) {
        return Err(refuse(
            format!(
                "windows of '{column}' would begin at other times of day in summer than in winter, because the \
                 clocks of {zone} change"
            ),
            &format!(
                "make windows of the time that these clocks show: CREATE SOURCE ... (..., shown AS \
                 to_local_time({column}), WATERMARK FOR shown AS shown - INTERVAL '1 hour')"
            ),
        ));
    }
    Ok(match kind {
        WindowKind::Tumble { size_ns, offset_ns } => {
            WindowKind::Tumble { size_ns, offset_ns: offset_ns + start_ns }
        }
        WindowKind::Hop { size_ns, slide_ns, offset_ns } => {
            WindowKind::Hop { size_ns, slide_ns, offset_ns: offset_ns + start_ns }
        }
        WindowKind::Session { .. } => kind,
    })
}

/// By how much the clocks of a zone are ahead of UTC, at all times since 1970.
fn offsets_ns(zone: &Arc<str>) -> Vec<i64> {
    let Ok(zone) = zone.parse::<Tz>() else { return Vec::new() };
    let times = (0..YEARS_SECONDS).step_by(STEP_SECONDS as usize);
    let offsets = times.filter_map(|seconds| {
        let local = as_datetime_with_timezone::<TimestampSecondType>(seconds, zone)?;
        Some((local.naive_local().and_utc().timestamp() - seconds) * NS_PER_SECOND)
    });
    let mut offsets: Vec<i64> = offsets.collect();
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    const HOUR_NS: i64 = 3600 * NS_PER_SECOND;

    fn tumble(size_ns: i64, zone: &str) -> Option<i64> {
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some(zone.into()));
        match local_windows(WindowKind::Tumble { size_ns, offset_ns: 0 }, &time, "at") {
            Ok(WindowKind::Tumble { offset_ns, .. }) => Some(offset_ns),
            _ => None,
        }
    }

    #[test]
    fn windows_begin_as_the_clocks_of_the_zone_say() {
        assert_eq!(tumble(24 * HOUR_NS, "UTC"), Some(0));
        assert_eq!(tumble(24 * HOUR_NS, "+02:00"), Some(22 * HOUR_NS));
        assert_eq!(tumble(24 * HOUR_NS, "Asia/Kolkata"), Some(18 * HOUR_NS + HOUR_NS / 2));
        assert_eq!(tumble(HOUR_NS, "Asia/Kolkata"), Some(HOUR_NS / 2));
        assert_eq!(tumble(HOUR_NS, "Europe/Berlin"), Some(0), "its clocks change by whole hours");
        assert_eq!(tumble(24 * HOUR_NS, "Europe/Berlin"), None);
        assert_eq!(tumble(2 * HOUR_NS, "Europe/Berlin"), None);
    }
}
