//! The fields of a comma-separated line, parsed strictly, with the place of every error.

use crate::line_error::{LineError, LineReason};

/// One field of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'static str,
    /// The column of the field's first byte, from 1.
    pub(crate) column: usize,
    pub(crate) bytes: &'a [u8],
}

/// Splits a line that must have exactly the named fields.
pub(crate) fn split<'a, const N: usize>(
    line: &'a [u8],
    names: &[&'static str; N],
) -> Result<[Field<'a>; N], LineError> {
    if line.is_empty() {
        return Err(LineError::whole_line(LineReason::EmptyLine));
    }
    let mut fields = [Field { name: "", column: 0, bytes: &[] }; N];
    let mut found = 0;
    let mut column = 1;
    for bytes in line.split(|byte| *byte == b',') {
        if found < N {
            fields[found] = Field { name: names[found], column, bytes };
        }
        found += 1;
        column += bytes.len() + 1;
    }
    if found != N {
        return Err(LineError::whole_line(LineReason::FieldCount { found, expected: N }));
    }
    Ok(fields)
}

impl Field<'_> {
    pub(crate) fn error(&self, reason: LineReason) -> LineError {
        LineError { field: Some(self.name), column: self.column, reason }
    }

    /// The field as an integer of any length, `i64::MIN` or `i64::MAX` if it is beyond them.
    pub(crate) fn integer(&self) -> Result<i64, LineError> {
        let (sign, digits) = match self.bytes {
            [b'-', digits @ ..] => (-1, digits),
            digits => (1, digits),
        };
        if self.bytes.is_empty() {
            return Err(self.error(LineReason::EmptyField));
        }
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(self.error(LineReason::NotAnInteger));
        }
        let next =
            |value: i64, byte: &u8| value.saturating_mul(10).saturating_add(sign * i64::from(byte - b'0'));
        Ok(digits.iter().fold(0, next))
    }

    /// The field as an integer from `min` to `max`, all of which `T` must hold.
    pub(crate) fn within<T: TryFrom<i64>>(&self, min: i64, max: impl Into<i64>) -> Result<T, LineError> {
        let max = max.into();
        let value = self.integer()?;
        let out_of_range = || self.error(LineReason::OutOfRange { value, min, max });
        if !(min..=max).contains(&value) {
            return Err(out_of_range());
        }
        T::try_from(value).map_err(|_| out_of_range())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(text: &str) -> Result<i64, LineReason> {
        Field { name: "F", column: 1, bytes: text.as_bytes() }.integer().map_err(|error| error.reason)
    }

    #[test]
    fn integers_are_strict_and_never_wrap() {
        assert_eq!(integer("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(integer("9223372036854775807"), Ok(i64::MAX));
        assert_eq!(integer("123456789012345678901234567890"), Ok(i64::MAX));
        assert_eq!(integer("-123456789012345678901234567890"), Ok(i64::MIN));
        assert_eq!(integer("0000000000000000000000000007"), Ok(7));
        assert_eq!(integer(""), Err(LineReason::EmptyField));
        for text in ["-", "+1", " 1", "1 ", "1.0", "1e3", "--1", "0x1", "\u{661}"] {
            assert_eq!(integer(text), Err(LineReason::NotAnInteger), "{text:?}");
        }
    }

    #[test]
    fn fields_are_counted_before_they_are_read() {
        let names = ["A", "B"];
        let count = |line: &str| split(line.as_bytes(), &names).map(|_| ()).map_err(|error| error.reason);
        assert_eq!(count("x,"), Ok(()));
        assert_eq!(count(""), Err(LineReason::EmptyLine));
        assert_eq!(count("1"), Err(LineReason::FieldCount { found: 1, expected: 2 }));
        assert_eq!(count("1,2,"), Err(LineReason::FieldCount { found: 3, expected: 2 }));
    }
}
