//! Reads scripts, and reports what is wrong with them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tidemill_sql::{MAX_SCRIPT_BYTES, Statement, StatementKind, TextError, parse_all};

use super::user_error;
pub(crate) use crate::wrong_script::WrongScript as Wrong;

/// A text of statements.
#[derive(Debug)]
pub(crate) struct ScriptText {
    /// Its name in messages.
    pub name: String,
    pub text: String,
    /// Whether it came from standard input, which no source can read then.
    pub is_standard_input: bool,
}

impl ScriptText {
    /// Its statements.
    pub fn statements(&self) -> Result<Vec<Statement>, Wrong> {
        match self.parse() {
            (statements, errors) if errors.is_empty() => Ok(statements),
            (_, errors) => Err(Wrong(errors)),
        }
    }

    /// The statements that can be read, and the errors of the others.
    pub fn parse(&self) -> (Vec<Statement>, Vec<TextError>) {
        let (statements, mut errors) = parse_all(&self.text, &self.name);
        if self.is_standard_input {
            errors.extend(statements.iter().filter_map(reads_standard_input));
            errors.sort_by_key(|error| error.span.start.byte);
        }
        (statements, errors)
    }
}

/// An error if a statement defines a source that would read the input of the statements.
pub(crate) fn reads_standard_input(statement: &Statement) -> Option<TextError> {
    let (StatementKind::CreateSource(create) | StatementKind::CreateTable(create)) = &statement.kind else {
        return None;
    };
    let connector = create.options.text("connector").ok().flatten()?;
    connector.eq_ignore_ascii_case("stdin").then(|| {
        let message = "the statements come from standard input, so no source can read it";
        create.options.error("connector", message).with_hint("pass the statements in a file or with -c")
    })
}

/// The text of a file, or of standard input if it is named `-`.
pub(crate) fn read(path: &Path) -> anyhow::Result<ScriptText> {
    let is_standard_input = path == Path::new("-");
    let name = if is_standard_input { "standard input".into() } else { path.display().to_string() };
    let bytes = if is_standard_input { read_some(io::stdin()) } else { open(path).and_then(read_some) };
    let bytes = bytes.map_err(|error| user_error(unreadable(&name, &error)))?;
    if bytes.len() > MAX_SCRIPT_BYTES {
        let most = format!("'{name}' has more than {MAX_SCRIPT_BYTES} bytes; divide it into several scripts");
        return Err(user_error(most));
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(user_error(format!("'{name}' is not UTF-8 text; is it a script?")));
    };
    if text.contains('\0') {
        return Err(user_error(format!("'{name}' is not text: it contains zero bytes; is it a script?")));
    }
    if text.trim().is_empty() {
        return Err(user_error(format!(
            "'{name}' is empty; a script consists of statements, each ending with ;"
        )));
    }
    Ok(ScriptText { name, text, is_standard_input })
}

fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
}

/// As much as a script may have, plus one byte.
fn read_some(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(MAX_SCRIPT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(name: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no file '{name}'; is the path right?"),
        io::ErrorKind::IsADirectory => format!("'{name}' is a folder; give the path of a script in it"),
        io::ErrorKind::PermissionDenied => format!(
            "'{name}' cannot be read: permission denied; check its \
            permissions"
        ),
        _ => format!("'{name}' cannot be read: {error}"),
    }
}
