//! One line of a run's output (specification, section 9).

use crate::fields::{Field, split};
use crate::line_error::{LineError, LineReason};
use crate::text_read::QID_MAX;

const NANOSECONDS: i64 = 1_000_000_000;
/// Further digits of a second are truncated: Emit is exact to the nanosecond.
const FRACTION_DIGITS: usize = 9;
const EMIT_MAX_S: i64 = 1_000_000_000;

/// The four kinds of output that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// Type 0, toll notification.
    Toll,
    /// Type 1, accident notification.
    Accident,
    /// Type 2, account balance.
    Balance,
    /// Type 3, daily expenditure.
    Expenditure,
}

impl AnswerKind {
    /// All kinds in the order of their numbers.
    pub const ALL: [AnswerKind; 4] =
        [AnswerKind::Toll, AnswerKind::Accident, AnswerKind::Balance, AnswerKind::Expenditure];

    /// The number in the first field of an output line.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            AnswerKind::Toll => "toll notification",
            AnswerKind::Accident => "accident notification",
            AnswerKind::Balance => "account balance",
            AnswerKind::Expenditure => "daily expenditure",
        }
    }

    /// Whether one input line is identified by its query id rather than by (VID, Time).
    fn is_query(self) -> bool {
        matches!(self, AnswerKind::Balance | AnswerKind::Expenditure)
    }
}

/// What identifies an answer: the query id, or time and vehicle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(u64);

impl Key {
    pub(super) fn vehicle(time: u16, vid: u32) -> Key {
        Key(u64::from(time) << 32 | u64::from(vid))
    }

    pub(super) fn query(qid: u64) -> Key {
        Key(qid)
    }

    /// The key and its time for messages.
    pub(super) fn describe(self, kind: AnswerKind, time: u16) -> String {
        if kind.is_query() {
            format!("QID {} at {time}", self.0)
        } else {
            format!("VID {} at {}", self.0 as u32, self.0 >> 32)
        }
    }
}

/// The content of an answer of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// Toll, Seg or Bal.
    pub(super) value: i64,
    /// Lav of a toll notification, ResultTime of a balance, 0 in the other kinds.
    pub(super) detail: i32,
    /// Second of the input line that is answered.
    pub(super) time: u16,
}

/// One output line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) key: Key,
    pub(super) emit_ns: i64,
    pub(super) content: Content,
}

impl Answer {
    /// From the input's second to Emit; negative if the clocks disagree.
    pub(super) fn delay_ns(&self) -> i64 {
        self.emit_ns - i64::from(self.content.time) * NANOSECONDS
    }

    /// Parses an output line of the kind, without its line end.
    pub(super) fn parse(kind: AnswerKind, line: &[u8]) -> Result<Answer, LineError> {
        match kind {
            AnswerKind::Toll => {
                let [number, vid, time, emit, lav, toll] =
                    split(line, &["Type", "VID", "Time", "Emit", "Lav", "Toll"])?;
                expect_kind(kind, number)?;
                Answer::of_vehicle(vid, time, emit, any_small(lav)?, any(toll)?)
            }
            AnswerKind::Accident => {
                let [number, time, emit, vid, seg] = split(line, &["Type", "Time", "Emit", "VID", "Seg"])?;
                expect_kind(kind, number)?;
                Answer::of_vehicle(vid, time, emit, 0, any(seg)?)
            }
            AnswerKind::Balance => {
                let [number, time, emit, result_time, qid, balance] =
                    split(line, &["Type", "Time", "Emit", "ResultTime", "QID", "Bal"])?;
                expect_kind(kind, number)?;
                Answer::of_query(qid, time, emit, any_small(result_time)?, any(balance)?)
            }
            AnswerKind::Expenditure => {
                let [number, time, emit, qid, balance] =
                    split(line, &["Type", "Time", "Emit", "QID", "Bal"])?;
                expect_kind(kind, number)?;
                Answer::of_query(qid, time, emit, 0, any(balance)?)
            }
        }
    }

    fn of_vehicle(
        vid: Field<'_>,
        time: Field<'_>,
        emit: Field<'_>,
        detail: i32,
        value: i64,
    ) -> Result<Answer, LineError> {
        let time = time.within(0, u16::MAX)?;
        let key = Key::vehicle(time, vid.within(0, u32::MAX)?);
        Ok(Answer { key, emit_ns: decimal_ns(emit)?, content: Content { value, detail, time } })
    }

    fn of_query(
        qid: Field<'_>,
        time: Field<'_>,
        emit: Field<'_>,
        detail: i32,
        value: i64,
    ) -> Result<Answer, LineError> {
        let time = time.within(0, u16::MAX)?;
        let key = Key::query(qid.within(0, QID_MAX)?);
        Ok(Answer { key, emit_ns: decimal_ns(emit)?, content: Content { value, detail, time } })
    }
}

fn expect_kind(kind: AnswerKind, number: Field<'_>) -> Result<(), LineError> {
    match number.integer()? {
        value if value == i64::from(kind.number()) => Ok(()),
        value => Err(number.error(LineReason::UnknownType { value })),
    }
}

/// An integer that cannot be a saturated one.
pub(super) fn any(field: Field<'_>) -> Result<i64, LineError> {
    field.within(i64::MIN + 1, i64::MAX - 1)
}

pub(super) fn any_small(field: Field<'_>) -> Result<i32, LineError> {
    field.within(i64::from(i32::MIN), i32::MAX)
}

/// Seconds with or without decimals, in nanoseconds.
fn decimal_ns(field: Field<'_>) -> Result<i64, LineError> {
    let Some(point) = field.bytes.iter().position(|byte| *byte == b'.') else {
        return Ok(field.within::<i64>(0, EMIT_MAX_S)? * NANOSECONDS);
    };
    let (whole, fraction) = (&field.bytes[..point], &field.bytes[point + 1..]);
    let digits_only = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    if !digits_only(whole) || !digits_only(fraction) {
        return Err(field.error(LineReason::NotADecimal));
    }
    let seconds = Field { bytes: whole, ..field }.within::<i64>(0, EMIT_MAX_S)?;
    let digit = |index: usize| i64::from(fraction.get(index).map_or(0, |byte| byte - b'0'));
    let nanoseconds = (0..FRACTION_DIGITS).fold(0, |sum, index| sum * 10 + digit(index));
    Ok(seconds * NANOSECONDS + nanoseconds)
}
