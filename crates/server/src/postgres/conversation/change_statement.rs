//! `INSERT`, `UPDATE`, `DELETE`, `MERGE` and `TRUNCATE`: changes of a table. An `INSERT` may be for a source or a sink instead.

use tidemill_sql::{ChangeKind, Parameter, Piece, TableChange};

use super::insert_statement::InsertStatement;
use crate::report::Report;

/// A change of a table, or rows for a source or a sink.
pub(crate) enum ChangeOrInsert {
    Change(ChangeStatement),
    Insert(InsertStatement),
}

/// Whether a word begins a clause that only changes of tables have.
fn is_of_tables(word: &str) -> bool {
    word.eq_ignore_ascii_case("RETURNING") || word.eq_ignore_ascii_case("CONFLICT")
}

/// A change of a table.
#[derive(Clone, Debug)]
pub(crate) struct ChangeStatement {
    pub change: Box<TableChange>,
    /// What an `INSERT` means if there is no table of that name.
    pub insert: Option<Result<Box<InsertStatement>, Report>>,
}

impl ChangeStatement {
    /// What a statement says whose words these are; `None` if it changes no table.
    pub fn read(piece: &Piece, words: &[String]) -> Option<Result<ChangeOrInsert, Report>> {
        let change = TableChange::read(piece)?.map_err(|error| Report::of_reading(&error));
        let insert = InsertStatement::read(piece, words);
        Some(match (change, insert) {
            (Ok(change), insert) => {
                let (change, insert) = (Box::new(change), insert.map(|insert| insert.map(Box::new)));
                Ok(ChangeOrInsert::Change(ChangeStatement { change, insert }))
            }
            (Err(_), Some(Ok(insert))) => Ok(ChangeOrInsert::Insert(insert)),
            // What only a table has is not what is wrong.
            (Err(_), Some(Err(insert))) if !words.iter().any(|word| is_of_tables(word)) => Err(insert),
            (Err(report), _) => Err(report),
        })
    }

    /// With values in the place of parameters.
    pub fn bind(&self, values: &[Option<Parameter>]) -> ChangeStatement {
        ChangeStatement { change: Box::new(self.change.bind(values)), insert: None }
    }

    /// What other sessions see of it.
    pub fn shown(&self) -> String {
        let preposition = match self.change.kind {
            ChangeKind::Insert | ChangeKind::Merge => " INTO",
            ChangeKind::Delete => " FROM",
            ChangeKind::Update | ChangeKind::Truncate => "",
        };
        format!("{}{preposition} {} ...", self.change.kind.word(), self.change.table)
    }
}
