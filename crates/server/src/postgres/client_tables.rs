//! Tables into which clients put rows. Such a table is a materialized view of all rows of a source, `name_rows`: rows that are inserted into
//! the table go there.

use tidemill_sql::Catalog;

/// Returns the name of the source of a table's rows.
pub(crate) fn source_name(table: &str) -> String {
    format!("{table}_rows")
}

/// Returns the name of the source of a table's rows; `None` if it is not such a table.
pub(crate) fn source_of(catalog: &Catalog, table: &str) -> Option<String> {
    let source = source_name(table);
    let columns = catalog.push_target(&source)?.schema().fields();
    let columns: Vec<&str> = columns.iter().map(|column| column.name().as_str()).collect();
    (catalog.definition_of(table)? == view(table, &columns)).then_some(source)
}

/// Returns the statement that defines the view of a table.
pub(crate) fn view(table: &str, columns: &[&str]) -> String {
    let columns: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
    let source = quoted(&source_name(table));
    format!("CREATE MATERIALIZED VIEW {} AS SELECT {} FROM {source}", quoted(table), columns.join(", "))
}

/// Returns a name in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
