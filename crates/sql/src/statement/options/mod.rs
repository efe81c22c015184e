//! `WITH (name = value, ...)`.

pub(super) mod relative_path;
pub(super) mod secrets;
pub(super) mod value;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use datafusion::sql::sqlparser::tokenizer::Token;

use self::value::OptionValue;
use super::parser::cursor::Cursor;
use super::{AsOf, Name, Script, Secrets, Span};
use crate::{TextError, closest};

/// The most options of one statement.
const MAX_OPTIONS: usize = 256;

/// The options of a statement, in the order in which they are written.
///
/// ```
/// use tidemill_sql::{StatementKind, parse};
/// let mut statements = parse("SELECT 1 WITH (max_latency = '20 ms', cycles = 3)", "a.sql").unwrap();
/// let StatementKind::Query(_, options) = statements.remove(0).kind else { panic!() };
/// assert_eq!(options.duration_ns("max_latency").unwrap(), Some(20_000_000));
/// assert_eq!(options.integer("cycles", 1..=10).unwrap(), Some(3));
/// let error = options.finish(&["max_latency", "cycle"]).unwrap_err();
/// assert_eq!(error.hint.as_deref(), Some("did you mean cycle? options here are max_latency, cycle"));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    entries: Vec<OptionEntry>,
    /// Their place; the whole statement if there are none.
    pub span: Span,
    /// The version of the views that a query reads, and the place where it says so.
    as_of: Option<(AsOf, Span)>,
    script: Arc<Script>,
}

impl PartialEq for Options {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries && self.as_of() == other.as_of()
    }
}

/// One option.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionEntry {
    /// Its name; parts separated by periods form one name.
    pub name: Name,
    /// Its value.
    pub value: OptionValue,
    /// The place of the value.
    pub value_span: Span,
}

impl Options {
    /// No options, for a statement that covers `span`.
    #[must_use]
    pub fn none(script: &Arc<Script>, span: Span) -> Options {
        Options { entries: Vec::new(), span, as_of: None, script: Arc::clone(script) }
    }

    /// Reads `( ... )`; `with` is the place of the `WITH` before it.
    pub(super) fn read(cursor: &mut Cursor<'_>, with: Span) -> Result<Options, TextError> {
        let mut options = Options::none(cursor.script(), with);
        cursor.expect_symbol(&Token::LParen)?;
        loop {
            let name = Options::key(cursor, "the name of an option")?;
            cursor.expect_symbol(&Token::Eq)?;
            options.read_value(cursor, name)?;
            if !cursor.take_symbol(&Token::Comma) {
                break;
            }
        }
        if !cursor.take_symbol(&Token::RParen) {
            return Err(cursor.unexpected("`,` or `)`"));
        }
        options.span = cursor.since(with);
        Ok(options)
    }

    /// Reads `WITH ( ... )` if it comes next; then there must not be options at the end of the statement as well.
    pub(super) fn read_before(cursor: &mut Cursor<'_>, given: Options) -> Result<Options, TextError> {
        let with = cursor.here();
        if !cursor.take(&["WITH"]) {
            return Ok(given);
        }
        let options = Options::read(cursor, with)?;
        if given.is_empty() {
            return Ok(options);
        }
        Err(TextError::new(&given.script, given.span, "the statement has options in two places")
            .with_hint("write one WITH (...)"))
    }

    /// Reads the value of `name`, the single entry of a statement that begins at `first`.
    pub(super) fn one(cursor: &mut Cursor<'_>, name: Name, first: Span) -> Result<Options, TextError> {
        let mut options = Options::none(cursor.script(), first);
        options.read_value(cursor, name)?;
        options.span = cursor.since(first);
        Ok(options)
    }

    /// Reads `name`, `'name'` or `name.part`.
    pub(super) fn key(cursor: &mut Cursor<'_>, what: &str) -> Result<Name, TextError> {
        let mut name = cursor.name(what)?;
        while cursor.take_symbol(&Token::Period) {
            let part = cursor.name(what)?;
            name.value = format!("{}.{}", name.value, part.value);
            name.span = name.span.to(part.span);
        }
        Ok(name)
    }

    fn read_value(&mut self, cursor: &mut Cursor<'_>, name: Name) -> Result<(), TextError> {
        if self.get(&name.value).is_some() {
            return Err(TextError::new(&self.script, name.span, format!("`{name}` is given twice")));
        }
        if self.entries.len() == MAX_OPTIONS {
            return Err(TextError::new(&self.script, name.span, format!("more than {MAX_OPTIONS} options")));
        }
        let first = cursor.here();
        let value = OptionValue::read(cursor, &name)?;
        self.entries.push(OptionEntry { name, value, value_span: cursor.since(first) });
        Ok(())
    }

    /// The version of the views that a query reads: `AS OF CYCLE n`.
    #[must_use]
    pub fn as_of(&self) -> Option<&AsOf> {
        self.as_of.as_ref().map(|(as_of, _)| as_of)
    }

    /// The place of `AS OF`.
    pub(crate) fn as_of_span(&self) -> Option<Span> {
        self.as_of.as_ref().map(|(_, span)| *span)
    }

    /// The same options of a query that reads this version.
    pub(super) fn with_as_of(self, as_of: Option<(AsOf, Span)>) -> Options {
        Options { as_of, ..self }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The options in the order in which they are written.
    pub fn iter(&self) -> impl Iterator<Item = &OptionEntry> {
        self.entries.iter()
    }

    /// The same options with values in place of `${NAME}` and `${file:/path}`, and what messages show instead. With a `stand_in`, that
    /// is the value of each name that has none.
    ///
    /// # Errors
    /// At the first one whose value is not there.
    pub(crate) fn resolved(&self, stand_in: Option<&str>) -> Result<(Options, Secrets), TextError> {
        let (mut resolved, mut secrets) = (self.clone(), Secrets::default());
        for entry in &mut resolved.entries {
            let OptionValue::Text(text) = &mut entry.value else { continue };
            let found = secrets.resolve(text, stand_in);
            let found = found.map_err(|message| self.error(entry.name.as_str(), message))?;
            *text = found.unwrap_or_else(|| std::mem::take(text));
        }
        Ok((resolved, secrets))
    }

    /// An option that is given has another text.
    pub(super) fn set_text(&mut self, name: &str, text: &str) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.name.value == name) {
            entry.value = OptionValue::Text(text.to_owned());
        }
    }

    /// An option as written.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OptionEntry> {
        self.entries.iter().find(|entry| entry.name.value == name)
    }

    /// An error at the value of an option, or at all options if it is not given.
    #[must_use]
    pub fn error(&self, name: &str, message: impl Into<String>) -> TextError {
        let span = self.get(name).map_or(self.span, |entry| entry.value_span);
        TextError::new(&self.script, span, message)
    }

    /// An error at the name of an option, or at all options if it is not given.
    #[must_use]
    pub fn error_at_name(&self, name: &str, message: impl Into<String>) -> TextError {
        let span = self.get(name).map_or(self.span, |entry| entry.name.span);
        TextError::new(&self.script, span, message)
    }

    /// A text; numbers and Booleans are accepted as written.
    ///
    /// # Errors
    /// If it is an interval.
    pub fn text(&self, name: &str) -> Result<Option<&str>, TextError> {
        self.read_as(name, |value| value.text(name))
    }

    /// A text that is required.
    ///
    /// # Errors
    /// If it is not given, or is an interval.
    pub fn required_text(&self, name: &str) -> Result<&str, TextError> {
        let missing = || self.error(name, format!("option `{name}` is missing"));
        self.text(name)?.ok_or_else(|| missing().with_hint(format!("add {name} = '...'")))
    }

    /// One of several texts, in any case.
    ///
    /// # Errors
    /// If it is none of them.
    pub fn choice<'a>(&self, name: &str, choices: &[&'a str]) -> Result<Option<&'a str>, TextError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        if let Some(found) = choices.iter().find(|choice| choice.eq_ignore_ascii_case(text)) {
            return Ok(Some(found));
        }
        let error = self.error(name, format!("unknown {name} '{text}'"));
        Err(error.with_hint(did_you_mean(text, choices, &format!("{name} is one of"))))
    }

    /// An integer within a range.
    ///
    /// # Errors
    /// If it is not an integer or not within the range.
    pub fn integer(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, TextError> {
        self.read_as(name, |value| value.integer(name, range))
    }

    /// True or false.
    ///
    /// # Errors
    /// If it is something else.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, TextError> {
        self.read_as(name, |value| value.boolean(name))
    }

    /// A duration in nanoseconds, 0 or more: `'20 ms'`, `'5 s'`, `'1 minute'` or `INTERVAL '5 seconds'`.
    ///
    /// # Errors
    /// If it is not a duration, or negative.
    pub fn duration_ns(&self, name: &str) -> Result<Option<i64>, TextError> {
        self.read_as(name, |value| value.duration_ns(name))
    }

    /// A duration, 0 or more, written as for [`duration_ns`](Options::duration_ns).
    ///
    /// # Errors
    /// If it is not a duration, or negative.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>, TextError> {
        Ok(self.duration_ns(name)?.map(|length_ns| Duration::from_nanos(length_ns as u64)))
    }

    /// A size in bytes: `4096`, `'64 KB'`, `'256 MB'`.
    ///
    /// # Errors
    /// If it is not a size.
    pub fn bytes(&self, name: &str) -> Result<Option<u64>, TextError> {
        self.read_as(name, |value| value.bytes(name))
    }

    /// Reads the value of an option, if it is given.
    fn read_as<'a, T>(
        &'a self,
        name: &str,
        read: impl FnOnce(&'a OptionValue) -> Result<T, String>,
    ) -> Result<Option<T>, TextError> {
        let Some(entry) = self.get(name) else { return Ok(None) };
        read(&entry.value).map(Some).map_err(|message| self.error(name, message))
    }

    /// Refuses all options of a statement, which has none.
    pub(super) fn refuse(&self, statement: &str) -> Result<(), TextError> {
        self.finish(&[]).map_err(|error| TextError {
            message: format!("{statement} takes no options"),
            hint: None,
            ..error
        })
    }

    /// Call it after reading all options: refuses unknown ones.
    ///
    /// # Errors
    /// At the first option that is not among `known`, with the one that was probably meant.
    pub fn finish(&self, known: &[&str]) -> Result<(), TextError> {
        let Some(entry) = self.entries.iter().find(|entry| !known.contains(&entry.name.as_str())) else {
            return Ok(());
        };
        let error = TextError::new(&self.script, entry.name.span, format!("unknown option `{}`", entry.name));
        Err(error.with_hint(did_you_mean(entry.name.as_str(), known, "options here are")))
    }
}

/// The hint for a name that is not known.
pub(crate) fn did_you_mean(name: &str, known: &[&str], listed: &str) -> String {
    if known.is_empty() {
        return "no options are allowed here".to_owned();
    }
    let list = format!("{listed} {}", known.join(", "));
    match closest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean {meant}? {list}"),
        None => list,
    }
}
