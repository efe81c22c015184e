//! `${NAME}` and `${file:/path}` in the values of options: texts that a statement does not show.

use std::path::Path;

use tidemill_connect::read_private_file;
use tidemill_engine::{Cause, Faults};

use crate::TextError;

/// A shorter value is not replaced in messages: it may stand anywhere by chance.
const MASKED_BYTES_MIN: usize = 4;

/// The values that stood behind names, and what was written. Messages show the latter.
///
/// ```text
/// url = 'postgres://me:${PASSWORD}@db/traffic'   the variable of the environment
/// token = '${file:/run/secrets/token}'           the first line of a file that nobody else may read
/// note = '$${PASSWORD}'                          the text ${PASSWORD}
/// ```
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    /// Value and what was written, the longest value first.
    found: Vec<(String, String)>,
}

impl Secrets {
    /// The text with the values in place of names; `None` if there are no names. The error says what is missing.
    /// With a `stand_in`, that is the value of each name that has none.
    pub fn resolve(&mut self, text: &str, stand_in: Option<&str>) -> Result<Option<String>, String> {
        if !text.contains("${") {
            return Ok(None);
        }
        let (mut resolved, mut rest) = (String::new(), text);
        while let Some(start) = rest.find("${") {
            if rest[..start].ends_with('$') {
                resolved.push_str(&rest[..start - 1]);
                resolved.push_str("${");
                rest = &rest[start + 2..];
                continue;
            }
            resolved.push_str(&rest[..start]);
            let Some(length) = rest[start..].find('}') else {
                return Err("`${` without `}`; write $${ for these characters themselves".to_owned());
            };
            match (self.value(&rest[start + 2..start + length], &rest[start..=start + length]), stand_in) {
                (Ok(value), _) => resolved.push_str(&value),
                (Err(_), Some(stand_in)) => resolved.push_str(stand_in),
                (Err(why), None) => return Err(why),
            }
            rest = &rest[start + length + 1..];
        }
        resolved.push_str(rest);
        Ok(Some(resolved))
    }

    fn value(&mut self, name: &str, written: &str) -> Result<String, String> {
        let value = match name.strip_prefix("file:") {
            Some(path) => first_line(path, written)?,
            None => variable(name, written)?,
        };
        if value.len() >= MASKED_BYTES_MIN && !self.found.iter().any(|(known, _)| *known == value) {
            self.found.push((value.clone(), written.to_owned()));
            self.found.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        }
        Ok(value)
    }

    /// Whether there are values to hide.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// A text that shows what was written in place of each value.
    pub fn mask(&self, text: &str) -> String {
        self.found.iter().fold(text.to_owned(), |text, (value, written)| text.replace(value, written))
    }

    /// The same error without the values. What a library said is left out, for it may contain them.
    pub fn mask_cause(&self, cause: Cause) -> Cause {
        let message = self.mask(&cause.message);
        if message == *cause.message { cause } else { Cause::new(cause.fault, message) }
    }

    /// The same error without the values.
    pub fn mask_error(&self, error: TextError) -> TextError {
        let hint = error.hint.as_deref().map(|hint| self.mask(hint));
        TextError { message: self.mask(&error.message), hint, ..error }
    }

    /// The same reports without the values.
    pub fn mask_faults(&self, mut faults: Faults) -> Faults {
        faults.samples.iter_mut().for_each(|text| *text = self.mask(text));
        faults.notices.change(|text| *text = self.mask(text));
        if let Some(records) = &mut faults.records {
            records.change(|record| {
                record.place = self.mask(&record.place);
                record.reason = self.mask(&record.reason);
            });
        }
        faults
    }
}

fn variable(name: &str, written: &str) -> Result<String, String> {
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Err(format!(
            "{written} names neither a variable nor a file; write ${{NAME}}, ${{file:/path}}, or $${{ for these \
             characters themselves"
        ));
    }
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => Ok(value),
        Ok(_) => Err(format!("the environment variable {name} is empty; set it before tidemill is started")),
        Err(std::env::VarError::NotPresent) => {
            Err(format!("the environment variable {name} is not set; set it before tidemill is started"))
        }
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(format!("the environment variable {name} is not UTF-8 text; set it to a text"))
        }
    }
}

fn first_line(path: &str, written: &str) -> Result<String, String> {
    if !path.starts_with('/') {
        return Err(format!("{written}: the path must begin with /"));
    }
    let bytes = read_private_file(Path::new(path)).map_err(|cause| cause.message.to_string())?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text =
        std::str::from_utf8(line).map_err(|_| format!("'{path}' is not UTF-8 text; write it again"))?;
    match text.strip_suffix('\r').unwrap_or(text) {
        "" => Err(format!("the first line of '{path}' is empty; write the secret there")),
        text => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn names_are_replaced_and_shown_again() {
        let file = file("hunter2 and more\r\nanother line\n");
        let written = format!("a ${{file:{}}} b $${{HOME}}", file.path().display());
        let mut secrets = Secrets::default();
        assert_eq!(secrets.resolve("plain $ {x} $1", None).unwrap(), None);
        assert_eq!(secrets.resolve(&written, None).unwrap().unwrap(), "a hunter2 and more b ${HOME}");
        assert_eq!(
            secrets.mask("cannot use 'hunter2 and more'"),
            format!("cannot use '${{file:{}}}'", file.path().display())
        );
        // Every test process has one.
        let path = std::env::var("PATH").unwrap();
        assert_eq!(secrets.resolve("${PATH}", None).unwrap().unwrap(), path);
        assert_eq!(secrets.mask(&format!("<{path}>")), "<${PATH}>");
    }

    #[test]
    fn what_is_missing_or_open_to_everyone_is_named() {
        let refused = |text: &str| Secrets::default().resolve(text, None).unwrap_err();
        assert_eq!(
            refused("${TIDEMILL_NOT_THERE}"),
            "the environment variable TIDEMILL_NOT_THERE is not set; set it before tidemill is started"
        );
        let stood_in = Secrets::default().resolve("http://h:${TIDEMILL_NOT_THERE}/", Some("1"));
        assert_eq!(stood_in.unwrap().unwrap(), "http://h:1/");
        assert!(refused("${a-b}").starts_with("${a-b} names neither a variable nor a file"));
        assert!(refused("${file:token}").contains("must begin with /"));
        assert!(
            refused("${file:/nowhere/token}").starts_with("'/nowhere/token' cannot be read: No such file")
        );
        assert!(refused("${open").starts_with("`${` without `}`"));
        let open = file("secret\n");
        std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            refused(&format!("${{file:{}}}", open.path().display())).contains("may be read by other users")
        );
        let empty = file("\nsecret\n");
        assert!(refused(&format!("${{file:{}}}", empty.path().display())).contains("first line"));
    }
}
