//! The value of an option.

use std::ops::RangeInclusive;

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::TextError;
use crate::statement::Name;
use crate::statement::parser::cursor::Cursor;
use crate::text::duration::{interval_ns, parse_bytes, parse_duration_ns};

/// The value of an option, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A quoted text, or a single word.
    Text(String),
    /// A number.
    Number(String),
    /// `true` or `false`.
    Boolean(bool),
    /// `INTERVAL '...'`, in nanoseconds.
    Interval(i64),
}

impl OptionValue {
    /// A text; numbers and Booleans are accepted as written. `name` is the option's name in messages.
    pub(crate) fn text(&self, name: &str) -> Result<&str, String> {
        match self {
            OptionValue::Text(text) | OptionValue::Number(text) => Ok(text),
            OptionValue::Boolean(true) => Ok("true"),
            OptionValue::Boolean(false) => Ok("false"),
            OptionValue::Interval(_) => Err(format!("`{name}` must be a string")),
        }
    }

    /// An integer within a range.
    pub(crate) fn integer(&self, name: &str, range: RangeInclusive<i64>) -> Result<i64, String> {
        let (low, high) = (range.start(), range.end());
        let (OptionValue::Number(text) | OptionValue::Text(text)) = self else {
            return Err(format!("`{name}` must be a whole number"));
        };
        let text = text.replace('_', "");
        let whole = text.strip_prefix(['-', '+']).unwrap_or(&text);
        if whole.is_empty() || !whole.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("`{name}` must be a whole number"));
        }
        match text.parse().ok().filter(|number| range.contains(number)) {
            Some(number) => Ok(number),
            None if *high == i64::MAX => Err(format!("`{name}` must be at least {low}")),
            None => Err(format!("`{name}` must be from {low} to {high}")),
        }
    }

    /// True or false.
    pub(crate) fn boolean(&self, name: &str) -> Result<bool, String> {
        match self {
            OptionValue::Boolean(value) => Ok(*value),
            OptionValue::Text(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            OptionValue::Text(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(format!("`{name}` must be true or false")),
        }
    }

    /// A duration in nanoseconds, 0 or more.
    pub(crate) fn duration_ns(&self, name: &str) -> Result<i64, String> {
        let nanoseconds = match self {
            OptionValue::Interval(nanoseconds) => Ok(*nanoseconds),
            OptionValue::Text(text) | OptionValue::Number(text) => parse_duration_ns(text),
            OptionValue::Boolean(_) => Err("expected a duration, such as '20 ms'".to_owned()),
        };
        match nanoseconds.map_err(|why| format!("`{name}`: {why}"))? {
            negative if negative < 0 => Err(format!("`{name}` must not be negative")),
            nanoseconds => Ok(nanoseconds),
        }
    }

    /// A size in bytes.
    pub(crate) fn bytes(&self, name: &str) -> Result<u64, String> {
        let bytes = match self {
            OptionValue::Text(text) | OptionValue::Number(text) => parse_bytes(text),
            _ => Err("expected a size, such as '256 MB'".to_owned()),
        };
        bytes.map_err(|why| format!("`{name}`: {why}"))
    }

    /// Reads the value of the option `name`.
    pub(crate) fn read(cursor: &mut Cursor<'_>, name: &Name) -> Result<OptionValue, TextError> {
        let first = cursor.here();
        if cursor.sees(&["INTERVAL"]) {
            let expression = cursor.expression()?;
            let nanoseconds = match &expression {
                ast::Expr::Interval(interval) => interval_ns(interval),
                _ => Err("expected a single INTERVAL '...'".to_owned()),
            };
            let read = nanoseconds.map(OptionValue::Interval);
            return read.map_err(|why| TextError::new(cursor.script(), cursor.since(first), why));
        }
        let negative = cursor.take_symbol(&Token::Minus);
        let value = match &cursor.peek().token {
            Token::Number(number, _) if negative => OptionValue::Number(format!("-{number}")),
            Token::Number(number, _) => OptionValue::Number(number.clone()),
            _ if negative => return Err(cursor.unexpected("a number")),
            Token::SingleQuotedString(text) => OptionValue::Text(text.clone()),
            Token::Word(word) if word.quote_style.is_some() => OptionValue::Text(word.value.clone()),
            Token::Word(word) if word.value.eq_ignore_ascii_case("true") => OptionValue::Boolean(true),
            Token::Word(word) if word.value.eq_ignore_ascii_case("false") => OptionValue::Boolean(false),
            Token::Word(word) => OptionValue::Text(word.value.clone()),
            _ => return Err(cursor.unexpected(&format!("a value for `{name}`"))),
        };
        cursor.advance();
        Ok(value)
    }
}
