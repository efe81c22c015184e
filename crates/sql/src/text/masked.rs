//! Passwords that stand in a statement itself: shown as asterisks.

use std::borrow::Cow;

/// Names of options, and of parameters in connection strings, whose values are not shown.
const SECRET_NAMES: [&str; 7] =
    ["password", "passwd", "secret", "token", "secret_key", "api_key", "signature"];

/// The text with asterisks in place of passwords: between `//user:` and `@` in a URL, and behind `password =`, `token =`
/// and the like. It has as many characters as before, so that places in it stay the same. `${...}` is shown: it is a
/// name.
///
/// ```
/// let shown = tidemill_sql::masked("url = 'postgres://me:hunter2@db/traffic', token = 'abc'");
/// assert_eq!(shown, "url = 'postgres://me:*******@db/traffic', token = '***'");
/// ```
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    let mut hidden = vec![false; text.len()];
    for (start, _) in text.match_indices("://") {
        hide(&mut hidden, in_url(text, start + 3));
    }
    let lower = text.to_ascii_lowercase();
    for name in SECRET_NAMES {
        for (start, _) in lower.match_indices(name) {
            hide(&mut hidden, after_name(text, start + name.len()));
        }
    }
    for (start, name) in lower.match_indices("authorization:") {
        hide(&mut hidden, header(text, start + name.len()));
    }
    if !hidden.contains(&true) {
        return text.into();
    }
    text.char_indices().map(|(place, character)| if hidden[place] { '*' } else { character }).collect()
}

/// Hides a piece of the text, unless it is a name in place of a value.
fn hide(hidden: &mut [bool], found: Option<(usize, &str)>) {
    if let Some((start, piece)) =
        found.filter(|(_, piece)| !(piece.starts_with("${") && piece.ends_with('}')))
    {
        hidden[start..start + piece.len()].fill(true);
    }
}

/// The password of a URL whose authority begins here.
fn in_url(text: &str, start: usize) -> Option<(usize, &str)> {
    let rest = &text[start..];
    let end = rest.find(|end: char| end.is_whitespace() || matches!(end, '\'' | '"' | '/' | '?' | '#'));
    // A password with a slash that was not written as a code: it ends at the last @ of the text.
    let whole = rest.find(|end: char| end.is_whitespace() || matches!(end, '\'' | '"')).unwrap_or(rest.len());
    let authority = &rest[..end.unwrap_or(rest.len())];
    let authority = if authority.contains('@') { authority } else { &rest[..whole] };
    let (before, _) = authority.rsplit_once('@')?;
    let (user, password) = before.split_once(':')?;
    (!password.is_empty()).then_some((start + user.len() + 1, password))
}

/// The value behind `name =`, quoted or not.
fn after_name(text: &str, place: usize) -> Option<(usize, &str)> {
    let rest = text[place..].trim_start();
    let rest = rest.strip_prefix('=')?.trim_start();
    // Within a text in quotes, quotes are doubled: 'password=''a b'''.
    let quotes = rest.len() - rest.trim_start_matches(['\'', '\\']).len();
    let rest = &rest[quotes..];
    let ends = |end: char| match quotes {
        0 => end.is_whitespace() || matches!(end, '\'' | ',' | ')' | '&' | ';'),
        _ => end == '\'',
    };
    let value = &rest[..rest.find(ends).unwrap_or(rest.len())];
    (!value.is_empty()).then_some((text.len() - rest.len(), value))
}

/// The value of a header that begins here.
fn header(text: &str, place: usize) -> Option<(usize, &str)> {
    let value = text[place..].trim_start_matches(' ');
    let value = value[..value.find(['\'', '\n']).unwrap_or(value.len())].trim_end();
    // What kind of secret it is may be seen, and so may its name.
    let (kind, secret) = value.split_once(' ').unwrap_or(("", value));
    let secret = secret.trim_start();
    let start = text.len() - text[place..].trim_start_matches(' ').len() + value.len() - secret.len();
    (!secret.is_empty() && !kind.contains("${")).then_some((start, secret))
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn passwords_are_hidden_and_the_rest_stays() {
        for (text, shown) in [
            ("postgres://me:geheim@db:5432/traffic?x=1", "postgres://me:******@db:5432/traffic?x=1"),
            ("postgres://me:p/w@rd@db/traffic", "postgres://me:******@db/traffic"),
            ("'http://user:pässword@host/a@b', x", "'http://user:********@host/a@b', x"),
            // `80/a` may be a password with a slash, and rather too much is hidden than too little.
            (
                "postgres://me@db/traffic http://127.0.0.1:80/a@b",
                "postgres://me@db/traffic http://127.0.0.1:****@b",
            ),
            ("postgres://me:${PASSWORD}@db/t", "postgres://me:${PASSWORD}@db/t"),
            ("url = 'host=h password=abc dbname=d'", "url = 'host=h password=*** dbname=d'"),
            ("url = 'host=h password=''a b'' dbname=d'", "url = 'host=h password=''***'' dbname=d'"),
            ("TOKEN = 'abc', listen = 'x'", "TOKEN = '***', listen = 'x'"),
            ("token = '${file:/run/token}'", "token = '${file:/run/token}'"),
            ("s3_secret_key = 'abc'", "s3_secret_key = '***'"),
            ("'https://h/a?X-Amz-Signature=abc&x=1'", "'https://h/a?X-Amz-Signature=***&x=1'"),
            ("headers = 'Authorization: Bearer abc d', x", "headers = 'Authorization: Bearer *****', x"),
            ("'authorization:abc'", "'authorization:***'"),
            ("'Authorization: Bearer ${TOKEN}'", "'Authorization: Bearer ${TOKEN}'"),
            ("SELECT token FROM t WHERE tokens > 3", "SELECT token FROM t WHERE tokens > 3"),
            ("postgres://me:geheim@db/t?password=abc&x=1", "postgres://me:******@db/t?password=***&x=1"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }

    #[test]
    fn any_text_keeps_its_length() {
        for text in [
            "://:@",
            "://",
            "password=",
            "password='",
            "token = ",
            "://a:b",
            "\u{10ffff}://é:ü@",
            "token=''",
            "Authorization:",
            "authorization: é ",
        ] {
            assert_eq!(masked(text).chars().count(), text.chars().count(), "{text}");
        }
    }
}
