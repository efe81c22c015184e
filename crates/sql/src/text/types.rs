//! Types as SQL names them, in the sentences of the planner.

use datafusion::arrow::datatypes::DataType;
use tidemill_connect::formats::sql_type;

/// Replaces the names of types, where they occur as words, by those of SQL: `List(Int64)` is `BIGINT[]`.
pub(crate) fn sql_types(text: &str) -> String {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut named = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        named.push_str(&rest[..start]);
        let word = &rest[start..];
        let length = word.find(|letter| !is_part(letter)).unwrap_or(word.len());
        // A type of other types has them in parentheses.
        let whole = length + parentheses(&word[length..]);
        rest = match (data_type(&word[..whole]), alone(&word[..length])) {
            (Some(name), _) => {
                named.push_str(&name);
                &word[whole..]
            }
            (None, Some(name)) => {
                named.push_str(&name);
                &word[length..]
            }
            (None, None) => {
                named.push_str(&word[..length]);
                &word[length..]
            }
        };
    }
    named + rest
}

fn data_type(text: &str) -> Option<String> {
    // In the signature of a function.
    if text.starts_with("Numeric(") {
        return Some("a number".to_owned());
    }
    let begins = text.starts_with(char::is_uppercase) && text.contains(char::is_lowercase);
    begins.then(|| text.parse::<DataType>().ok().map(|data_type| sql_type(&data_type)))?
}

/// A word that names a type, or several, in the signature of a function.
fn alone(word: &str) -> Option<String> {
    Some(match word {
        "Any" => "a value of any type".to_owned(),
        "String" => "VARCHAR".to_owned(),
        "Decimal128" => "DECIMAL".to_owned(),
        "Timestamp" => "TIMESTAMP".to_owned(),
        word => return data_type(word),
    })
}

/// The length of parentheses at the beginning, with what is in them.
fn parentheses(text: &str) -> usize {
    if !text.starts_with('(') {
        return 0;
    }
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 1 => return at + 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_that_can_be_declared() {
        for (written, expected) in [
            ("Int32 + Utf8", "INT + VARCHAR"),
            ("a Boolean, or List(Int64)", "a BOOLEAN, or BIGINT[]"),
            ("List(Struct(\"x\": Int32, \"A b\": List(Utf8)))", "STRUCT<x INT, \"A b\" VARCHAR[]>[]"),
            ("Timestamp(µs) - Timestamp(ns, \"UTC\")", "TIMESTAMP(6) - TIMESTAMP WITH TIME ZONE"),
            ("Interval(MonthDayNano) * Float32", "INTERVAL * REAL"),
            ("Decimal128(10, 2)", "DECIMAL(10, 2)"),
            ("Binary, Date32, Time64(ns), Null", "BYTEA, DATE, TIME, NULL"),
            ("my_Int64 and Fields (x) of INT", "my_Int64 and Fields (x) of INT"),
        ] {
            assert_eq!(sql_types(written), expected, "{written}");
        }
    }
}
