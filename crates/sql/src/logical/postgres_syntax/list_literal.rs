//! Lists that are written as PostgreSQL writes them: `'{1,NULL,"a, b"}'::text[]`, `'{{1,2},{3,4}}'::int[]`.

use datafusion::common::{Result, plan_datafusion_err};
use datafusion::sql::sqlparser::ast::{Expr, Value};

use super::syntax::array;

/// How deep lists may be in lists, as in PostgreSQL.
const DEPTH_MAX: usize = 6;

/// The list that a text is, with a text for each item, and how deep its lists are.
pub(crate) fn list(text: &str) -> Result<(Expr, usize)> {
    let read = read(text.trim(), DEPTH_MAX);
    let whole = read.and_then(|(list, rest)| rest.trim().is_empty().then_some(list));
    let whole = whole.map(|list| {
        let depth = depth(&list);
        (list, depth)
    });
    whole.ok_or_else(|| {
        plan_datafusion_err!(
            "'{text}' is not a list: write '{{1,2}}', with double quotes around items that have commas, or ARRAY[1, 2]"
        )
    })
}

fn depth(list: &Expr) -> usize {
    match list {
        Expr::Array(array) => 1 + array.elem.first().map_or(0, depth),
        _ => 0,
    }
}

/// The list at the beginning, and what follows it.
fn read(text: &str, depth: usize) -> Option<(Expr, &str)> {
    let depth = depth.checked_sub(1)?;
    let mut rest = text.strip_prefix('{')?.trim_start();
    let mut items = Vec::new();
    if let Some(behind) = rest.strip_prefix('}') {
        return Some((array(items), behind));
    }
    loop {
        let (item, behind) = if rest.starts_with('{') { read(rest, depth)? } else { item(rest)? };
        items.push(item);
        let behind = behind.trim_start();
        if let Some(behind) = behind.strip_prefix('}') {
            return Some((array(items), behind));
        }
        rest = behind.strip_prefix(',')?.trim_start();
    }
}

/// The item at the beginning, and what follows it.
fn item(text: &str) -> Option<(Expr, &str)> {
    let is_quoted = text.starts_with('"');
    let mut value = String::new();
    let mut letters = text.char_indices().skip(usize::from(is_quoted));
    let end = loop {
        match letters.next()? {
            (_, '\\') => value.push(letters.next()?.1),
            (at, '"') if is_quoted => break at + 1,
            (at, ',' | '}') if !is_quoted => break at,
            (_, '"' | '{') if !is_quoted => return None,
            (_, other) => value.push(other),
        }
    };
    let value = if is_quoted { value } else { value.trim_end().to_owned() };
    if !is_quoted && value.is_empty() {
        return None;
    }
    let is_null = !is_quoted && value.eq_ignore_ascii_case("null");
    let value = if is_null { Value::Null } else { Value::SingleQuotedString(value) };
    Some((Expr::value(value), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_those_that_postgresql_reads() {
        for (text, expected) in [
            ("{}", "ARRAY[]"),
            (" { a , b } ", "ARRAY['a', 'b']"),
            ("{1,NULL,\"NULL\"}", "ARRAY['1', NULL, 'NULL']"),
            (r#"{"a,\"b\\",c\,d}"#, r#"ARRAY['a,"b\', 'c,d']"#),
            ("{{1,2},{3,4}}", "ARRAY[ARRAY['1', '2'], ARRAY['3', '4']]"),
        ] {
            assert_eq!(list(text).unwrap().0.to_string(), expected, "{text}");
        }
        for wrong in ["", "a", "{a", "{a}b", "{a,}", "{,a}", "{\"a}", "{{{{{{{1}}}}}}}"] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
    }
}
