//! Events and history rows as text lines (specification, section 2).

use crate::event::{Event, HistoryRow};

/// Room for the longest line: 15 fields, of which a query id has up to 20 digits.
const LINE_BYTES_MAX: usize = 96;
/// The decimal digits of 0 to 99.
const DIGIT_PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
    2021222324252627282930313233343536373839\
    4041424344454647484950515253545556575859\
    6061626364656667686970717273747576777879\
    8081828384858687888990919293949596979899";

/// Appends an event as a line of 15 comma-separated fields with its line end; unused fields are -1.
///
/// ```
/// use tidemill_linear_road::event::{BalanceQuery, Event};
/// use tidemill_linear_road::text_write::write_event;
///
/// let mut text = Vec::new();
/// write_event(&Event::Balance(BalanceQuery { time: 61, vid: 104, qid: 9 }), &mut text);
/// assert_eq!(text, b"2,61,104,-1,-1,-1,-1,-1,-1,9,-1,-1,-1,-1,-1\n");
/// ```
#[inline]
pub fn write_event(event: &Event, text: &mut Vec<u8>) {
    let mut line = LineBuffer::new();
    match event {
        Event::Report(report) => {
            line.constant(b",-1,-1,-1,-1,-1,-1\n");
            line.number(report.pos);
            line.comma_number(u32::from(report.seg));
            line.comma_number(u32::from(report.dir));
            line.comma_number(u32::from(report.lane));
            line.comma_number(u32::from(report.xway));
            line.comma_number(u32::from(report.speed));
            line.comma_number(report.vid);
            line.comma_number(u32::from(report.time));
            line.constant(b"0,");
        }
        Event::Balance(query) => {
            line.constant(b",-1,-1,-1,-1,-1\n");
            line.long_number(query.qid);
            line.constant(b",-1,-1,-1,-1,-1,-1,");
            line.start_of_query(b"2,", query.time, query.vid);
        }
        Event::Expenditure(query) => {
            line.constant(b"\n");
            line.number(u32::from(query.day));
            line.constant(b",-1,-1,-1,-1,");
            line.long_number(query.qid);
            line.constant(b",-1,-1,-1,-1,");
            line.number(u32::from(query.xway));
            line.constant(b",-1,");
            line.start_of_query(b"3,", query.time, query.vid);
        }
        Event::TravelTime(query) => {
            line.constant(b",-1\n");
            line.number(u32::from(query.minute_of_day));
            line.comma_number(u32::from(query.day_of_week));
            line.comma_number(u32::from(query.seg_to));
            line.comma_number(u32::from(query.seg_from));
            line.constant(b",");
            line.long_number(query.qid);
            line.constant(b",-1,-1,-1,-1,");
            line.number(u32::from(query.xway));
            line.constant(b",-1,");
            line.start_of_query(b"4,", query.time, query.vid);
        }
    }
    text.extend_from_slice(line.as_bytes());
}

/// Appends a row of the history as `VID,Day,XWay,Toll` with its line end.
///
/// ```
/// use tidemill_linear_road::event::HistoryRow;
/// use tidemill_linear_road::text_write::write_history_row;
///
/// let mut text = Vec::new();
/// write_history_row(&HistoryRow { vid: 125, day: 24, xway: 0, toll: 79 }, &mut text);
/// assert_eq!(text, b"125,24,0,79\n");
/// ```
pub fn write_history_row(row: &HistoryRow, text: &mut Vec<u8>) {
    let mut line = LineBuffer::new();
    line.constant(b"\n");
    line.number(row.toll);
    line.comma_number(u32::from(row.xway));
    line.comma_number(u32::from(row.day));
    line.comma_number(row.vid);
    text.extend_from_slice(line.as_bytes());
}

/// A line that is written from its end to its start, so that the length of a number need not be known in advance.
struct LineBuffer {
    bytes: [u8; LINE_BYTES_MAX],
    start: usize,
}

impl LineBuffer {
    #[inline]
    fn new() -> Self {
        LineBuffer { bytes: [0; LINE_BYTES_MAX], start: LINE_BYTES_MAX }
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Puts bytes before the current content.
    #[inline]
    fn constant<const LENGTH: usize>(&mut self, bytes: &[u8; LENGTH]) {
        self.start -= LENGTH;
        self.bytes[self.start..self.start + LENGTH].copy_from_slice(bytes);
    }

    /// Puts a number before the current content.
    #[inline]
    fn number(&mut self, mut number: u32) {
        while number >= 100 {
            self.pair(number % 100);
            number /= 100;
        }
        if number >= 10 {
            self.pair(number);
        } else {
            self.constant(&[b'0' + number as u8]);
        }
    }

    /// Puts a number followed by a comma before the current content.
    #[inline]
    fn comma_number(&mut self, number: u32) {
        self.constant(b",");
        self.number(number);
    }

    /// Puts a number of up to 64 bits before the current content.
    fn long_number(&mut self, mut number: u64) {
        while number > u64::from(u32::MAX) {
            self.pair((number % 100) as u32);
            number /= 100;
        }
        self.number(number as u32);
    }

    /// Puts the type, time and vehicle of a query, each but the last with its comma, before the current content.
    fn start_of_query(&mut self, kind: &[u8; 2], time: u16, vid: u32) {
        self.number(vid);
        self.comma_number(u32::from(time));
        self.constant(kind);
    }

    #[inline]
    fn pair(&mut self, number: u32) {
        let digits = 2 * number as usize;
        self.constant(&[DIGIT_PAIRS[digits], DIGIT_PAIRS[digits + 1]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ExpenditureQuery, Report, TravelTimeQuery};

    fn text_of(event: Event) -> String {
        let mut text = Vec::new();
        write_event(&event, &mut text);
        String::from_utf8(text).expect("ASCII")
    }

    #[test]
    fn writes_every_type_as_in_the_published_data() {
        let report = Report { time: 0, vid: 100, speed: 12, xway: 0, lane: 0, dir: 0, seg: 88, pos: 464_931 };
        assert_eq!(text_of(Event::Report(report)), "0,0,100,12,0,0,0,88,464931,-1,-1,-1,-1,-1,-1\n");
        let query = ExpenditureQuery { time: 3, vid: 661, xway: 0, qid: 5, day: 2 };
        assert_eq!(text_of(Event::Expenditure(query)), "3,3,661,-1,0,-1,-1,-1,-1,5,-1,-1,-1,-1,2\n");
        let query = TravelTimeQuery {
            time: 1,
            vid: 242,
            xway: 0,
            qid: 1,
            seg_from: 36,
            seg_to: 89,
            day_of_week: 3,
            minute_of_day: 1256,
        };
        assert_eq!(text_of(Event::TravelTime(query)), "4,1,242,-1,0,-1,-1,-1,-1,1,36,89,3,1256,-1\n");
    }

    #[test]
    fn the_longest_line_fits() {
        let query = TravelTimeQuery {
            time: u16::MAX,
            vid: u32::MAX,
            xway: u16::MAX,
            qid: u64::MAX,
            seg_from: u8::MAX,
            seg_to: u8::MAX,
            day_of_week: u8::MAX,
            minute_of_day: u16::MAX,
        };
        let line = text_of(Event::TravelTime(query));
        let expected = "4,65535,4294967295,-1,65535,-1,-1,-1,-1,18446744073709551615,255,255,255,65535,-1\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn numbers_agree_with_the_standard_library() {
        for shift in 0..64 {
            for number in [1u64 << shift, (1 << shift) - 1, (1 << shift) / 10 * 9] {
                let mut line = LineBuffer::new();
                line.long_number(number);
                assert_eq!(line.as_bytes(), number.to_string().as_bytes());
            }
        }
    }
}
