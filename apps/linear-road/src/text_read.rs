//! Parsing the lines of the input and of the history (specification, section 2).
//!
//! Parsing is strict: exactly 15 integers with single commas, no blanks, no plus signs. Only the fields that a
//! line's type uses must be in their range; the others may hold any integer. `Seg` is not compared with `Pos`.
//!
//! Nearly all lines are position reports with `-1` in the unused fields. A fast path takes these, and anything unusual
//! goes to the exact parser, which alone reports what is wrong.

use tidemill_connect::Line;

use crate::event::{
    BalanceQuery, Event, ExpenditureQuery, HistoryRow, POSITION_MAX, Report, TIME_MAX_S, TravelTimeQuery,
    VID_MAX, XWAY_MAX,
};
use crate::fields::{Field, split};
use crate::line_error::{LineError, LineReason};

/// The largest query id.
pub const QID_MAX: i64 = i64::MAX - 1;
const SPEED_MAX: u8 = 100;
const LANE_MAX: u8 = 4;
const DIR_MAX: u8 = 1;
const SEG_MAX: u8 = 99;
const DAY_MAX: u8 = 69;

const INPUT_FIELDS: [&str; 15] = [
    "Type", "Time", "VID", "Spd", "XWay", "Lane", "Dir", "Seg", "Pos", "QID", "Sinit", "Send", "DOW", "TOD",
    "Day",
];
const HISTORY_FIELDS: [&str; 4] = ["VID", "Day", "XWay", "Toll"];
/// The end of a position report as all known generators write it.
const UNUSED_BY_REPORT: &[u8] = b"-1,-1,-1,-1,-1,-1";

/// Parses one line of the input, without its line end.
///
/// # Errors
/// A [`LineError`] that names the first wrong field in this order: number of fields, integers, type, ranges.
///
/// ```
/// use tidemill_linear_road::event::Event;
/// use tidemill_linear_road::text_read::parse_event;
///
/// let event = parse_event(b"2,17,4711,-1,-1,-1,-1,-1,-1,99,-1,-1,-1,-1,-1")?;
/// assert!(matches!(event, Event::Balance(query) if query.time == 17 && query.qid == 99));
/// let error = parse_event(b"0,17,4711,250,0,2,0,10,52803,-1,-1,-1,-1,-1,-1").unwrap_err();
/// assert_eq!(error.to_string(), "Spd (character 11): out of range: 250, allowed is 0 to 100");
/// # Ok::<(), tidemill_linear_road::line_error::LineError>(())
/// ```
#[inline]
pub fn parse_event(line: &[u8]) -> Result<Event, LineError> {
    match parse_usual_report(line) {
        Some(report) => Ok(Event::Report(report)),
        None => parse_event_exactly(line),
    }
}

/// A valid position report in the usual form, or `None`, which does not mean that the line is bad.
#[inline]
fn parse_usual_report(line: &[u8]) -> Option<Report> {
    let mut rest = line.strip_prefix(b"0,")?;
    let report = Report {
        time: u16::try_from(leading_number(&mut rest, u32::from(TIME_MAX_S))?).ok()?,
        vid: leading_number(&mut rest, VID_MAX)?,
        speed: leading_small(&mut rest, SPEED_MAX)?,
        xway: u16::try_from(leading_number(&mut rest, u32::from(XWAY_MAX))?).ok()?,
        lane: leading_small(&mut rest, LANE_MAX)?,
        dir: leading_small(&mut rest, DIR_MAX)?,
        seg: leading_small(&mut rest, SEG_MAX)?,
        pos: leading_number(&mut rest, POSITION_MAX)?,
    };
    (rest == UNUSED_BY_REPORT).then_some(report)
}

/// Takes 1 to 9 digits and a comma from the front of `rest`.
#[inline(always)]
fn leading_number(rest: &mut &[u8], max: u32) -> Option<u32> {
    let mut value = 0;
    for (index, byte) in rest.iter().enumerate().take(10) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            *rest = &rest[index + 1..];
            return (*byte == b',' && index > 0 && value <= max).then_some(value);
        }
        if index == 9 {
            return None;
        }
        value = value * 10 + u32::from(digit);
    }
    None
}

#[inline(always)]
fn leading_small(rest: &mut &[u8], max: u8) -> Option<u8> {
    leading_number(rest, u32::from(max)).map(|value| value as u8)
}

#[inline(never)]
fn parse_event_exactly(line: &[u8]) -> Result<Event, LineError> {
    let fields = split(line, &INPUT_FIELDS)?;
    for field in &fields {
        field.integer()?;
    }
    let [kind, time, vid, _, xway, _, _, _, _, qid, _, _, _, _, day] = &fields;
    let kind_found = kind.integer()?;
    if !matches!(kind_found, 0 | 2 | 3 | 4) {
        return Err(kind.error(LineReason::UnknownType { value: kind_found }));
    }
    let time = time.within(0, TIME_MAX_S)?;
    let vid = vid.within(0, VID_MAX)?;
    match kind_found {
        0 => parse_report(time, vid, &fields).map(Event::Report),
        2 => Ok(Event::Balance(BalanceQuery { time, vid, qid: qid.within(0, QID_MAX)? })),
        3 => Ok(Event::Expenditure(ExpenditureQuery {
            time,
            vid,
            xway: xway.within(0, XWAY_MAX)?,
            qid: qid.within(0, QID_MAX)?,
            day: day.within(1, DAY_MAX)?,
        })),
        _ => parse_travel_time_query(time, vid, &fields).map(Event::TravelTime),
    }
}

fn parse_report(time: u16, vid: u32, fields: &[Field<'_>; 15]) -> Result<Report, LineError> {
    let [_, _, _, speed, xway, lane, dir, seg, pos, ..] = fields;
    Ok(Report {
        time,
        vid,
        speed: speed.within(0, SPEED_MAX)?,
        xway: xway.within(0, XWAY_MAX)?,
        lane: lane.within(0, LANE_MAX)?,
        dir: dir.within(0, DIR_MAX)?,
        seg: seg.within(0, SEG_MAX)?,
        pos: pos.within(0, POSITION_MAX)?,
    })
}

fn parse_travel_time_query(
    time: u16,
    vid: u32,
    fields: &[Field<'_>; 15],
) -> Result<TravelTimeQuery, LineError> {
    let [_, _, _, _, xway, _, _, _, _, qid, seg_from, seg_to, day_of_week, minute_of_day, _] = fields;
    Ok(TravelTimeQuery {
        time,
        vid,
        xway: xway.within(0, XWAY_MAX)?,
        qid: qid.within(0, QID_MAX)?,
        seg_from: seg_from.within(0, SEG_MAX)?,
        seg_to: seg_to.within(0, SEG_MAX)?,
        day_of_week: day_of_week.within(1, 7)?,
        minute_of_day: minute_of_day.within(1, 1440)?,
    })
}

/// Parses one line of the history, `VID,Day,XWay,Toll`, without its line end.
///
/// # Errors
/// As [`parse_event`].
///
/// ```
/// let row = tidemill_linear_road::text_read::parse_history_row(b"125,24,0,79")?;
/// assert_eq!((row.vid, row.day, row.xway, row.toll), (125, 24, 0, 79));
/// # Ok::<(), tidemill_linear_road::line_error::LineError>(())
/// ```
pub fn parse_history_row(line: &[u8]) -> Result<HistoryRow, LineError> {
    let [vid, day, xway, toll] = split(line, &HISTORY_FIELDS)?;
    Ok(HistoryRow {
        vid: vid.within(0, VID_MAX)?,
        day: day.within(1, DAY_MAX)?,
        xway: xway.within(0, XWAY_MAX)?,
        toll: toll.within(0, u32::MAX)?,
    })
}

/// Parses a line of a file with `parse`: a line that the end of the file has cut off and that does not parse is
/// [`LineReason::Truncated`]; one beyond the reader's limit is [`LineReason::OverLong`].
///
/// # Errors
/// As `parse`, and the two above.
#[inline]
pub fn parse_file_line<T>(
    line: &Line<'_>,
    parse: impl FnOnce(&[u8]) -> Result<T, LineError>,
) -> Result<T, LineError> {
    if let Some(length_bytes) = line.over_long {
        return Err(LineError::whole_line(LineReason::OverLong { length_bytes }));
    }
    parse(line.bytes).map_err(|error| {
        if line.terminated { error } else { LineError { reason: LineReason::Truncated, ..error } }
    })
}

/// Checks that time does not go backwards. A line that does is refused and changes nothing.
///
/// A single wrong line far in the future makes all lines bad until its time has come: nobody can tell which of two
/// lines is the wrong one.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeOrder {
    latest: u16,
}

impl TimeOrder {
    /// Accepts a time in seconds that is not before any accepted one.
    ///
    /// # Errors
    /// [`LineReason::TimeBackwards`] otherwise.
    #[inline]
    pub fn check(&mut self, time: u16) -> Result<(), LineError> {
        if time < self.latest {
            let reason = LineReason::TimeBackwards { time, after: self.latest };
            // After the one digit of Type and a comma.
            return Err(LineError { field: Some(INPUT_FIELDS[1]), column: 3, reason });
        }
        self.latest = time;
        Ok(())
    }
}

/// Parses the lines of one input file in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct InputParser {
    order: TimeOrder,
}

impl InputParser {
    /// Parses the next line of the file.
    ///
    /// # Errors
    /// As [`parse_event`], [`parse_file_line`] and [`TimeOrder::check`].
    #[inline]
    pub fn parse(&mut self, line: &Line<'_>) -> Result<Event, LineError> {
        let event = parse_file_line(line, parse_event)?;
        self.order.check(event.time())?;
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The two parsers agree: what the fast path accepts, the exact one accepts with the same result.
        #[test]
        fn the_fast_path_agrees_with_the_exact_one(
            fields in prop::collection::vec(prop_oneof![
                4 => "[0-9]{1,3}", 2 => "[0-9]{4,12}", 1 => "-?[0-9]{0,2}", 1 => "[ +a0-9.]{0,3}"], 8),
            rest in prop_oneof![8 => Just("-1,-1,-1,-1,-1,-1"), 1 => Just("-1,-1,-1,-1,-1"), 1 => Just("")],
        ) {
            let line = format!("0,{},{rest}", fields.join(","));
            if let Some(report) = parse_usual_report(line.as_bytes()) {
                prop_assert_eq!(parse_event_exactly(line.as_bytes()), Ok(Event::Report(report)));
            }
        }

        #[test]
        fn the_fast_path_takes_every_usual_report(
            numbers in (0..=TIME_MAX_S, 0..1_000_000_000u32, 0..=SPEED_MAX, 0..=XWAY_MAX),
            place in (0..=LANE_MAX, 0..=DIR_MAX, 0..=SEG_MAX, 0..=POSITION_MAX),
        ) {
            let (time, vid, speed, xway) = numbers;
            let (lane, dir, seg, pos) = place;
            let line = format!("0,{time},{vid},{speed},{xway},{lane},{dir},{seg},{pos},-1,-1,-1,-1,-1,-1");
            let report = Report { time, vid, speed, xway, lane, dir, seg, pos };
            prop_assert_eq!(parse_usual_report(line.as_bytes()), Some(report));
            prop_assert_eq!(parse_event_exactly(line.as_bytes()), Ok(Event::Report(report)));
        }
    }
}
