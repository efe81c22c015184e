//! `PREPARE` and `EXECUTE`.

use std::sync::Arc;

use tidemill_engine::arrow::array::RecordBatch;
use tidemill_service::Reply;
use tidemill_sql::{Parameter, ParameterType, Piece, Statement, divide};

use super::answer::{Answer, Rows};
use super::limits::check_room;
use super::prepared::PreparedStatement;
use super::wanted::Wanted;
use super::words::folded;
use super::{Conversation, Result};
use crate::report::{
    DUPLICATE_STATEMENT, INVALID_VALUE, NOT_SUPPORTED, PROTOCOL_VIOLATION, Report, SYNTAX_ERROR,
};
use crate::text_rows::plan_table;
use crate::values::{Column, columns, kind_of_parameter, parameter, write_value};

/// A statement about a prepared statement. Clients that prepare by the protocol use the same names.
#[derive(Clone, Debug)]
pub(crate) enum PrepareStatement {
    Prepare {
        name: String,
        /// The types of the first parameters, as they are written.
        types: Vec<String>,
        wanted: Box<Wanted>,
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

fn wrong(message: &str) -> Report {
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
    let wanted = Box::new(Wanted::read(&statement)?);
    match *wanted {
        Wanted::Statement(_) => Ok(PrepareStatement::Prepare { name: folded(name), types, wanted }),
        _ => Err(wrong("only statements of the language are prepared, such as SELECT")),
    }
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
fn query(columns: &str) -> Read<Statement> {
    let pieces =
        divide(&format!("SELECT {columns}"), "values").map_err(|error| Report::of_reading(&error))?;
    let [piece] = pieces.as_slice() else { return Err(wrong("the values are not a list of expressions")) };
    piece.read().map_err(|error| Report::of_reading(&error).without_place())
}

impl Conversation<'_> {
    pub(super) fn execute_prepare_statement(&mut self, statement: &PrepareStatement) -> Result<Answer> {
        match statement {
            PrepareStatement::Prepare { name, types, wanted } => {
                if self.statements.contains_key(name) {
                    let message = format!("prepared statement '{name}' already exists");
                    return Err(Report::error(DUPLICATE_STATEMENT, message).into());
                }
                check_room(self.statements.len(), "prepared statements", "DEALLOCATE ALL")?;
                let types: Vec<u32> = self.types(types)?;
                let prepared = self.prepared_of(Some(wanted.as_ref().clone()), &types)?;
                self.statements.insert(name.clone(), Arc::new(prepared));
                Ok(Answer::Done("PREPARE".to_owned()))
            }
            PrepareStatement::Execute { name, values, is_explained } => {
                let prepared = self.prepared(name)?;
                let values = self.values(&prepared, name, values.as_deref())?;
                match prepared.with_values(values)? {
                    Some(wanted) if *is_explained => self.explain(name, &wanted),
                    Some(wanted) => self.execute(&wanted),
                    None => Ok(Answer::Done("EXECUTE".to_owned())),
                }
            }
        }
    }

    fn explain(&mut self, name: &str, wanted: &Wanted) -> Result<Answer> {
        let text = match wanted {
            Wanted::Prepared(query, values) => {
                self.session.explain_with(query, values).map_err(Report::from)?
            }
            _ => None,
        };
        let text = text.ok_or_else(|| {
            let message = format!("'{name}' is planned each time that it is executed");
            Report::error(NOT_SUPPORTED, message).with_hint("EXPLAIN SELECT ..., with the values")
        })?;
        Ok(Answer::Rows(Rows::ready(plan_table(&text), "EXPLAIN", &self.session)?))
    }

    /// The columns of the rows of a statement that was prepared; `None` if it gives none.
    pub(super) fn columns_of_executed(
        &mut self,
        name: &str,
        formats: &[u16],
    ) -> std::result::Result<Option<Vec<Column>>, Report> {
        let prepared = self.prepared(name)?;
        let nulls = prepared.parameters.iter().map(|kind| Parameter::null(*kind)).collect();
        let wanted = prepared.with_values(nulls)?;
        self.columns_of(wanted.as_ref(), formats)
    }

    /// The numbers of types, as the protocol has them.
    fn types(&mut self, types: &[String]) -> Result<Vec<u32>> {
        if types.is_empty() {
            return Ok(Vec::new());
        }
        let cast = |(index, kind): (usize, &String)| format!("CAST(${} AS {kind})", index + 1);
        let casts = query(&types.iter().enumerate().map(cast).collect::<Vec<_>>().join(", "))?;
        let kinds = self.session.parameter_types(&casts, &[]);
        Ok(kinds.into_iter().map(|kind| kind_of_parameter(kind).oid()).collect())
    }

    /// The values that EXECUTE gives, as the types of the parameters have them.
    fn values(
        &mut self,
        prepared: &PreparedStatement,
        name: &str,
        query: Option<&Statement>,
    ) -> Result<Vec<Parameter>> {
        let row = match query {
            None => None,
            Some(query) => {
                match self.session.execute(query).map_err(|error| Report::from(error).without_place())? {
                    Reply::Rows(row) => Some(row),
                    _ => return Err(wrong("the values of EXECUTE are constants").into()),
                }
            }
        };
        let given = row.as_ref().map_or(0, RecordBatch::num_columns);
        let kinds = &prepared.parameters;
        if given != kinds.len() {
            let message = format!("'{name}' has {} parameters, but {given} values were given", kinds.len());
            return Err(Report::error(PROTOCOL_VIOLATION, message).into());
        }
        let Some(row) = row else { return Ok(Vec::new()) };
        let texts = columns(&row.schema(), &[]);
        let value = |(index, kind): (usize, &ParameterType)| {
            let mut text = Vec::new();
            let is_there = write_value(&texts[index], row.column(index), 0, &mut text);
            parameter(*kind, false, is_there.then_some(&*text))
                .map_err(|why| Report::error(INVALID_VALUE, format!("${}: {why}", index + 1)))
        };
        Ok(kinds.iter().enumerate().map(value).collect::<std::result::Result<_, _>>()?)
    }
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
        let Ok(PrepareStatement::Prepare { name, types, wanted }) = read(
            "prepare \"Q 1\" (bigint, decimal(10, 2), double precision) as SELECT CAST($1 AS BIGINT) AS x",
        ) else {
            panic!()
        };
        let types: Vec<&str> = types.iter().map(|kind| kind.trim()).collect();
        assert_eq!(
            (name.as_str(), types.as_slice()),
            ("Q 1", &["bigint", "decimal ( 10 , 2 )", "double precision"][..])
        );
        assert_eq!(wanted.query().unwrap().text, "SELECT CAST($1 AS BIGINT) AS x");
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
