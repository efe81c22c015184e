//! A JSON value that is looked into: its members, items and parts, and its text as PostgreSQL's JSONB writes it.

use std::fmt::Write as _;

use super::scanner::{DEPTH_MAX, Malformed, Scanner, TOO_DEEP, unescape};

/// Numbers with more zeros than these between their digits and the point have an exponent: what is read must not become much longer.
const ZEROS_MAX: i64 = 100;

/// A value. Numbers keep their digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A number as its digits, without an exponent unless more than 100 zeros would stand between them and the point.
    Number(String),
    /// A text, without escapes.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object: its keys in the order of their lengths, those of one length by their bytes; each is there once.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads a value. Of members with the same key, the last one counts.
    ///
    /// # Errors
    /// If the text is not JSON, with the reason and the place; lists and objects may be nested 128 deep.
    ///
    /// ```
    /// use tidemill_connect::formats::Json;
    /// let value = Json::parse(r#"{"size": 1e2, "a": [1.50, "x", null], "size": 2}"#).unwrap();
    /// assert_eq!(value.to_string(), r#"{"a": [1.50, "x", null], "size": 2}"#);
    /// assert_eq!(Json::parse("[1,").unwrap_err(), "not valid JSON: a value is missing at byte 4");
    /// ```
    pub fn parse(text: &str) -> Result<Json, String> {
        let mut scanner = Scanner::new(text);
        let value = Json::read(&mut scanner, DEPTH_MAX).map_err(|malformed| malformed.to_string())?;
        if scanner.is_at_end() {
            Ok(value)
        } else {
            Err("not valid JSON: something follows the value".to_owned())
        }
    }

    /// Reads a value in which lists and objects may be nested this deep.
    fn read(scanner: &mut Scanner<'_>, depth_max: u32) -> Result<Json, Malformed> {
        let within = |scanner: &mut Scanner<'_>| match depth_max.checked_sub(1) {
            Some(depth_max) => Json::read(scanner, depth_max),
            None => Err(scanner.malformed(TOO_DEEP)),
        };
        match scanner.peek() {
            Some(b'{') => {
                let mut members = Vec::new();
                let mut is_more = scanner.enter(b'{', b'}')?;
                while is_more {
                    let written = scanner.key()?;
                    let mut key = String::new();
                    unescape(written, &mut key)?;
                    members.push((key, within(scanner)?));
                    is_more = scanner.continues(b'}')?;
                }
                Ok(Json::object(members))
            }
            Some(b'[') => {
                let mut items = Vec::new();
                let mut is_more = scanner.enter(b'[', b']')?;
                while is_more {
                    items.push(within(scanner)?);
                    is_more = scanner.continues(b']')?;
                }
                Ok(Json::List(items))
            }
            Some(b'"') => {
                let mut text = String::new();
                unescape(scanner.string()?, &mut text)?;
                Ok(Json::Text(text))
            }
            _ => Ok(match scanner.word()? {
                "null" => Json::Null,
                "true" => Json::Boolean(true),
                "false" => Json::Boolean(false),
                number => Json::Number(plain_number(number)),
            }),
        }
    }

    /// Returns the object of some members; of those with the same key, the last one counts.
    pub fn object(mut members: Vec<(String, Json)>) -> Json {
        // The order of equal keys stays, and the last of them is kept.
        members.sort_by(|(one, _), (other, _)| (one.len(), one).cmp(&(other.len(), other)));
        let mut unique: Vec<(String, Json)> = Vec::with_capacity(members.len());
        for member in members {
            match unique.last_mut() {
                Some(last) if last.0 == member.0 => *last = member,
                _ => unique.push(member),
            }
        }
        Json::Object(unique)
    }

    /// Returns what kind of value it is, as PostgreSQL says it: `object`, `array`, `string`, `number`, `boolean` or `null`.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Boolean(_) => "boolean",
            Json::Number(_) => "number",
            Json::Text(_) => "string",
            Json::List(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// Returns the value of a key; `None` if it is not an object, or has no such key.
    pub fn member(&self, key: &str) -> Option<&Json> {
        let Json::Object(members) = self else { return None };
        members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns an item of a list, from 0; negative numbers count from the end. `None` if it is not a list, or has no such item.
    pub fn item(&self, index: i64) -> Option<&Json> {
        let Json::List(items) = self else { return None };
        let index = if index < 0 { index.checked_add(i64::try_from(items.len()).ok()?)? } else { index };
        items.get(usize::try_from(index).ok()?)
    }

    /// Returns what a path of keys and numbers of items leads to.
    ///
    /// ```
    /// use tidemill_connect::formats::Json;
    /// let value = Json::parse(r#"{"a": [1, {"b": true}]}"#).unwrap();
    /// assert_eq!(value.at(["a", "-1", "b"]), Some(&Json::Boolean(true)));
    /// ```
    pub fn at<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<&Json> {
        path.into_iter().try_fold(self, |value, step| match value {
            Json::List(_) => value.item(step.trim().parse().ok()?),
            other => other.member(step),
        })
    }

    /// Returns the value as a text without quotes; `None` if it is `null`.
    pub fn as_text(&self) -> Option<String> {
        match self {
            Json::Null => None,
            Json::Text(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// Returns whether another value is contained in this one: an object has all its members, a list has an item for each of its items, and
    /// others are equal. A list also contains a value that is one of its items.
    pub fn contains(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::List(items), Json::Null | Json::Boolean(_) | Json::Number(_) | Json::Text(_)) => {
                items.iter().any(|item| item.contains_within(other))
            }
            _ => self.contains_within(other),
        }
    }

    /// As [`Json::contains`], but a list within a value does not contain its items.
    fn contains_within(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Object(_), Json::Object(wanted)) => wanted
                .iter()
                .all(|(key, wanted)| self.member(key).is_some_and(|value| value.contains_within(wanted))),
            (Json::List(items), Json::List(wanted)) => {
                wanted.iter().all(|wanted| items.iter().any(|item| item.contains_within(wanted)))
            }
            (Json::Number(one), Json::Number(other)) => shortest(one) == shortest(other),
            (one, other) => one == other,
        }
    }

    /// Returns the value without members that are `null`, at any depth.
    #[must_use]
    pub fn without_nulls(self) -> Json {
        match self {
            Json::Object(members) => {
                let members = members.into_iter().filter(|(_, value)| *value != Json::Null);
                Json::Object(members.map(|(key, value)| (key, value.without_nulls())).collect())
            }
            Json::List(items) => Json::List(items.into_iter().map(Json::without_nulls).collect()),
            other => other,
        }
    }

    /// Returns the value with each member and item on a line of its own.
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, Some(0));
        text
    }

    /// Writes the value; on several lines if it is so many levels deep.
    fn write(&self, text: &mut String, depth: Option<usize>) {
        match self {
            Json::Null => text.push_str("null"),
            Json::Boolean(value) => text.push_str(if *value { "true" } else { "false" }),
            Json::Number(digits) => text.push_str(digits),
            Json::Text(value) => write_json_text(value, text),
            Json::List(items) => write_parts(['[', ']'], items, text, depth, |item, text, depth| {
                item.write(text, depth);
            }),
            Json::Object(members) => {
                write_parts(['{', '}'], members, text, depth, |(key, value), text, depth| {
                    write_json_text(key, text);
                    text.push_str(": ");
                    value.write(text, depth);
                })
            }
        }
    }
}

/// As PostgreSQL writes it: `{"a": [1, "x"]}`.
impl std::fmt::Display for Json {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write(&mut text, None);
        formatter.write_str(&text)
    }
}

fn write_parts<T>(
    [open, close]: [char; 2],
    parts: &[T],
    text: &mut String,
    depth: Option<usize>,
    write: impl Fn(&T, &mut String, Option<usize>),
) {
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.push_str(&" ".repeat(4 * depth));
    };
    text.push(open);
    for (number, part) in parts.iter().enumerate() {
        match (number, depth) {
            (0, _) => {}
            (_, None) => text.push_str(", "),
            (_, Some(_)) => text.push(','),
        }
        if let Some(depth) = depth {
            line(text, depth + 1);
        }
        write(part, text, depth.map(|depth| depth + 1));
    }
    if let Some(depth) = depth {
        line(text, depth);
    }
    text.push(close);
}

/// Writes a text in quotes, as it stands in JSON.
///
/// ```
/// let mut text = String::new();
/// tidemill_connect::formats::write_json_text("a\"\n\u{1}é", &mut text);
/// assert_eq!(text, "\"a\\\"\\n\\u0001é\"");
/// ```
pub fn write_json_text(value: &str, text: &mut String) {
    text.push('"');
    for letter in value.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            control if control < ' ' => {
                // Writing into a string cannot fail.
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

/// A number without zeros in front, and without an exponent unless it would have many zeros. Equal numbers have the same text, but for zeros at
/// the end of their fractions.
fn plain_number(number: &str) -> String {
    let (sign, unsigned) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // How many of the digits are in front of the point.
    let exponent = exponent.parse::<i64>().ok().filter(|exponent| exponent.unsigned_abs() < 1 << 32);
    let Some(point) = exponent.map(|exponent| exponent + whole.len() as i64) else {
        return number.to_owned();
    };
    let digits = format!("{whole}{fraction}");
    let is_some = |digit: char| digit != '0';
    let Some((first, last)) = digits.find(is_some).zip(digits.rfind(is_some)) else {
        let zeros = digits.len() as i64 - point;
        return if (1..=ZEROS_MAX).contains(&zeros) {
            format!("0.{}", "0".repeat(zeros as usize))
        } else {
            "0".to_owned()
        };
    };
    let zeros = (point - (last as i64 + 1)).max(first as i64 - point);
    if zeros > ZEROS_MAX {
        let (one, rest) = digits[first..=last].split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{one}{dot}{rest}e{}", point - first as i64 - 1);
    }
    let (whole, fraction) = if point <= 0 {
        (String::new(), format!("{}{digits}", "0".repeat(point.unsigned_abs() as usize)))
    } else {
        let point = point as usize;
        let padded = format!("{digits:0<point$}");
        (padded[..point].to_owned(), padded[point..].to_owned())
    };
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// The number without zeros at its end.
fn shortest(number: &str) -> &str {
    if number.contains('.') && !number.contains('e') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        Json::parse(json).unwrap().to_string()
    }

    #[test]
    fn numbers_are_written_as_postgresql_writes_them() {
        let written =
            ["1e2", "1.50", "15e-1", "1.5e1", "0.5e-3", "-0", "-0.0", "12345678901234567890", "-1E+2", "0e5"];
        let expected =
            ["100", "1.50", "1.5", "15", "0.0005", "0", "0.0", "12345678901234567890", "-100", "0"];
        assert_eq!(written.map(text), expected);
        let zeros = "0".repeat(100);
        assert_eq!(text("1e100"), format!("1{zeros}"));
        assert_eq!(text("-12e-101"), format!("-0.{}12", &zeros[1..]));
        // Beyond that, they are not written out, however they were given.
        assert_eq!(text("1e999999"), "1e999999");
        assert_eq!(["10e100", "1e101", "0.1E+102"].map(text), ["1e101"; 3]);
        assert_eq!(text(&format!("10{zeros}")), "1e101");
        assert_eq!(text("-125e-1000"), "-1.25e-998");
        assert_eq!(["0e-1000", "0e1000", "-0e7"].map(text), ["0"; 3]);
        assert_eq!(text("1e99999999999999999999"), "1e99999999999999999999");
    }

    #[test]
    fn values_contain_others_as_in_postgresql() {
        let contains =
            |one: &str, other: &str| Json::parse(one).unwrap().contains(&Json::parse(other).unwrap());
        assert!(contains(r#"{"a": {"b": 1, "c": 2}, "d": 3}"#, r#"{"a": {"b": 1.0}}"#));
        assert!(!contains("[1, 2, [1, 3]]", "[1, 3, 1]") && contains("[1, 2, 3]", "[3, 1, 1]"));
        assert!(contains(r#"["foo", "bar"]"#, r#""bar""#) && !contains(r#""bar""#, r#"["bar"]"#));
        assert!(!contains("[[1]]", "1") && !contains(r#"{"a": [1]}"#, r#"{"a": 1}"#));
        assert!(contains("[1]", "[]") && contains("{}", "{}") && !contains("[]", "{}"));
    }

    #[test]
    fn lists_are_read_from_both_ends_and_what_is_not_there_is_none() {
        let value = Json::parse(r#"{"a": [1, [2], "x"], "b": null}"#).unwrap();
        assert_eq!(value.at(["a", "-1"]).and_then(Json::as_text).as_deref(), Some("x"));
        assert_eq!(value.at(["a", "1", "0"]).map(Json::to_string).as_deref(), Some("2"));
        assert_eq!(value.at(["a", "3"]), None);
        assert_eq!(value.at(["a", "x"]), None);
        assert_eq!(value.at(["b"]), Some(&Json::Null));
        assert_eq!(value.at(["b"]).and_then(Json::as_text), None);
        assert_eq!(value.item(0), None);
        assert_eq!(value.item(i64::MIN), None);
    }

    #[test]
    fn what_is_not_one_value_is_refused() {
        assert!(Json::parse("1 2").is_err() && Json::parse("").is_err() && Json::parse("{\"a\" 1}").is_err());
        assert!(Json::parse(&"[".repeat(100_000)).is_err());
        assert!(Json::parse(&format!("{}1{}", "[".repeat(128), "]".repeat(128))).is_ok());
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Another reader finds the same in the text that is written as in the text that was read.
        #[test]
        fn a_value_is_not_changed(parts in proptest::collection::vec(proptest::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\\n\"", "\"\\u00e9\"", "1", "-1.5e-3", "true", "null", " ",
        ]), 0..12)) {
            let given = parts.concat();
            let judged = serde_json::from_str::<serde_json::Value>(&given);
            let read = Json::parse(&given);
            proptest::prop_assert_eq!(judged.is_ok(), read.is_ok());
            if let (Ok(judged), Ok(read)) = (judged, read) {
                let again: serde_json::Value = serde_json::from_str(&read.to_string()).unwrap();
                proptest::prop_assert_eq!(&again, &judged);
                let pretty: serde_json::Value = serde_json::from_str(&read.pretty()).unwrap();
                proptest::prop_assert_eq!(pretty, judged);
            }
        }
    }
}
