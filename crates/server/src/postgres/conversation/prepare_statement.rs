//! `PREPARE` and `EXECUTE`.

use tidemill_sql::{Piece, Statement, divide};

use super::words::folded;
use crate::report::{Report, SYNTAX_ERROR};

/// A statement about a prepared statement. Clients that prepare by the protocol use the same names.
#[derive(Clone, Debug)]
pub(crate) enum PrepareStatement {
    Prepare {
        name: String,
        /// The types of the first parameters, as they are written.
        types: Vec<String>,
        statement: Box<Statement>,
    },
    Execute {
        name: String,
        /// A query for the values of its parameters, if it has any.
        values: Option<Box<Statement>>,
        /// Whether it is only said what would be read.
        is_explained: bool,
    },
}

type Read<T> = std::result::Result<T, Report>;

impl PrepareStatement {
    /// What a statement says whose words these are; `None` if it is neither.
    pub fn read(piece: &Piece, words: &[String]) -> Option<Read<PrepareStatement>> {
        match words.first()?.to_ascii_uppercase().as_str() {
            "PREPARE" => Some(prepare(piece, words)),
            "EXECUTE" => Some(execute(words, false)),
            "EXPLAIN" if words.get(1)?.eq_ignore_ascii_case("EXECUTE") => Some(execute(&words[1..], true)),
            _ => None,
        }
    }
}

pub(super) fn wrong(message: &str) -> Report {
    Report::error(SYNTAX_ERROR, message)
        .with_hint("PREPARE q (BIGINT) AS SELECT * FROM v WHERE id = $1; EXECUTE q (7); DEALLOCATE q")
}

fn prepare(piece: &Piece, words: &[String]) -> Read<PrepareStatement> {
    let is_as = |word: &String| word.eq_ignore_ascii_case("AS");
    let at = words.iter().position(is_as).ok_or_else(|| wrong("PREPARE has no statement behind AS"))?;
    let name = words.get(1).filter(|_| at > 1).ok_or_else(|| wrong("the prepared statement has no name"))?;
    let types = match &words[2..at] {
        [] => Vec::new(),
        [open, types @ .., close] if open == "(" && close == ")" => listed(types),
        _ => return Err(wrong("the types of the parameters are not in parentheses")),
    };
    let statement =
        piece.part(at + 1..words.len()).ok_or_else(|| wrong("PREPARE has no statement behind AS"))?;
    let statement = Box::new(statement.read().map_err(|error| Report::of_reading(&error))?);
    Ok(PrepareStatement::Prepare { name: folded(name), types, statement })
}

fn execute(words: &[String], is_explained: bool) -> Read<PrepareStatement> {
    let name = words.get(1).ok_or_else(|| wrong("EXECUTE names no prepared statement"))?;
    let values = match &words[2..] {
        [] => None,
        [open, close] if open == "(" && close == ")" => None,
        [open, values @ .., close] if open == "(" && close == ")" => Some(query(&values.join(" "))?),
        _ => return Err(wrong("the values of the parameters are not in parentheses")),
    };
    Ok(PrepareStatement::Execute { name: folded(name), values: values.map(Box::new), is_explained })
}

/// The parts between the commas that are in no parentheses.
fn listed(words: &[String]) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for word in words {
        match word.as_str() {
            "," if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(word);
            part.push(' ');
        }
    }
    parts
}

/// `SELECT` of these columns.
pub(super) fn query(columns: &str) -> Read<Statement> {
    let pieces =
        divide(&format!("SELECT {columns}"), "values").map_err(|error| Report::of_reading(&error))?;
    let [piece] = pieces.as_slice() else { return Err(wrong("the values are not a list of expressions")) };
    piece.read().map_err(|error| Report::of_reading(&error).without_place())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Read<PrepareStatement> {
        let piece = divide(text, "test").unwrap().remove(0);
        PrepareStatement::read(&piece, &piece.words()).expect("about a prepared statement")
    }

    #[test]
    fn a_statement_is_prepared_with_the_types_of_its_parameters() {
        let Ok(PrepareStatement::Prepare { name, types, statement }) = read(
            "prepare \"Q 1\" (bigint, decimal(10, 2), double precision) as SELECT CAST($1 AS BIGINT) AS x",
        ) else {
            panic!()
        };
        let types: Vec<&str> = types.iter().map(|kind| kind.trim()).collect();
        assert_eq!(
            (name.as_str(), types.as_slice()),
            ("Q 1", &["bigint", "decimal ( 10 , 2 )", "double precision"][..])
        );
        assert_eq!(statement.text, "SELECT CAST($1 AS BIGINT) AS x");
        for wrong in [
            "PREPARE q",
            "PREPARE AS SELECT 1",
            "PREPARE q AS",
            "PREPARE q bigint AS SELECT 1",
            "PREPARE q AS BEGIN",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_statement_is_executed_with_values() {
        let Ok(PrepareStatement::Execute { name, values: Some(values), .. }) =
            read("EXECUTE q (1 + 2, 'a, b')")
        else {
            panic!()
        };
        assert_eq!((name.as_str(), values.text.as_str()), ("q", "SELECT 1 + 2 , 'a, b'"));
        for text in ["EXECUTE q", "EXECUTE q()"] {
            assert!(matches!(read(text), Ok(PrepareStatement::Execute { values: None, .. })), "{text}");
        }
        for wrong in ["EXECUTE", "EXECUTE q 1", "EXECUTE q (1", "EXECUTE q (1; 2)"] {
            let pieces = divide(wrong, "test").unwrap();
            let read =
                PrepareStatement::read(&pieces[0], &pieces[0].words()).expect("about a prepared statement");
            assert!(read.is_err(), "{wrong}");
        }
    }
}
