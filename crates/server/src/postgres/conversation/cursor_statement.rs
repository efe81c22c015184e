//! `DECLARE`, `FETCH`, `MOVE` and `CLOSE`.

use tidemill_sql::{Piece, Statement};

use super::words::folded;
use crate::report::{NOT_SUPPORTED, Report, SYNTAX_ERROR};

/// A statement about a cursor: a query whose rows a client takes some at a time.
#[derive(Clone, Debug)]
pub(crate) enum CursorStatement {
    Declare {
        name: String,
        is_held: bool,
        query: Box<Statement>,
    },
    /// The next rows, this many at most; 0: all.
    Fetch {
        name: String,
        rows_max: usize,
        is_move: bool,
    },
    /// This one, or all.
    Close(Option<String>),
}

type Result<T> = std::result::Result<T, Report>;

impl CursorStatement {
    /// What a statement says whose words these are; `None` if it is not about cursors.
    pub fn read(piece: &Piece, words: &[String]) -> Option<Result<CursorStatement>> {
        match words.first()?.to_ascii_uppercase().as_str() {
            "DECLARE" => Some(declare(piece, words)),
            "FETCH" => Some(fetch(&words[1..], false)),
            "MOVE" => Some(fetch(&words[1..], true)),
            "CLOSE" => Some(match &words[1..] {
                [all] if all.eq_ignore_ascii_case("all") => Ok(CursorStatement::Close(None)),
                [cursor] => Ok(CursorStatement::Close(Some(folded(cursor)))),
                _ => Err(wrong("CLOSE names a cursor, or ALL")),
            }),
            _ => None,
        }
    }
}

fn wrong(message: &str) -> Report {
    Report::error(SYNTAX_ERROR, message)
        .with_hint("DECLARE c CURSOR FOR SELECT ...; FETCH 100 FROM c; CLOSE c")
}

fn only_forward() -> Report {
    Report::error(NOT_SUPPORTED, "cursors only go forward").with_hint("FETCH 100 FROM c, or FETCH ALL FROM c")
}

fn declare(piece: &Piece, words: &[String]) -> Result<CursorStatement> {
    let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
    let query =
        1 + upper.iter().position(|word| word == "FOR").ok_or_else(|| wrong("the cursor has no query"))?;
    let cursor = words.get(1).filter(|_| query > 3).ok_or_else(|| wrong("the cursor has no name"))?;
    let between: Vec<&str> = upper[2..query - 1].iter().map(String::as_str).collect();
    let mut rest = between.as_slice();
    while let [word, after @ ..] = rest {
        match (*word, after) {
            ("NO", ["SCROLL", ..]) => rest = &after[1..],
            ("BINARY" | "INSENSITIVE" | "ASENSITIVE", _) => rest = after,
            ("SCROLL", _) => return Err(only_forward()),
            _ => break,
        }
    }
    let is_held = match rest {
        ["CURSOR"] | ["CURSOR", "WITHOUT", "HOLD"] => false,
        ["CURSOR", "WITH", "HOLD"] => true,
        _ => return Err(wrong("the words before FOR do not describe a cursor")),
    };
    let query = piece.part(query..words.len()).ok_or_else(|| wrong("the cursor has no query"))?;
    let query = query.read().map_err(|error| Report::of_reading(&error))?;
    Ok(CursorStatement::Declare { name: folded(cursor), is_held, query: Box::new(query) })
}

fn fetch(words: &[String], is_move: bool) -> Result<CursorStatement> {
    let (cursor, before) = words.split_last().ok_or_else(|| wrong("the statement names no cursor"))?;
    let upper: Vec<String> = before.iter().map(|word| word.to_ascii_uppercase()).collect();
    let mut rest: Vec<&str> = upper.iter().map(String::as_str).collect();
    if matches!(rest.last(), Some(&("FROM" | "IN"))) {
        rest.pop();
    }
    let rows_max = match rest.as_slice() {
        [] | ["NEXT" | "FORWARD"] => 1,
        ["ALL"] | ["FORWARD", "ALL"] => 0,
        [count] | ["FORWARD", count] => match count.parse() {
            Ok(count) if count > 0 => count,
            _ => return Err(only_forward()),
        },
        _ => return Err(only_forward()),
    };
    Ok(CursorStatement::Fetch { name: folded(cursor), rows_max, is_move })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CursorStatement> {
        let piece = tidemill_sql::divide(text, "test").unwrap().remove(0);
        CursorStatement::read(&piece, &piece.words()).expect("about a cursor")
    }

    #[test]
    fn a_cursor_is_declared_with_its_query() {
        for (text, held) in [
            ("DECLARE \"C 1\" CURSOR FOR SELECT 1 AS one", false),
            ("declare \"C 1\" binary no scroll cursor with hold for SELECT 1 AS one", true),
            ("DECLARE \"C 1\" INSENSITIVE CURSOR WITHOUT HOLD FOR SELECT 1 AS one", false),
        ] {
            let Ok(CursorStatement::Declare { name, is_held, query }) = read(text) else { panic!("{text}") };
            assert_eq!((name.as_str(), is_held, query.text.as_str()), ("C 1", held, "SELECT 1 AS one"));
        }
        for wrong in [
            "DECLARE c CURSOR",
            "DECLARE CURSOR FOR SELECT 1",
            "DECLARE c SCROLL CURSOR FOR SELECT 1",
            "DECLARE c CURSOR FOR",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rows_are_fetched_forward() {
        for (text, expected) in [
            ("FETCH c", 1),
            ("FETCH NEXT FROM c", 1),
            ("FETCH 7 FROM c", 7),
            ("FETCH FORWARD 7 IN c", 7),
            ("FETCH ALL FROM c", 0),
            ("MOVE FORWARD ALL c", 0),
        ] {
            let Ok(CursorStatement::Fetch { name, rows_max, is_move }) = read(text) else { panic!("{text}") };
            assert_eq!(
                (name.as_str(), rows_max, is_move),
                ("c", expected, text.starts_with("MOVE")),
                "{text}"
            );
        }
        for wrong in [
            "FETCH",
            "FETCH PRIOR FROM c",
            "FETCH BACKWARD 1 FROM c",
            "FETCH ABSOLUTE 3 FROM c",
            "FETCH -1 FROM c",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
