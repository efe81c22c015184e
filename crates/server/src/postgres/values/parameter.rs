//! Values of parameters, from what clients send.

use tidemill_sql::value_text::calendar::{date, time, timestamp};
use tidemill_sql::{Parameter, ParameterType, list_items, list_text};

use super::column::Kind;
use super::days::{DAYS_TO_2000, since_1970};
use super::numeric;

const PAIRS: [(ParameterType, Kind); 14] = [
    (ParameterType::Boolean, Kind::Bool),
    (ParameterType::SmallInt, Kind::Int2),
    (ParameterType::Integer, Kind::Int4),
    (ParameterType::BigInt, Kind::Int8),
    (ParameterType::Real, Kind::Float4),
    (ParameterType::Double, Kind::Float8),
    (ParameterType::Decimal, Kind::Numeric),
    (ParameterType::Text, Kind::Text),
    (ParameterType::Bytes, Kind::Bytea),
    (ParameterType::Date, Kind::Date),
    (ParameterType::Time, Kind::Time),
    (ParameterType::Timestamp, Kind::Timestamp),
    (ParameterType::TimestampWithTimeZone, Kind::TimestampTz),
    (ParameterType::Interval, Kind::Interval),
];

/// Lists of texts besides `text[]`: of `"char"`, `name`, `bpchar`, `varchar`.
const LISTS_OF_TEXTS: [u32; 4] = [1002, 1003, 1014, 1015];

/// The types of texts besides `text`: `"char"`, `name`, `json`, `bpchar`, `varchar`.
const TEXTS: [u32; 5] = [18, 19, 114, 1042, 1043];

/// What clients call the type of a parameter.
pub(crate) fn kind_of_parameter(kind: ParameterType) -> Kind {
    let scalar = |kind| PAIRS.iter().find(|(parameter, _)| *parameter == kind).map(|(_, kind)| kind);
    match kind {
        ParameterType::List(item) => scalar(*item).map_or(Kind::Text, Kind::Array),
        kind => scalar(kind).copied().unwrap_or(Kind::Text),
    }
}

/// The type of a parameter from its number; `None` if the client leaves it open. An error if there is no such type here.
pub(crate) fn type_of_parameter(oid: u32) -> Result<Option<ParameterType>, String> {
    match oid {
        // Unspecified, and the type `unknown`.
        0 | 705 => return Ok(None),
        oid if TEXTS.contains(&oid) => return Ok(Some(ParameterType::Text)),
        oid if LISTS_OF_TEXTS.contains(&oid) => return Ok(ParameterType::Text.list()),
        _ => {}
    }
    let known = PAIRS.iter().find(|(_, kind)| kind.oid() == oid).map(|(parameter, _)| *parameter);
    let list = || {
        let item = PAIRS.iter().find(|(_, kind)| Kind::Array(kind).oid() == oid);
        item.and_then(|(parameter, _)| parameter.list())
    };
    known.or_else(list).map(Some).ok_or_else(|| {
        format!("a parameter has type number {oid}, which this server does not know; pass it as text")
    })
}

/// A value as the client has sent it. The error says what is wrong with it.
pub(crate) fn parameter(
    kind: ParameterType,
    is_binary: bool,
    value: Option<&[u8]>,
) -> Result<Parameter, String> {
    let Some(value) = value else { return Ok(Parameter::null(kind)) };
    let text = if is_binary {
        from_binary(kind, value)
            .ok_or_else(|| format!("its {} bytes are not a binary {}", value.len(), name(kind)))
    } else {
        from_text(kind, value)
    }?;
    Ok(Parameter { kind, value: Some(text) })
}

fn name(kind: ParameterType) -> String {
    kind_of_parameter(kind).full_name()
}

fn from_text(kind: ParameterType, value: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(value).map_err(|_| "a parameter is not UTF-8".to_owned())?;
    let wrong = || format!("'{text}' is not a valid {}", name(kind));
    let checked = |is_right: bool, text: &str| if is_right { Ok(text.to_owned()) } else { Err(wrong()) };
    let trimmed = text.trim();
    match kind {
        ParameterType::Text => checked(!text.contains('\0'), text),
        ParameterType::SmallInt => checked(trimmed.parse::<i16>().is_ok(), trimmed),
        ParameterType::Integer => checked(trimmed.parse::<i32>().is_ok(), trimmed),
        ParameterType::BigInt => checked(trimmed.parse::<i64>().is_ok(), trimmed),
        ParameterType::Real | ParameterType::Double => checked(trimmed.parse::<f64>().is_ok(), trimmed),
        ParameterType::Decimal => {
            let plain = numeric::without_exponent(trimmed);
            checked(plain.is_some(), plain.as_deref().unwrap_or_default())
        }
        ParameterType::Boolean => {
            let lower = trimmed.to_ascii_lowercase();
            match lower.as_str() {
                "t" | "true" | "y" | "yes" | "on" | "1" => Ok("true".to_owned()),
                "f" | "false" | "n" | "no" | "off" | "0" => Ok("false".to_owned()),
                _ => Err(wrong()),
            }
        }
        ParameterType::Bytes => {
            let digits =
                text.strip_prefix("\\x").ok_or_else(|| format!("{}; write it as \\x00ff", wrong()))?;
            checked(digits.len() % 2 == 0 && digits.chars().all(|char| char.is_ascii_hexdigit()), digits)
        }
        // Whether these are right is known when the statement is planned. PostgreSQL ignores a time zone where there is none.
        ParameterType::Date | ParameterType::Timestamp => Ok(without_zone(trimmed).to_owned()),
        ParameterType::Time | ParameterType::TimestampWithTimeZone => Ok(trimmed.to_owned()),
        // PostgreSQL writes a sign wherever one changes.
        ParameterType::Interval => Ok(trimmed.replace('+', "")),
        ParameterType::List(item) => {
            let items = list_items(trimmed).ok_or_else(wrong)?;
            let item = |text: Option<String>| text.map(|text| from_text(*item, text.as_bytes())).transpose();
            Ok(list_text(&items.into_iter().map(item).collect::<Result<Vec<_>, _>>()?))
        }
    }
}

/// A date, or a date and a time, without the distance from UTC at its end: `2026-11-22 +01`, `2026-11-22 17:05:00+01:00`.
fn without_zone(text: &str) -> &str {
    let Some((date, rest)) = text.split_at_checked("2026-11-22".len()) else { return text };
    match rest.rfind(['+', '-']) {
        Some(sign) if rest[sign + 1..].chars().all(|char| char.is_ascii_digit() || char == ':') => {
            text[..date.len() + sign].trim_end()
        }
        _ => text,
    }
}

fn from_binary(kind: ParameterType, value: &[u8]) -> Option<String> {
    let i32_at = |value: &[u8]| Some(i32::from_be_bytes(value.try_into().ok()?));
    let i64_at = |value: &[u8]| Some(i64::from_be_bytes(value.try_into().ok()?));
    Some(match kind {
        ParameterType::Boolean => match value {
            [0] => "false".to_owned(),
            [_] => "true".to_owned(),
            _ => return None,
        },
        ParameterType::SmallInt => i16::from_be_bytes(value.try_into().ok()?).to_string(),
        ParameterType::Integer => i32_at(value)?.to_string(),
        ParameterType::BigInt => i64_at(value)?.to_string(),
        ParameterType::Real => float(f32::from_be_bytes(value.try_into().ok()?).into()),
        ParameterType::Double => float(f64::from_be_bytes(value.try_into().ok()?)),
        ParameterType::Decimal => numeric::read(value).filter(|text| !text.ends_with(['N', 'y']))?,
        ParameterType::Text => {
            std::str::from_utf8(value).ok().filter(|text| !text.contains('\0'))?.to_owned()
        }
        ParameterType::Bytes => value.iter().map(|byte| format!("{byte:02x}")).collect(),
        ParameterType::Date => {
            let (date, is_before) = date(i64::from(i32_at(value)?) + DAYS_TO_2000);
            if is_before { return None } else { date }
        }
        ParameterType::Time => time(i64_at(value).filter(|micros| (0..86_400_000_000).contains(micros))?, 0),
        ParameterType::Timestamp | ParameterType::TimestampWithTimeZone => {
            let is_with_zone = kind == ParameterType::TimestampWithTimeZone;
            let text = timestamp(since_1970(i64_at(value)?), 0, if is_with_zone { "+00" } else { "" });
            if text.ends_with("BC") { return None } else { text }
        }
        ParameterType::Interval => {
            let (micros, rest) = value.split_at_checked(8)?;
            let (days, months) = rest.split_at_checked(4)?;
            let (days, months, micros) = (i32_at(days)?, i32_at(months)?, i64_at(micros)?);
            let sign = if micros < 0 { "-" } else { "" };
            let (seconds, fraction) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
            format!("{months} months {days} days {sign}{seconds}.{fraction:06} seconds")
        }
        ParameterType::List(item) => list_text(&binary_items(*item, value)?),
    })
}

/// The items of a list of at most one dimension.
fn binary_items(item: ParameterType, value: &[u8]) -> Option<Vec<Option<String>>> {
    let mut rest = value;
    let mut next = || {
        let (number, after) = rest.split_first_chunk()?;
        rest = after;
        Some(i32::from_be_bytes(*number))
    };
    let (dimensions, _has_nulls, oid) = (next()?, next()?, next()?);
    if type_of_parameter(oid.cast_unsigned()) != Ok(Some(item)) {
        return None;
    }
    if dimensions == 0 {
        return rest.is_empty().then(Vec::new);
    }
    let (count, _first) = (usize::try_from(next()?).ok()?, next()?);
    // Each item has four bytes at least.
    if dimensions != 1 || count > rest.len() / 4 {
        return None;
    }
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk()?;
        rest = after;
        items.push(match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) => {
                let (value, after) = rest.split_at_checked(length)?;
                rest = after;
                Some(from_binary(item, value)?)
            }
            Err(_) if *length == [0xff; 4] => None,
            Err(_) => return None,
        });
    }
    rest.is_empty().then_some(items)
}

fn float(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        value if value.is_infinite() => if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        value => format!("{value:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: ParameterType = ParameterType::List(&ParameterType::Integer);

    /// A binary list of integers, `count` of which are announced.
    fn list(dimensions: i32, oid: i32, count: i32, items: &[u8]) -> Vec<u8> {
        let head: Vec<u8> =
            [dimensions, 0, oid, count, 1].iter().flat_map(|number| number.to_be_bytes()).collect();
        [&head, items].concat()
    }

    #[test]
    fn lists_are_read_and_what_is_none_is_refused() {
        let items = [0, 0, 0, 4, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff];
        let read = |bytes: &[u8]| parameter(NUMBERS, true, Some(bytes)).map(|parameter| parameter.value);
        assert_eq!(read(&list(1, 23, 2, &items)), Ok(Some("{\"7\",NULL}".to_owned())));
        let wrong = [
            list(2, 23, 2, &items),
            list(-1, 23, 2, &items),
            list(1, 25, 2, &items),
            list(1, 23, 1, &items),
            list(1, 23, 3, &items),
            list(1, 23, -1, &items),
            list(1, 23, i32::MAX, &items),
            list(1, 23, 2, &items[..11]),
            list(1, 23, 1, &[0xff, 0xff, 0xff, 0xfe]),
            list(1, 23, 1, &[0x7f, 0xff, 0xff, 0xff]),
            list(1, 23, 1, &[0, 0, 0, 1, 0]),
        ];
        for bytes in wrong.iter().chain(&[Vec::new(), vec![0; 11]]) {
            assert!(read(bytes).unwrap_err().contains("bytes are not a binary integer[]"), "{bytes:?}");
        }
        let read = |text: &str| parameter(NUMBERS, false, Some(text.as_bytes())).map(|found| found.value);
        assert_eq!(read(" {1, null ,\"-2\"} "), Ok(Some("{\"1\",NULL,\"-2\"}".to_owned())));
        assert_eq!(read("{}"), Ok(Some("{}".to_owned())));
        for text in ["", "{", "1", "{1,}", "{,}", "{1 2}", "{{1}}", "{\"1}", "{1}}", "{x}", "{\"1\"2}", "{\\"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
