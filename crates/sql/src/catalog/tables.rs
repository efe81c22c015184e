//! Tables into which clients put rows, and which they change. Such a table is a materialized view of all rows of a source, `name_rows`, to
//! which the changes go.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use tidemill_connect::memory::PushTarget;

use super::Catalog;
use crate::relations::named_relations::Relation;
use crate::relations::source_changes::{COUNT_COLUMN, READER_COLUMN, SourceChanges};
use crate::statement::{CreateSource, StatementKind, TableShape, parse};

/// A table whose rows clients change.
#[derive(Clone)]
pub struct ClientTable {
    /// Its name.
    pub name: String,
    /// Where its changes go: its rows, and behind them the weight and the reader.
    pub target: PushTarget,
    /// Its columns.
    pub shape: TableShape,
}

/// A table that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTable {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<NewTableColumn>,
    /// The names of the columns that identify a row.
    pub key: Vec<String>,
}

/// A column of a table that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTableColumn {
    /// Its name.
    pub name: String,
    /// Its type, `NOT NULL` and `DEFAULT`, as a declaration has them.
    pub declaration: String,
}

impl NewTable {
    /// Returns the statements that define it: its source and its view.
    pub fn definitions(&self, is_durable: bool) -> [String; 2] {
        let column = |column: &NewTableColumn| format!("{} {}", quoted(&column.name), column.declaration);
        let mut parts: Vec<String> = self.columns.iter().map(column).collect();
        parts.push(format!("{} BIGINT NOT NULL, {} VARCHAR", quoted(COUNT_COLUMN), quoted(READER_COLUMN)));
        if !self.key.is_empty() {
            let key: Vec<String> = self.key.iter().map(|name| quoted(name)).collect();
            parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
        }
        let durable = if is_durable { ", durable = true" } else { "" };
        let source = format!(
            "CREATE SOURCE {} ({}) WITH (connector = 'table', changes = 'weights'{durable})",
            quoted(&ClientTable::source_of(&self.name)),
            parts.join(", ")
        );
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        [source, view(&self.name, &names)]
    }

    /// Returns the statements that drop a table of this name.
    pub fn drops(name: &str) -> [String; 2] {
        [
            format!("DROP MATERIALIZED VIEW {}", quoted(name)),
            format!("DROP SOURCE {}", quoted(&ClientTable::source_of(name))),
        ]
    }
}

impl ClientTable {
    /// Returns the table of this name that clients change; `None` if there is none.
    pub fn of(catalog: &Catalog, name: &str) -> Option<ClientTable> {
        let source = ClientTable::source_of(name);
        let Some(Relation::Source(definition)) = catalog.relations.get(&source) else { return None };
        let target = definition.push.as_ref().filter(|push| push.is_transactional())?.clone();
        let Some(SourceChanges::Weights { column, reader: Some(_) }) = definition.changes else {
            return None;
        };
        let own = &target.schema().fields()[..column];
        let names: Vec<&str> = own.iter().map(|field| field.name().as_str()).collect();
        if catalog.definition_of(name)? != view(name, &names) {
            return None;
        }
        let columns = Arc::new(Schema::new(own.to_vec()));
        let created = parse(&catalog.definition_of(&source)?, "a table").ok()?.into_iter().next()?;
        let StatementKind::CreateSource(CreateSource { columns: declared, .. }) = created.kind else {
            return None;
        };
        let default =
            |name: &&str| declared.iter().find(|column| column.name.as_str() == *name)?.default.clone();
        let defaults = names.iter().map(default).collect();
        let shape = TableShape { columns, key: definition.key.clone(), defaults };
        Some(ClientTable { name: name.to_owned(), target, shape })
    }

    /// Returns the name of the source of a table's changes.
    pub fn source_of(table: &str) -> String {
        format!("{table}_rows")
    }

    /// Returns the name of the source of its changes.
    pub fn source(&self) -> String {
        ClientTable::source_of(&self.name)
    }
}

/// Returns the statement that defines the view of a table.
fn view(table: &str, columns: &[&str]) -> String {
    let columns: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
    let source = quoted(&ClientTable::source_of(table));
    format!("CREATE MATERIALIZED VIEW {} AS SELECT {} FROM {source}", quoted(table), columns.join(", "))
}

/// Returns a name in quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
