//! `parse_ident`: a name with its schema, taken apart.

use std::sync::Arc;

use tidemill_engine::arrow::array::ArrayRef;
use tidemill_engine::arrow::array::builder::{ListBuilder, StringBuilder};
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::schema::{DataType, Field};
use tidemill_sql::Planner;

/// Registers it.
pub(super) fn register(planner: &mut Planner) {
    let lists = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    planner.register_function("parse_ident", vec![DataType::Utf8], lists, |arguments| {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for name in arguments[0].as_string::<i32>() {
            let parts = name.and_then(parts);
            parts.iter().flatten().for_each(|part| lists.values().append_value(part));
            lists.append(parts.is_some());
        }
        Ok(Arc::new(lists.finish()) as ArrayRef)
    });
}

/// Returns the last part of a name, which is that of the object; `None` if it is not a name.
pub(super) fn last_part(name: &str) -> Option<String> {
    parts(name)?.pop()
}

/// The parts of a name: what is in quotes as it is, anything else in small letters; `None` if it is not a name.
fn parts(name: &str) -> Option<Vec<String>> {
    let (mut parts, mut rest) = (Vec::new(), name.trim());
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_part(quoted)?,
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].trim().to_lowercase(), &rest[end..])
            }
        };
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        match after.trim_start() {
            "" => return Some(parts),
            after => rest = after.strip_prefix('.')?.trim_start(),
        }
    }
}

/// The text up to the quote that ends it, and what is behind that quote.
fn quoted_part(text: &str) -> Option<(String, &str)> {
    let (mut part, mut rest) = (String::new(), text);
    loop {
        let (before, after) = rest.split_once('"')?;
        part += before;
        match after.strip_prefix('"') {
            Some(after) => (part, rest) = (part + "\"", after),
            None => return Some((part, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        for (name, expected) in [
            ("prices", Some(vec!["prices"])),
            ("Public.Prices", Some(vec!["public", "prices"])),
            ("public . \"Dear.Ones\"", Some(vec!["public", "Dear.Ones"])),
            ("\"a\"\"b\"", Some(vec!["a\"b"])),
            ("\"a", None),
            ("a.", None),
            ("", None),
            ("\"a\"b", None),
        ] {
            let parts = parts(name);
            let parts = parts.as_ref().map(|parts| parts.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(parts, expected, "{name}");
        }
    }
}
