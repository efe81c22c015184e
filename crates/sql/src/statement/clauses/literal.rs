//! Literals.

use datafusion::sql::sqlparser::ast::{Value, ValueWithSpan};

use super::super::parameters;
use super::{Checked, Clauses, PLANNED};

impl Clauses<'_> {
    pub(super) fn literal(&self, value: &ValueWithSpan) -> Checked {
        let ValueWithSpan { value, span } = value;
        match value {
            Value::Number(number, _) if number.parse::<f64>().is_ok_and(f64::is_infinite) => {
                let message = format!("{number} is larger than any DOUBLE");
                self.words(
                    *span,
                    &[],
                    message,
                    "the largest is 1.7976931348623157e308; infinity is 'inf'::DOUBLE",
                )
            }
            Value::Number(_, _)
            | Value::SingleQuotedString(_)
            | Value::DollarQuotedString(_)
            | Value::EscapedStringLiteral(_)
            | Value::HexStringLiteral(_)
            | Value::DoubleQuotedString(_)
            | Value::Boolean(_)
            | Value::Null => PLANNED,
            // Whether it has a value is known when the statement is executed.
            Value::Placeholder(name) if parameters::number(name).is_some() => {
                if self.is_query() {
                    PLANNED
                } else {
                    let message = format!("{name} is a parameter, and a definition cannot have parameters");
                    self.words(*span, &[], message, "write the value into the statement")
                }
            }
            Value::Placeholder(name) => {
                let message = format!("{name} is a placeholder without a value");
                self.words(*span, &[], message, "write the value into the statement")
            }
            Value::TripleSingleQuotedString(_)
            | Value::TripleDoubleQuotedString(_)
            | Value::UnicodeStringLiteral(_)
            | Value::SingleQuotedByteStringLiteral(_)
            | Value::DoubleQuotedByteStringLiteral(_)
            | Value::TripleSingleQuotedByteStringLiteral(_)
            | Value::TripleDoubleQuotedByteStringLiteral(_)
            | Value::SingleQuotedRawStringLiteral(_)
            | Value::DoubleQuotedRawStringLiteral(_)
            | Value::TripleSingleQuotedRawStringLiteral(_)
            | Value::TripleDoubleQuotedRawStringLiteral(_)
            | Value::NationalStringLiteral(_)
            | Value::QuoteDelimitedStringLiteral(_)
            | Value::NationalQuoteDelimitedStringLiteral(_) => {
                let message = "this way of quoting a string is not part of the language";
                self.words(
                    *span,
                    &[],
                    message.into(),
                    "write it in single quotes, with '' for a quote inside",
                )
            }
        }
    }
}
