//! Answers as lines of text.

use tidemill_engine::arrow::array::types::{Int8Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use tidemill_engine::{Arrivals, Batch};

use super::{ACCIDENTS, BALANCES, EXPENDITURES, TOLLS};

/// Room for the longest line: seven numbers of at most 20 digits, and their separators.
const LINE_BYTES_MAX: usize = 160;

/// Finds the delay of each row, from the arrival of the event that caused it until now. Rows come in the order of
/// position, so the chunks are traversed once.
struct Delays<'a> {
    arrivals: &'a Arrivals,
    now_ns: u64,
    chunk: usize,
    chunk_end: u32,
    delay_us: u64,
}

impl<'a> Delays<'a> {
    fn new(arrivals: &'a Arrivals, now_ns: u64) -> Self {
        Delays { arrivals, now_ns, chunk: 0, chunk_end: 0, delay_us: 0 }
    }

    #[inline]
    fn of(&mut self, position: u32) -> u64 {
        if position >= self.chunk_end {
            self.advance(position);
        }
        self.delay_us
    }

    #[cold]
    fn advance(&mut self, position: u32) {
        let chunks = &self.arrivals.chunks;
        self.chunk = chunks.partition_point(|chunk| chunk.0 <= position);
        self.chunk_end = chunks.get(self.chunk).map_or(u32::MAX, |chunk| chunk.0);
        self.delay_us = self.now_ns.saturating_sub(self.arrivals.at_ns(position)) / 1000;
    }
}

/// Appends the lines of a stream of answers, stamped with `now_ns`: Emit is the triggering event's second
/// plus the time since it arrived.
pub fn lines(kind: usize, answers: &Batch, arrivals: &Arrivals, now_ns: u64, text: &mut Vec<u8>) {
    let mut delays = Delays::new(arrivals, now_ns);
    let rows = answers.as_rows();
    let mut writer = LineWriter::new(text, rows.len());
    match kind {
        TOLLS => {
            let (vids, times) = (rows.column::<UInt32Type>(0), rows.column::<UInt16Type>(1));
            let (lavs, tolls) = (rows.column::<Int8Type>(2), rows.column::<UInt64Type>(3));
            for (row, position) in rows.positions().iter().enumerate() {
                writer.begin(b"0,");
                writer.number(vids[row].into(), b',');
                writer.time_and_emit(times[row], delays.of(*position));
                match lavs[row] {
                    lav if lav < 0 => writer.bytes(b"-1,"),
                    lav => writer.number(lav as u64, b','),
                }
                writer.number(tolls[row], b'\n');
            }
        }
        ACCIDENTS => {
            let (times, vids) = (rows.column::<UInt16Type>(0), rows.column::<UInt32Type>(1));
            let segs = rows.column::<UInt8Type>(2);
            for (row, position) in rows.positions().iter().enumerate() {
                writer.begin(b"1,");
                writer.time_and_emit(times[row], delays.of(*position));
                writer.number(vids[row].into(), b',');
                writer.number(segs[row].into(), b'\n');
            }
        }
        BALANCES | EXPENDITURES => {
            let (times, qids) = (rows.column::<UInt16Type>(0), rows.column::<UInt64Type>(1));
            let amounts = rows.column::<UInt64Type>(2);
            for (row, position) in rows.positions().iter().enumerate() {
                writer.begin(if kind == BALANCES { b"2," } else { b"3," });
                writer.time_and_emit(times[row], delays.of(*position));
                if kind == BALANCES {
                    writer.number(times[row].into(), b',');
                }
                writer.number(qids[row], b',');
                writer.number(amounts[row], b'\n');
            }
        }
        _ => {}
    }
    writer.finish();
}

/// Writes numbers into reserved room, so that no digit needs a bounds check.
struct LineWriter<'a> {
    text: &'a mut Vec<u8>,
    at: usize,
}

impl<'a> LineWriter<'a> {
    fn new(text: &'a mut Vec<u8>, rows: usize) -> Self {
        let at = text.len();
        // Enough for usual lines; `begin` makes more if they are longer.
        text.resize(at + rows * 40 + LINE_BYTES_MAX, 0);
        LineWriter { text, at }
    }

    #[inline]
    fn begin(&mut self, kind: &[u8; 2]) {
        if self.text.len() - self.at < LINE_BYTES_MAX {
            let longer = self.text.len() + self.text.len() / 2 + LINE_BYTES_MAX;
            self.text.resize(longer, 0);
        }
        self.bytes(kind);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.text[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// A decimal number and what follows it.
    #[inline]
    fn number(&mut self, value: u64, then: u8) {
        let mut digits = [0u8; 21];
        let mut start = 20;
        digits[20] = then;
        let mut rest = value;
        while rest >= 100 {
            let pair = DIGIT_PAIRS[(rest % 100) as usize];
            rest /= 100;
            start -= 2;
            digits[start..start + 2].copy_from_slice(&pair);
        }
        if rest >= 10 {
            start -= 2;
            digits[start..start + 2].copy_from_slice(&DIGIT_PAIRS[rest as usize]);
        } else {
            start -= 1;
            digits[start] = b'0' + rest as u8;
        }
        self.bytes(&digits[start..]);
    }

    /// `Time,Emit,` with Emit in seconds and microseconds.
    #[inline]
    fn time_and_emit(&mut self, time: u16, delay_us: u64) {
        self.number(time.into(), b',');
        let (seconds, micros) = (delay_us / 1_000_000, delay_us % 1_000_000);
        self.number(u64::from(time) + seconds, b'.');
        for pair in [micros / 10_000, micros / 100 % 100, micros % 100] {
            self.bytes(&DIGIT_PAIRS[pair as usize]);
        }
        self.bytes(b",");
    }

    fn finish(self) {
        self.text.truncate(self.at);
    }
}

const DIGIT_PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + value as u8 / 10, b'0' + value as u8 % 10];
        value += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_decimal() {
        let mut text = b"x".to_vec();
        let mut writer = LineWriter::new(&mut text, 1);
        for value in [0, 9, 10, 99, 100, 12_345, u64::MAX] {
            writer.number(value, b' ');
        }
        writer.time_and_emit(59, 1_000_042);
        writer.finish();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "x0 9 10 99 100 12345 18446744073709551615 59,60.000042,"
        );
    }
}
