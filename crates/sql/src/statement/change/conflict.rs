//! `ON CONFLICT`: what becomes of a row whose key a table has already.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ConflictTarget, Expr, Ident, OnConflictAction, OnInsert, Statement as Parsed, VisitorMut,
};

use super::made::{Made, made, named, relation, row_of};
use super::read::alias;
use super::{Assigned, TARGET, TableChange, TableShape};
use crate::TextError;
use crate::statement::calls::normal;
use crate::text::Problem;
use tidemill_trees::syntax::walk_mut;

/// What becomes of a row whose key the table has already.
pub enum Conflict {
    /// It is an error.
    Refused,
    /// It is left out.
    Nothing,
    /// The row that is there gets values. The query reads the rows that are there, each with the columns of the one that was to be
    /// inserted behind its own: those are called as [`excluded`](Conflict::excluded) says.
    Update(Box<Assigned>),
}

impl Conflict {
    /// What becomes of the rows of a change whose key the table has already.
    ///
    /// # Errors
    /// If it names other columns than those of the key.
    pub fn of(change: &TableChange, table: &TableShape) -> Result<Conflict, TextError> {
        of(change, table)
    }

    /// What the query calls a column of the row that was to be inserted.
    pub fn excluded(column: &str) -> String {
        format!("$excluded {column}")
    }
}

fn of(change: &TableChange, table: &TableShape) -> Result<Conflict, TextError> {
    let Parsed::Insert(insert) = &*change.change else { return Ok(Conflict::Refused) };
    let Some(on) = &insert.on else { return Ok(Conflict::Refused) };
    let OnInsert::OnConflict(on) = on else {
        return Err(change.not_supported(
            "ON DUPLICATE KEY UPDATE is not known",
            "ON CONFLICT (key) DO UPDATE SET column = excluded.column",
        ));
    };
    let names_key = match &on.conflict_target {
        None => true,
        Some(ConflictTarget::Columns(columns)) => {
            let columns: Vec<String> = columns.iter().map(normal).collect();
            let key: Vec<&str> =
                table.key.iter().map(|column| table.columns.field(*column).name().as_str()).collect();
            !key.is_empty()
                && key.iter().all(|name| columns.iter().any(|column| column == name))
                && columns.iter().all(|column| key.contains(&column.as_str()))
        }
        Some(ConflictTarget::OnConstraint(name)) => {
            !table.key.is_empty() && name.to_string().trim_matches('"') == format!("{}_pkey", change.table)
        }
    };
    if !names_key {
        let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
        return Err(change
            .error(message)
            .of(Problem::NoConstraint)
            .with_hint("name the columns of the PRIMARY KEY"));
    }
    let update = match &on.action {
        OnConflictAction::DoNothing => return Ok(Conflict::Nothing),
        OnConflictAction::DoUpdate(_) if on.conflict_target.is_none() => {
            let error =
                change.error("ON CONFLICT DO UPDATE requires inference specification or constraint name");
            return Err(error.of(Problem::Syntax).with_hint("ON CONFLICT (key) DO UPDATE SET ..."));
        }
        OnConflictAction::DoUpdate(update) => update,
    };
    let alias = alias(change);
    let mut columns = vec![named(row_of(&alias), super::ROW)];
    let mut places = Vec::new();
    for (place, mut value) in change.assignments(table, &update.assignments)? {
        name_excluded(&mut value, &alias);
        columns.push(named(value, &format!("$set {place}")));
        places.push(place);
    }
    let mut selection = update.selection.clone();
    if let Some(selection) = &mut selection {
        name_excluded(selection, &alias);
    }
    let query = made(change, Made { columns, from: vec![relation(TARGET, &alias)], selection })?;
    Ok(Conflict::Update(Box::new(Assigned { query, columns: places })))
}

/// The values that `DO UPDATE` assigns.
pub(super) fn conflict_assignments(
    change: &TableChange,
    table: &TableShape,
) -> Result<Vec<(usize, Expr)>, TextError> {
    match &*change.change {
        Parsed::Insert(insert) => match &insert.on {
            Some(OnInsert::OnConflict(on)) => match &on.action {
                OnConflictAction::DoUpdate(update) => change.assignments(table, &update.assignments),
                OnConflictAction::DoNothing => Ok(Vec::new()),
            },
            _ => Ok(Vec::new()),
        },
        _ => Ok(Vec::new()),
    }
}

/// Reads `excluded.column` as the column of the row that was to be inserted.
fn name_excluded(expression: &mut Expr, alias: &Ident) {
    struct Names<'a>(&'a Ident);

    impl VisitorMut for Names<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(parts) = expression
                && let [relation, column] = parts.as_mut_slice()
                && normal(relation) == "excluded"
            {
                let name = Conflict::excluded(&normal(column));
                (*relation, *column) = (self.0.clone(), Ident::with_quote('"', name));
            }
            ControlFlow::Continue(())
        }
    }

    let _ = walk_mut(expression, &mut Names(alias));
}
