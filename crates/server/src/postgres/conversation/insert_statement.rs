//! `INSERT INTO source [(column, ...)] query`.

use tidemill_sql::{Piece, Statement};

use super::words::{closed, folded, name};
use crate::report::{Report, SYNTAX_ERROR};

/// Rows for a source. If there is a sink of that name, it is a definition: an input of the sink.
#[derive(Clone, Debug)]
pub(crate) struct InsertStatement {
    pub source: String,
    /// The columns that the values are for; `None`: the first ones.
    pub columns: Option<Vec<String>>,
    pub query: Box<Statement>,
    /// The same as a definition, if it can be one.
    pub definition: Option<Box<Statement>>,
}

impl InsertStatement {
    /// What a statement says whose words these are; `None` if it does not insert.
    pub fn read(piece: &Piece, words: &[String]) -> Option<Result<InsertStatement, Report>> {
        let is = |at: usize, word: &str| words.get(at).is_some_and(|given| given.eq_ignore_ascii_case(word));
        (is(0, "INSERT") && is(1, "INTO")).then(|| read(piece, words))
    }
}

fn read(piece: &Piece, words: &[String]) -> Result<InsertStatement, Report> {
    let wrong = |message: &str| {
        Report::error(SYNTAX_ERROR, message).with_hint("INSERT INTO source (column, ...) VALUES (value, ...)")
    };
    let target = match words.get(2..4) {
        Some([schema, dot]) if dot == "." && name(schema).eq_ignore_ascii_case("public") => 4,
        _ => 2,
    };
    let source = words.get(target).ok_or_else(|| wrong("the statement does not say where to insert"))?;
    let mut at = target + 1;
    let is = |at: usize, word: &str| words.get(at).is_some_and(|given| given.eq_ignore_ascii_case(word));
    let begins_query =
        |at: usize| ["SELECT", "WITH", "VALUES", "FROM", "TABLE", "("].iter().any(|word| is(at, word));
    let mut columns = None;
    if is(at, "(") && !begins_query(at + 1) {
        let end = at + closed(&words[at..]).ok_or_else(|| wrong("a parenthesis is not closed"))?;
        columns =
            Some(words[at + 1..end].iter().filter(|word| *word != ",").map(|word| folded(word)).collect());
        at = end + 1;
    }
    let clauses: [(&[&str], &str); 2] = [(&["ON", "CONFLICT"], "ON CONFLICT"), (&["RETURNING"], "RETURNING")];
    for (clause, shown) in clauses {
        let is_clause = |at: usize| (0..).zip(clause).all(|(next, word)| is(at + next, word));
        if (at..words.len()).any(is_clause) {
            return Err(wrong(&format!("{shown} has no meaning for the rows of a stream")));
        }
    }
    let query = piece.part(at..words.len()).ok_or_else(|| wrong("there are no values to insert"))?;
    let query = query.read().map_err(|error| Report::of_reading(&error))?;
    let definition = piece.read().ok().map(Box::new);
    Ok(InsertStatement { source: folded(source), columns, query: Box::new(query), definition })
}
