//! A slow parser of line protocol: character by character, each point into a map.

use std::collections::BTreeMap;

/// A value as text, with its kind before it, so that it can be compared.
pub type Point = BTreeMap<String, String>;

/// Reads a line; `None`: nothing in it. An error has no reason, for only whether there is one is compared.
#[allow(clippy::result_unit_err, reason = "reasons are not compared")]
pub fn parse(line: &str) -> Result<Option<Point>, ()> {
    let line = line.strip_suffix('\r').unwrap_or(line).trim_start_matches(' ');
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let mut rest = line;
    let mut point = Point::new();
    let measurement = take(&mut rest, ", ", ", ");
    if measurement.is_empty() {
        return Err(());
    }
    point.insert("measurement".into(), format!("text {measurement}"));
    while rest.starts_with(',') {
        rest = &rest[1..];
        let name = take(&mut rest, "=, ", "=, ");
        rest = rest.strip_prefix('=').filter(|_| !name.is_empty()).ok_or(())?;
        let value = take(&mut rest, ", =", ", =");
        if value.is_empty() || rest.starts_with('=') {
            return Err(());
        }
        set(&mut point, name, format!("text {value}"))?;
    }
    rest = rest.trim_start_matches(' ');
    loop {
        let name = take(&mut rest, "=, ", "=, ");
        rest = rest.strip_prefix('=').filter(|_| !name.is_empty()).ok_or(())?;
        let value = match rest.strip_prefix('"') {
            Some(inner) => {
                rest = inner;
                let text = take(&mut rest, "\"", "\"\\");
                rest = rest.strip_prefix('"').ok_or(())?;
                format!("text {text}")
            }
            None => {
                let length = rest.find([',', ' ']).unwrap_or(rest.len());
                let (value, after) = rest.split_at(length);
                rest = after;
                scalar(value).ok_or(())?
            }
        };
        set(&mut point, name, value)?;
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.is_empty() || rest.starts_with(' ') => break,
            None => return Err(()),
        }
    }
    let time = rest.trim_matches(' ');
    if !time.is_empty() {
        let digits = time.strip_prefix('-').unwrap_or(time);
        let value = time.parse::<i64>().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
        point.insert("time".into(), format!("time {}", value.ok_or(())?));
    }
    Ok(Some(point))
}

fn set(point: &mut Point, name: String, value: String) -> Result<(), ()> {
    match column(&name) {
        Some(name) => point.insert(name, value).map_or(Ok(()), |_| Err(())),
        None => Ok(()),
    }
}

/// The column of a name, in another case if there is none like it. Time and measurement are the point's own columns,
/// not those of tags and fields.
fn column(name: &str) -> Option<String> {
    let schema = super::columns::schema();
    let names = || {
        schema
            .fields()
            .iter()
            .map(|field| field.name())
            .filter(|name| !["time", "measurement"].contains(&name.as_str()))
    };
    let exact = names().find(|candidate| *candidate == name);
    exact.or_else(|| names().find(|candidate| candidate.eq_ignore_ascii_case(name))).cloned()
}

/// What stands before the first of `stops` that has no backslash, without the backslashes.
fn take(rest: &mut &str, stops: &str, escaped: &str) -> String {
    let mut text = String::new();
    let mut characters = rest.char_indices();
    loop {
        match characters.next() {
            None => {
                *rest = "";
                return text;
            }
            Some((at, character)) if stops.contains(character) => {
                *rest = &rest[at..];
                return text;
            }
            Some((_, '\\')) => match characters.next() {
                Some((_, next)) if escaped.contains(next) => text.push(next),
                Some((_, next)) => {
                    text.push('\\');
                    // The one after may itself be a backslash before something.
                    if next == '\\' {
                        characters = rest[rest.len() - characters.as_str().len() - 1..].char_indices();
                        let offset = rest.len() - characters.as_str().len();
                        *rest = &rest[offset..];
                        characters = rest.char_indices();
                        continue;
                    }
                    text.push(next);
                }
                None => text.push('\\'),
            },
            Some((_, character)) => text.push(character),
        }
    }
}

fn scalar(text: &str) -> Option<String> {
    let is_of = |allowed: &str, text: &str| text.chars().all(|character| allowed.contains(character));
    match text {
        "t" | "T" | "true" | "True" | "TRUE" => return Some("boolean true".into()),
        "f" | "F" | "false" | "False" | "FALSE" => return Some("boolean false".into()),
        _ => {}
    }
    if text.starts_with('+') {
        return None;
    }
    if let Some(digits) = text.strip_suffix('i') {
        return digits.parse::<i64>().ok().map(|value| format!("integer {value}"));
    }
    if let Some(digits) = text.strip_suffix('u') {
        let value = digits.parse::<u64>().ok().filter(|_| !digits.starts_with('+'));
        return value.map(|value| format!("unsigned {value}"));
    }
    if let Some(whole) = text.parse::<i64>().ok().filter(|whole| *whole != 0 || !text.starts_with('-')) {
        return Some(format!("whole {whole}"));
    }
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && is_of("0123456789.eE+-", text));
    value.map(|value| format!("float {value}"))
}
