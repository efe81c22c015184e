//! `COPY ... TO STDOUT` and `COPY ... FROM STDIN`.

use tidemill_sql::{Piece, Statement};

use super::format::{CopyFormat, CopyLayout};
use crate::postgres::conversation::words::{closed, folded, name};
use crate::report::{NOT_SUPPORTED, Report, SYNTAX_ERROR};

/// A copy between the database and a client.
#[derive(Clone, Debug)]
pub(crate) enum CopyStatement {
    /// The rows of a query.
    Out { query: Box<Statement>, format: CopyFormat },
    /// Rows for a source, with values for these columns; `None`: for all.
    In { source: String, columns: Option<Vec<String>>, format: CopyFormat },
}

type Result<T> = std::result::Result<T, Report>;

impl CopyStatement {
    /// What a statement says whose words these are; `None` if it is not a copy.
    pub fn read(piece: &Piece, words: &[String]) -> Option<Result<CopyStatement>> {
        words.first()?.eq_ignore_ascii_case("COPY").then(|| read(piece, words))
    }
}

fn wrong(message: &str) -> Report {
    let hint =
        "COPY (SELECT ...) TO STDOUT; COPY view TO STDOUT WITH (FORMAT csv, HEADER); COPY source FROM STDIN";
    Report::error(SYNTAX_ERROR, message).with_hint(hint)
}

fn read(piece: &Piece, words: &[String]) -> Result<CopyStatement> {
    let is = |at: usize, word: &str| words.get(at).is_some_and(|given| given.eq_ignore_ascii_case(word));
    if is(1, "(") {
        let end = 1 + closed(&words[1..]).ok_or_else(|| wrong("a parenthesis is not closed"))?;
        if !is(end + 1, "TO") || !is(end + 2, "STDOUT") {
            return Err(only_clients());
        }
        let query = piece.part(2..end).ok_or_else(|| wrong("there is no query in the parentheses"))?;
        let query = query.read().map_err(|error| Report::of_reading(&error))?;
        let format = format(piece, &words[end + 3..])?;
        return Ok(CopyStatement::Out { query: Box::new(query), format });
    }
    let relation = match words.get(1..3) {
        Some([schema, dot]) if dot == "." && name(schema).eq_ignore_ascii_case("public") => 3,
        _ => 1,
    };
    let given = words.get(relation).ok_or_else(|| wrong("the statement does not say what to copy"))?;
    let mut at = relation + 1;
    let mut columns = None;
    if is(at, "(") {
        let end = at + closed(&words[at..]).ok_or_else(|| wrong("a parenthesis is not closed"))?;
        columns = Some((at + 1..end).filter(|word| words[*word] != ",").collect::<Vec<_>>());
        at = end + 1;
    }
    let format = || format(piece, words.get(at + 2..).unwrap_or_default());
    if is(at, "TO") && is(at + 1, "STDOUT") {
        let query = piece.select(relation, columns.as_deref()).map_err(|error| Report::of_reading(&error))?;
        return Ok(CopyStatement::Out { query: Box::new(query), format: format()? });
    }
    if is(at, "FROM") && is(at + 1, "STDIN") {
        let columns =
            columns.map(|columns| columns.into_iter().map(|column| folded(&words[column])).collect());
        return Ok(CopyStatement::In { source: folded(given), columns, format: format()? });
    }
    Err(only_clients())
}

fn only_clients() -> Report {
    let message = "a copy goes to the client (TO STDOUT) or comes from it (FROM STDIN)";
    let report = Report::error(NOT_SUPPORTED, message);
    report.with_hint(
        "files of the server's machine are read by sources, and written by sinks, with connector = 'file'",
    )
}

/// The format that the words at the end ask for: options in parentheses, or the words of older versions.
fn format(piece: &Piece, words: &[String]) -> Result<CopyFormat> {
    let in_parentheses =
        |words: &[String]| words.get(1..words.len().saturating_sub(1)).unwrap_or_default().to_vec();
    let options = piece.option_words();
    let words = match words {
        [] if options.is_empty() => return Ok(CopyFormat::text()),
        [] => in_parentheses(&options),
        [open, .., close] if open == "(" && close == ")" => in_parentheses(words),
        words => words.to_vec(),
    };
    let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
    let says = |word: &str| upper.iter().any(|given| given.trim_matches('\'') == word);
    let mut format = match (says("CSV"), says("BINARY")) {
        (true, _) => CopyFormat::csv(),
        (false, true) => CopyFormat::binary(),
        (false, false) => CopyFormat::text(),
    };
    let plain = format.clone();
    let mut rest = words.iter().zip(&upper).map(|(word, upper)| (word.as_str(), upper.as_str())).peekable();
    while let Some((_, option)) = rest.next() {
        match option {
            "," | "WITH" | "CSV" | "BINARY" => {}
            "FORMAT" => match rest.next() {
                Some((_, "CSV" | "'CSV'" | "TEXT" | "'TEXT'" | "BINARY" | "'BINARY'")) => {}
                _ => return Err(wrong("FORMAT must be text, csv or binary")),
            },
            "HEADER" => {
                let value = rest.next_if(|(_, word)| *word != "," && !is_option(word)).map(|(_, word)| word);
                format.has_header = !matches!(value, Some("FALSE" | "OFF" | "0" | "'FALSE'" | "'OFF'"));
            }
            "DELIMITER" => format.delimiter = character("DELIMITER", argument(&mut rest))?,
            "QUOTE" => format.quote = character("QUOTE", argument(&mut rest))?,
            "ESCAPE" => {
                if character("ESCAPE", argument(&mut rest))? != format.quote {
                    let report = Report::error(NOT_SUPPORTED, "ESCAPE must be the same as QUOTE");
                    return Err(report.with_hint("leave it out, and double quotes within values"));
                }
            }
            "NULL" => {
                let text = argument(&mut rest).and_then(text);
                format.null = text.ok_or_else(|| wrong("NULL needs a text in single quotes"))?;
            }
            "ENCODING" => match argument(&mut rest).and_then(text) {
                Some(encoding) if matches!(encoding.to_ascii_uppercase().as_str(), "UTF8" | "UTF-8") => {}
                _ => return Err(Report::error(NOT_SUPPORTED, "the encoding is always UTF-8")),
            },
            "ON_ERROR" => match rest.next() {
                Some((_, "STOP")) => format.leaves_out_errors = false,
                Some((_, "IGNORE")) => format.leaves_out_errors = true,
                _ => return Err(wrong("ON_ERROR must be stop or ignore")),
            },
            _ => {
                let names = "FORMAT, HEADER, DELIMITER, NULL, QUOTE, ESCAPE, ENCODING and ON_ERROR";
                return Err(wrong(&format!("the options of a copy are {names}")));
            }
        }
    }
    if format.is_binary() && format != plain {
        let names = "HEADER, DELIMITER, NULL, QUOTE and ON_ERROR";
        return Err(wrong(&format!("a copy in binary form has no lines, and so no {names}")));
    }
    match ambiguity(&format) {
        None => Ok(format),
        Some(message) => Err(wrong(message)),
    }
}

/// Why lines of this format could not be told apart from others when they are read, if that is so.
fn ambiguity(format: &CopyFormat) -> Option<&'static str> {
    let CopyFormat { delimiter, quote, .. } = *format;
    let is_csv = format.layout == CopyLayout::Csv;
    let null = format.null.as_bytes();
    let is_escaped = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"\\.".contains(&byte);
    if !is_csv && quote != b'"' {
        Some("only CSV has quotes")
    } else if !is_csv && is_escaped(delimiter) {
        Some("small letters, digits, points and backslashes can follow a backslash, and not be the DELIMITER")
    } else if is_csv && quote == delimiter {
        Some("QUOTE and DELIMITER must differ")
    } else if is_csv && null.contains(&quote) {
        Some("NULL must not contain the quote")
    } else if null.iter().any(|byte| [delimiter, b'\n', b'\r'].contains(byte)) {
        Some("NULL must contain neither the delimiter nor a line break")
    } else {
        None
    }
}

const OPTIONS: [&str; 10] =
    ["FORMAT", "CSV", "BINARY", "HEADER", "DELIMITER", "NULL", "QUOTE", "ESCAPE", "ENCODING", "ON_ERROR"];

fn is_option(word: &str) -> bool {
    OPTIONS.contains(&word)
}

/// What follows an option, with or without `AS`.
fn argument<'a>(rest: &mut std::iter::Peekable<impl Iterator<Item = (&'a str, &'a str)>>) -> Option<&'a str> {
    rest.next_if(|(_, word)| *word == "AS");
    rest.next().map(|(word, _)| word)
}

/// A text in quotes.
fn text(word: &str) -> Option<String> {
    let word = word.strip_prefix(['E', 'e']).unwrap_or(word);
    word.strip_prefix('\'')?.strip_suffix('\'').map(str::to_owned)
}

fn character(option: &str, word: Option<&str>) -> Result<u8> {
    match word.and_then(text).as_deref().map(str::as_bytes) {
        Some([byte]) if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(*byte),
        Some(b"\\t") => Ok(b'\t'),
        _ => Err(wrong(&format!("{option} is one ASCII character in single quotes"))),
    }
}

#[cfg(test)]
mod tests {
    use tidemill_sql::divide;

    use super::*;

    fn read(text: &str) -> Result<CopyStatement> {
        let piece = divide(text, "test").unwrap().remove(0);
        CopyStatement::read(&piece, &piece.words()).expect("a copy")
    }

    fn out(text: &str) -> (String, CopyFormat) {
        match read(text).unwrap_or_else(|report| panic!("{text}: {report:?}")) {
            CopyStatement::Out { query, format } => (query.text.clone(), format),
            CopyStatement::In { .. } => panic!("{text} goes in"),
        }
    }

    #[test]
    fn what_goes_out_is_a_query() {
        let text = CopyFormat::text();
        assert_eq!(
            out("COPY (SELECT 1 AS n, f(2)) TO STDOUT"),
            ("SELECT 1 AS n, f(2)".to_owned(), text.clone())
        );
        assert_eq!(out("copy public.V to stdout"), ("SELECT * FROM V".to_owned(), text.clone()));
        assert_eq!(out("COPY v (a, \"B c\") TO STDOUT"), ("SELECT a, \"B c\" FROM v".to_owned(), text));
        let with =
            CopyFormat { has_header: true, delimiter: b';', null: "-".to_owned(), ..CopyFormat::csv() };
        for options in [
            "WITH (FORMAT csv, HEADER, DELIMITER ';', NULL '-')",
            "(FORMAT 'csv', HEADER true, DELIMITER ';', NULL '-', ENCODING 'utf8')",
            "WITH CSV HEADER DELIMITER AS ';' NULL AS '-'",
            "CSV DELIMITER ';' HEADER NULL '-'",
        ] {
            assert_eq!(out(&format!("COPY v TO STDOUT {options}")).1, with, "{options}");
        }
        assert_eq!(out("COPY v TO STDOUT (DELIMITER E'\\t', HEADER off)").1, CopyFormat::text());
    }

    #[test]
    fn what_comes_in_names_a_source_and_its_columns() {
        let CopyStatement::In { source, columns, format } =
            read("COPY Reports (at, \"V x\") FROM STDIN WITH (ON_ERROR ignore)").unwrap()
        else {
            panic!("it goes out")
        };
        assert_eq!((source.as_str(), columns), ("reports", Some(vec!["at".to_owned(), "V x".to_owned()])));
        assert_eq!(format, CopyFormat { leaves_out_errors: true, ..CopyFormat::text() });
    }

    #[test]
    fn what_cannot_be_copied_is_refused() {
        for wrong in [
            "COPY",
            "COPY v",
            "COPY v TO '/etc/passwd'",
            "COPY v FROM PROGRAM 'id'",
            "COPY (SELECT 1 TO STDOUT",
            "COPY () TO STDOUT",
            "COPY (SELECT 1) FROM STDIN",
            "COPY v TO STDOUT (FORMAT binary, HEADER)",
            "COPY v FROM STDIN BINARY DELIMITER ','",
            "COPY v TO STDOUT (FORMAT parquet)",
            "COPY v TO STDOUT (DELIMITER ',,')",
            "COPY v TO STDOUT (DELIMITER",
            "COPY v TO STDOUT (NULL)",
            "COPY v TO STDOUT (DELIMITER '\\')",
            "COPY v TO STDOUT (DELIMITER 'n')",
            "COPY v TO STDOUT (DELIMITER '0')",
            "COPY v TO STDOUT (QUOTE '|')",
            "COPY v TO STDOUT (FORMAT csv, QUOTE ',')",
            "COPY v TO STDOUT (FORMAT csv, NULL '\"')",
            "COPY v TO STDOUT (FORMAT csv, NULL 'a,b')",
            "COPY v FROM STDIN (NULL E'\\n')",
            "COPY v TO STDOUT (FREEZE)",
            "COPY v TO STDOUT (ON_ERROR sometimes)",
            "COPY 7 TO STDOUT",
            "COPY v (a, 1 + 1) TO STDOUT",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
