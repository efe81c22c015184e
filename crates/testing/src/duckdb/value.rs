//! Values of both sides, and whether they are the same.

use std::fmt;

/// How far apart floating-point numbers may be, relative to the larger one: sums are made in different orders.
const TOLERANCE: f64 = 1e-9;

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// Unscaled, and its scale.
    Decimal(i128, u32),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Text(String),
    /// Nanoseconds since 1970.
    Timestamp(i128),
    /// Days since 1970.
    Date(i64),
    /// Nanoseconds since midnight.
    Time(i128),
    /// Nanoseconds.
    Length(i128),
    /// Anything else, as text.
    Other(String),
}

/// A row of an answer.
pub type Row = Vec<Value>;

const DAY_NS: i128 = 86_400_000_000_000;

impl Value {
    /// Reads what `server.py` wrote.
    pub fn parse(text: &str) -> Value {
        let (kind, text) = text.split_at(1.min(text.len()));
        let number = || text.parse::<i128>().unwrap_or_else(|_| panic!("no number: {text}"));
        match kind {
            "n" => Value::Null,
            "b" => Value::Bool(text == "1"),
            "i" => Value::Int(number()),
            "d" => decimal(text),
            "f" => Value::Float(text.parse().unwrap_or_else(|_| panic!("no floating-point number: {text}"))),
            "t" => Value::Text(unescaped(text)),
            "s" => Value::Timestamp(number() * 1000),
            "D" => Value::Date(number() as i64),
            "c" => Value::Time(number() * 1000),
            "l" => Value::Length(number() * 1000),
            _ => Value::Other(unescaped(text)),
        }
    }

    /// Whether both are the same, whatever types they have: engines choose different ones for sums and means.
    pub fn is_same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Text(one), Value::Text(other)) | (Value::Other(one), Value::Other(other)) => one == other,
            (Value::Timestamp(one), Value::Timestamp(other))
            | (Value::Time(one), Value::Time(other))
            | (Value::Length(one), Value::Length(other)) => one == other,
            (Value::Date(one), Value::Date(other)) => one == other,
            (Value::Date(days), Value::Timestamp(ns)) | (Value::Timestamp(ns), Value::Date(days)) => {
                i128::from(*days) * DAY_NS == *ns
            }
            _ => match (self.exact(), other.exact()) {
                (Some(one), Some(other)) => is_same_decimal(one, other),
                _ => self.is_close(other),
            },
        }
    }

    fn exact(&self) -> Option<(i128, u32)> {
        match self {
            Value::Int(value) => Some((*value, 0)),
            Value::Decimal(value, scale) => Some((*value, *scale)),
            _ => None,
        }
    }

    fn is_close(&self, other: &Value) -> bool {
        let (Some(one), Some(two)) = (self.as_float(), other.as_float()) else { return false };
        let unit = |value: &Value| match value {
            // What a decimal has been rounded to.
            Value::Decimal(_, scale) => 0.51 * 10_f64.powi(-(*scale as i32)),
            _ => 0.0,
        };
        let apart = (one - two).abs();
        one == two
            || (one.is_nan() && two.is_nan())
            || (apart.is_finite()
                && apart <= (TOLERANCE * one.abs().max(two.abs())).max(unit(self)).max(unit(other)))
    }

    /// Returns a number as a floating-point number, and nothing else.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Int(value) => Some(*value as f64),
            Value::Decimal(value, scale) => Some(*value as f64 / 10_f64.powi(*scale as i32)),
            Value::Float(value) => Some(*value),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => formatter.write_str("NULL"),
            Value::Bool(value) => write!(formatter, "{value}"),
            Value::Int(value) => write!(formatter, "{value}"),
            Value::Decimal(value, scale) => write!(formatter, "{value}e-{scale}"),
            Value::Float(value) => write!(formatter, "{value:?}"),
            Value::Text(value) => write!(formatter, "{value:?}"),
            Value::Timestamp(value) => write!(formatter, "timestamp {value} ns"),
            Value::Date(value) => write!(formatter, "day {value}"),
            Value::Time(value) => write!(formatter, "time {value} ns"),
            Value::Length(value) => write!(formatter, "{value} ns"),
            Value::Other(value) => formatter.write_str(value),
        }
    }
}

fn is_same_decimal(one: (i128, u32), other: (i128, u32)) -> bool {
    let scale = one.1.max(other.1);
    let scaled = |(value, own): (i128, u32)| value.checked_mul(10_i128.checked_pow(scale - own)?);
    match (scaled(one), scaled(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

fn decimal(text: &str) -> Value {
    let scale = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let digits = text.replace('.', "");
    Value::Decimal(digits.parse().unwrap_or_else(|_| panic!("no decimal: {text}")), scale as u32)
}

pub fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                _ => '\\',
            },
            other => other,
        });
    }
    plain
}
