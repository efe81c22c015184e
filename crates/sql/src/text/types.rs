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

/// Replaces the types of casts, as the planner shows them in plans, by those of SQL: `CAST(n AS Int32)` is `CAST(n AS INT)`.
pub(crate) fn sql_casts(text: &str) -> String {
    const AS: &str = " AS ";
    let mut named = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(AS) {
        let (before, from) = rest.split_at(at + AS.len());
        named.push_str(before);
        let word = from.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(from.len());
        let length = word + parentheses(&from[word..]);
        let is_end = from[length..].starts_with(')');
        match data_type(&from[..length]).filter(|_| is_end) {
            Some(name) => named.push_str(&name),
            None => named.push_str(&from[..length]),
        }
        rest = &from[length..];
    }
    named + rest
}

fn data_type(text: &str) -> Option<String> {
    if let Some(entries) = text.strip_prefix("Map(") {
        return map_type(entries);
    }
    // Half a REAL, which no column has.
    if text == "Float16" {
        return Some("REAL".to_owned());
    }
    // In the signature of a function.
    if text.starts_with("Numeric(") {
        return Some("a number".to_owned());
    }
    let begins = text.starts_with(char::is_uppercase) && text.contains(char::is_lowercase);
    begins.then(|| text.parse::<DataType>().ok().map(|data_type| sql_type(&data_type)))?
}

/// A map from its entries, which the planner writes as a struct: `"entries": non-null Struct("key": non-null Utf8, "value": Int64), unsorted)`.
fn map_type(entries: &str) -> Option<String> {
    let fields = &entries[entries.find("Struct(")? + "Struct".len()..];
    let fields = fields[..parentheses(fields)].strip_prefix('(')?.strip_suffix(')')?;
    let (key, value) = fields.strip_prefix("\"key\": ")?.split_once(", \"value\": ")?;
    let named = |text: &str| sql_types(text.strip_prefix("non-null ").unwrap_or(text));
    Some(format!("MAP<{}, {}>", named(key), named(value)))
}

/// A word that names a type, or several, in the signature of a function.
fn alone(word: &str) -> Option<String> {
    Some(match word {
        "Any" => "a value of any type".to_owned(),
        "String" => "VARCHAR".to_owned(),
        "Decimal128" | "Decimal" => "DECIMAL".to_owned(),
        "Timestamp" => "TIMESTAMP".to_owned(),
        "Integer" => "BIGINT".to_owned(),
        "Float" => "DOUBLE".to_owned(),
        "Float16" => "REAL".to_owned(),
        "Duration" => "INTERVAL".to_owned(),
        "Interval" => "INTERVAL".to_owned(),
        "Struct" => "STRUCT".to_owned(),
        "Map" => "MAP".to_owned(),
        "List" | "LargeList" | "FixedSizeList" => "a list".to_owned(),
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
    fn casts_of_plans_have_types_of_sql() {
        for (written, expected) in [
            ("CAST(t.n AS Int32) AS Int32, x", "CAST(t.n AS INT) AS Int32, x"),
            (
                "TRY_CAST(CAST(s AS Utf8) AS Decimal128(10, 2)) > 1",
                "TRY_CAST(CAST(s AS VARCHAR) AS DECIMAL(10, 2)) > 1",
            ),
            ("CAST(l AS List(Timestamp(ns)))", "CAST(l AS TIMESTAMP[])"),
            ("a AS b", "a AS b"),
        ] {
            assert_eq!(sql_casts(written), expected, "{written}");
        }
    }

    #[test]
    fn types_are_those_that_can_be_declared() {
        for (written, expected) in [
            ("Int32 + Utf8", "INT + VARCHAR"),
            ("a Boolean, or List(Int64)", "a BOOLEAN, or BIGINT[]"),
            ("List(Struct(\"x\": Int32, \"A b\": List(Utf8)))", "STRUCT<x INT, \"A b\" VARCHAR[]>[]"),
            ("Timestamp(µs) - Timestamp(ns, \"UTC\")", "TIMESTAMP(6) - TIMESTAMP WITH TIME ZONE"),
            ("Interval(MonthDayNano) * Float32", "INTERVAL * REAL"),
            ("Decimal128(10, 2)", "DECIMAL(10, 2)"),
            (
                "Map(\"entries\": non-null Struct(\"key\": non-null Utf8, \"value\": List(Int64)), unsorted) or Map",
                "MAP<VARCHAR, BIGINT[]> or MAP",
            ),
            ("avg(Decimal), avg(Duration)", "avg(DECIMAL), avg(INTERVAL)"),
            ("Binary, Date32, Time64(ns), Null", "BYTEA, DATE, TIME, NULL"),
            ("my_Int64 and Fields (x) of INT", "my_Int64 and Fields (x) of INT"),
        ] {
            assert_eq!(sql_types(written), expected, "{written}");
        }
    }
}
