//! What an option holds.

use std::time::Duration;

use crate::statement::{OptionValue, did_you_mean};

/// What an option holds, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// Any text.
    Text,
    /// One of these words, in any case.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Boolean,
    /// A whole number within limits.
    Integer {
        /// The least.
        least: i64,
        /// The most.
        most: i64,
    },
    /// A duration of 0 or more: `'20 ms'`, `INTERVAL '5 seconds'`.
    Duration,
    /// A duration longer than 0, or one of these words, in any case.
    DurationOr(&'static [&'static str]),
    /// A size in bytes: `4096`, `'64 MB'`.
    Bytes,
    /// One ASCII character.
    Character,
    /// Names, separated by commas.
    Names,
}

/// A value of some kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TypedValue {
    Text(String),
    Boolean(bool),
    Integer(i64),
    Duration(Duration),
    Bytes(u64),
    Character(u8),
    Names(Vec<String>),
}

impl OptionKind {
    /// The name of the kind in tables for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OptionKind::Text => "text",
            OptionKind::Choice(_) => "choice",
            OptionKind::Boolean => "boolean",
            OptionKind::Integer { .. } => "integer",
            OptionKind::Duration | OptionKind::DurationOr(_) => "duration",
            OptionKind::Bytes => "size",
            OptionKind::Character => "character",
            OptionKind::Names => "names",
        }
    }

    /// Whether its values are written without quotes.
    pub(super) fn is_bare(self) -> bool {
        matches!(
            self,
            OptionKind::Boolean | OptionKind::Integer { .. } | OptionKind::Choice(["true", "false", ..])
        )
    }

    /// The words among which an option of this kind chooses.
    #[must_use]
    pub fn words(self) -> &'static [&'static str] {
        match self {
            OptionKind::Choice(words) | OptionKind::DurationOr(words) => words,
            _ => &[],
        }
    }

    /// The value of an option; the error says what is wrong, and what to do if there is something to say.
    pub(crate) fn typed(
        self,
        name: &str,
        value: &OptionValue,
    ) -> Result<TypedValue, (String, Option<String>)> {
        let plain = |message: String| (message, None);
        match self {
            OptionKind::Text => Ok(TypedValue::Text(value.text(name).map_err(plain)?.to_owned())),
            OptionKind::Choice(words) => {
                let text = value.text(name).map_err(plain)?;
                match words.iter().find(|word| word.eq_ignore_ascii_case(text)) {
                    Some(word) => Ok(TypedValue::Text((*word).to_owned())),
                    None => Err((
                        format!("unknown {name} '{text}'"),
                        Some(did_you_mean(text, words, &format!("{name} is one of"))),
                    )),
                }
            }
            OptionKind::Boolean => value.boolean(name).map(TypedValue::Boolean).map_err(plain),
            OptionKind::Integer { least, most } => {
                value.integer(name, least..=most).map(TypedValue::Integer).map_err(plain)
            }
            OptionKind::Duration => duration(name, value).map_err(plain),
            OptionKind::DurationOr(words) => match value {
                OptionValue::Text(text) if words.iter().any(|word| word.eq_ignore_ascii_case(text)) => {
                    Ok(TypedValue::Text(text.to_ascii_lowercase()))
                }
                _ => match duration(name, value) {
                    Ok(TypedValue::Duration(length)) if length.is_zero() => {
                        Err((format!("`{name}` must be longer than 0"), Some(or_words(words))))
                    }
                    Ok(length) => Ok(length),
                    Err(message) => Err((message, Some(or_words(words)))),
                },
            },
            OptionKind::Bytes => value.bytes(name).map(TypedValue::Bytes).map_err(plain),
            OptionKind::Character => {
                let text = value.text(name).map_err(plain)?;
                match text.as_bytes() {
                    [byte] => Ok(TypedValue::Character(*byte)),
                    _ => Err(plain(format!("'{name}' must be one ASCII character, found '{text}'"))),
                }
            }
            OptionKind::Names => {
                let text = value.text(name).map_err(plain)?;
                Ok(TypedValue::Names(text.split(',').map(|name| name.trim().to_owned()).collect()))
            }
        }
    }
}

fn duration(name: &str, value: &OptionValue) -> Result<TypedValue, String> {
    let length_ns = value.duration_ns(name)?;
    Ok(TypedValue::Duration(Duration::from_nanos(length_ns.unsigned_abs())))
}

fn or_words(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    format!("write a duration such as '50 ms', or {}", words.join(" or "))
}
