//! `CREATE SOURCE` and `CREATE TABLE`.

use super::columns::{self, Column, Columns, Watermark};
use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::{Name, Options, RelationKind};

/// `CREATE [OR REPLACE] SOURCE [IF NOT EXISTS] name [(columns, WATERMARK FOR ...)] WITH (...)`, and the same
/// with `TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSource {
    /// Its name.
    pub name: Name,
    /// The columns; empty if they are to be inferred from the data. If all are computed, the others are inferred.
    pub columns: Vec<Column>,
    /// How late rows may come; `None` if there are no event times. Tables have none.
    pub watermark: Option<Watermark>,
    /// The columns that identify rows (`PRIMARY KEY`); empty if not given.
    pub key: Vec<Name>,
    /// Where the rows come from, and how they are read.
    pub options: Options,
    /// It is not an error if it already exists: then nothing happens.
    pub if_not_exists: bool,
    /// Whether an existing one is replaced.
    pub or_replace: bool,
}

/// Reads what follows `CREATE SOURCE` or `CREATE TABLE`.
pub(crate) fn read(
    cursor: &mut Cursor<'_>,
    kind: RelationKind,
    or_replace: bool,
    options: Options,
) -> Result<CreateSource, TextError> {
    let what = kind.keyword().to_ascii_lowercase();
    let if_not_exists = cursor.take(&["IF", "NOT", "EXISTS"]);
    let name = cursor.relation_name(&format!("the name of the {what}"))?;
    let Columns { columns, watermark, key } = columns::read(cursor)?;
    if cursor.sees(&["AS"]) && kind == RelationKind::Table {
        let error = cursor.unexpected("WITH (...)");
        return Err(error.with_hint(
            "a table is read from a file; use CREATE MATERIALIZED VIEW to keep the rows of a query",
        ));
    }
    let options = Options::read_before(cursor, options)?;
    cursor.finish(&format!("CREATE {} statement", kind.keyword()))?;
    if let (RelationKind::Table, Some(watermark)) = (kind, &watermark) {
        let error = TextError::new(cursor.script(), watermark.span, "a table has no watermark");
        return Err(
            error.with_hint("a table is read once, before the streams; use CREATE SOURCE for a stream")
        );
    }
    Ok(CreateSource { name, columns, watermark, key, options, if_not_exists, or_replace })
}
