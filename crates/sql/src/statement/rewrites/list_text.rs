//! Lists as PostgreSQL writes them: `{1,NULL,"a, b"}`.

/// The items of a list; `None` if the text is none, or has lists in it.
///
/// ```
/// use tidemill_sql::list_items;
/// let items = list_items(r#"{1, null, "null", "a\"b,"}"#).unwrap();
/// let items: Vec<Option<&str>> = items.iter().map(Option::as_deref).collect();
/// assert_eq!(items, [Some("1"), None, Some("null"), Some("a\"b,")]);
/// assert_eq!(list_items("{{1},{2}}"), None);
/// ```
pub fn list_items(text: &str) -> Option<Vec<Option<String>>> {
    let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    if rest.trim().is_empty() {
        return Some(items);
    }
    loop {
        let (item, after) = item(rest.trim_start())?;
        items.push(item);
        let after = after.trim_start();
        if after.is_empty() {
            return Some(items);
        }
        rest = after.strip_prefix(',')?;
    }
}

/// The item at the beginning, and what follows it.
fn item(text: &str) -> Option<(Option<String>, &str)> {
    let is_quoted = text.starts_with('"');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(is_quoted));
    let end = loop {
        match characters.next() {
            None if is_quoted => return None,
            None => break text.len(),
            Some((_, '\\')) => value.push(characters.next()?.1),
            Some((at, '"')) if is_quoted => break at + 1,
            Some((at, ',')) if !is_quoted => break at,
            Some((_, '"' | '{' | '}')) if !is_quoted => return None,
            Some((_, other)) => value.push(other),
        }
    };
    let value = if is_quoted { value } else { value.trim_end().to_owned() };
    let is_null = !is_quoted && value.eq_ignore_ascii_case("null");
    if value.is_empty() && !is_quoted {
        return None;
    }
    Some(((!is_null).then_some(value), &text[end..]))
}

/// A list as text.
///
/// ```
/// use tidemill_sql::{list_items, list_text};
/// let items = [Some("1".to_owned()), None, Some("null".to_owned()), Some("a\\b\", ".to_owned())];
/// assert_eq!(list_items(&list_text(&items)).unwrap(), items);
/// ```
pub fn list_text(items: &[Option<String>]) -> String {
    let quoted = |item: &String| format!("\"{}\"", item.replace('\\', "\\\\").replace('"', "\\\""));
    let items = items.iter().map(|item| item.as_ref().map_or("NULL".to_owned(), quoted));
    format!("{{{}}}", items.collect::<Vec<_>>().join(","))
}
