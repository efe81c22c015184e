//! The objects of a store whose keys begin alike, or match a pattern.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use tidemill_core::Cause;

use super::answer::{Content, checked};
use super::exchange::Exchange;
use super::failure::Failure;
use super::location::Location;
use super::run::run_within;
use super::s3::encoded;
use super::settings::FetchSettings;

/// How long it may take.
const TIME_MAX: Duration = Duration::from_secs(300);
/// The most objects that are read as one source.
const OBJECTS_MAX: usize = 100_000;
/// How many answers are asked for. An answer names a thousand objects.
const ANSWERS_MAX: usize = 10_000;
/// The longest answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// How keys match patterns: `*` matches no `/`, `**` does.
const MATCHING: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The objects that a location means, in the order of their keys: itself, those whose keys begin with a folder's name, or those
/// that match a pattern.
pub(crate) fn list_objects(place: &Location, settings: &FetchSettings) -> Result<Vec<Location>, Cause> {
    let Location::Object { bucket, key } = place else { return Ok(vec![place.clone()]) };
    if !place.is_many() {
        return Ok(vec![place.clone()]);
    }
    let shown = place.shown();
    let wanted = Wanted::new(key, &shown)?;
    let too_slow = || {
        Cause::operation(format!(
            "{shown}: its objects were not listed within {TIME_MAX:?}; use a longer prefix"
        ))
    };
    let keys = run_within(TIME_MAX, listed(bucket, &wanted, &shown, settings), too_slow)?;
    if keys.is_empty() {
        return Err(Cause::user(format!("{shown}: no object matches; check the bucket and the prefix")));
    }
    Ok(keys.into_iter().map(|key| Location::Object { bucket: bucket.clone(), key }).collect())
}

/// Which keys are meant.
struct Wanted {
    prefix: String,
    /// `None`: those of the folder itself, hidden ones left out.
    pattern: Option<glob::Pattern>,
}

impl Wanted {
    fn new(key: &str, shown: &str) -> Result<Wanted, Cause> {
        let Some(first) = key.find(['*', '?', '[']) else {
            return Ok(Wanted { prefix: key.to_owned(), pattern: None });
        };
        let pattern = glob::Pattern::new(key).map_err(|error| {
            Cause::user(format!("{shown}: invalid pattern: {error}; write [*] for a literal star"))
                .with_source(error)
        })?;
        Ok(Wanted { prefix: key[..first].to_owned(), pattern: Some(pattern) })
    }

    fn has(&self, key: &str) -> bool {
        match &self.pattern {
            Some(pattern) => pattern.matches_with(key, MATCHING),
            None => {
                let name = key.strip_prefix(&self.prefix).unwrap_or_default();
                !name.is_empty() && !name.contains('/') && !name.starts_with(['.', '_'])
            }
        }
    }
}

async fn listed(
    bucket: &str,
    wanted: &Wanted,
    shown: &str,
    settings: &FetchSettings,
) -> Result<Vec<String>, Cause> {
    let (mut keys, mut token) = (Vec::new(), None::<String>);
    for _ in 0..ANSWERS_MAX {
        let page =
            page(bucket, wanted, token.as_deref(), shown, settings).await.map_err(
                |failure| match failure {
                    Failure::Final(cause) => cause,
                    Failure::Lost { reason, .. } => Cause::operation(format!("{shown}: {reason}; try again")),
                },
            )?;
        keys.extend(texts(&page, "Key").filter(|key| wanted.has(key)));
        if keys.len() > OBJECTS_MAX {
            break;
        }
        token = texts(&page, "NextContinuationToken").next();
        if token.is_none() {
            keys.sort_unstable();
            return Ok(keys);
        }
    }
    Err(Cause::resource(format!(
        "{shown}: there are too many objects; at most {OBJECTS_MAX} are read as one source"
    )))
}

async fn page(
    bucket: &str,
    wanted: &Wanted,
    token: Option<&str>,
    shown: &str,
    settings: &FetchSettings,
) -> Result<String, Failure> {
    // In the order of their names, as the signature wants them.
    let token =
        token.map(|token| format!("continuation-token={}&", encoded(token, false))).unwrap_or_default();
    let folder = if wanted.pattern.is_none() { "delimiter=%2F&" } else { "" };
    let prefix = encoded(&wanted.prefix, false);
    let uri = settings.s3.url(&format!("/{bucket}?{token}{folder}list-type=2&prefix={prefix}"))?;
    let exchange = Exchange::of_store(&uri, shown.to_owned(), settings)?;
    let response = exchange.get(None).await?;
    let (response, _) = checked(&exchange, response, Content::Text).await?;
    let body = tokio::time::timeout(
        exchange.timeout(),
        Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect(),
    );
    let failed = || Cause::operation(format!("{shown}: the list of its objects broke off; try again"));
    let body = body.await.map_err(|_| failed())?.map_err(|_| failed())?;
    String::from_utf8(body.to_bytes().to_vec()).map_err(|_| Failure::Final(failed()))
}

/// The texts of the elements of a name. Elements of lists hold nothing else, so nothing more of XML is needed.
fn texts<'a>(xml: &'a str, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        let start = rest.find(&open)? + open.len();
        let length = rest[start..].find(&close)?;
        let text = unescaped(&rest[start..start + length]);
        rest = &rest[start + length..];
        Some(text)
    })
}

fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        let length = rest[at..].find(';').unwrap_or(0);
        let number = |digits: &str| match digits.strip_prefix('x') {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        };
        let character = match &rest[at..at + length] {
            "&amp" => Some('&'),
            "&lt" => Some('<'),
            "&gt" => Some('>'),
            "&quot" => Some('"'),
            "&apos" => Some('\''),
            other => other.strip_prefix("&#").and_then(number).and_then(char::from_u32),
        };
        match character {
            Some(character) => {
                plain.push(character);
                rest = &rest[at + length + 1..];
            }
            None => {
                plain.push('&');
                rest = &rest[at + 1..];
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_and_unescaped() {
        let xml = "<L><C><Key>a &amp; b.csv</Key></C><C><Key>&#252;&#x41;&quot;&unknown; &</Key></C><Key></Key></L>";
        assert_eq!(texts(xml, "Key").collect::<Vec<_>>(), ["a & b.csv", "üA\"&unknown; &", ""]);
        assert_eq!(texts("<Key>no end", "Key").count(), 0);
    }

    #[test]
    fn keys_are_those_of_a_folder_or_of_a_pattern() {
        let has = |key: &str| {
            let wanted = Wanted::new(key, "s3://b").unwrap();
            let keys = ["d/a.csv", "d/b.parquet", "d/e/c.csv", "d/.hidden", "d/_temporary", "d/", "da.csv"];
            let found: Vec<&str> =
                keys.into_iter().filter(|key| key.starts_with(&wanted.prefix) && wanted.has(key)).collect();
            (wanted.prefix.clone(), found)
        };
        assert_eq!(has("d/"), ("d/".to_owned(), vec!["d/a.csv", "d/b.parquet"]));
        assert_eq!(has("d/*.csv"), ("d/".to_owned(), vec!["d/a.csv"]));
        assert_eq!(has("d/**/*.csv"), ("d/".to_owned(), vec!["d/a.csv", "d/e/c.csv"]));
        assert_eq!(has("d[a/]*.csv"), ("d".to_owned(), vec!["da.csv"]));
        assert_eq!(has(""), (String::new(), vec!["da.csv"]));
        assert!(
            Wanted::new("a/**b", "s3://b/a/**b")
                .is_err_and(|error| error.message.contains("invalid pattern"))
        );
    }
}
