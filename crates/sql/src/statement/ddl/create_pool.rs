//! `CREATE POOL`.

use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::{Name, Options, StatementKind};

/// `CREATE [OR REPLACE] POOL [IF NOT EXISTS] name [WITH (...)]`
#[derive(Clone, Debug, PartialEq)]
pub struct CreatePool {
    /// Its name.
    pub name: Name,
    /// Policy, priority, cores, budget.
    pub options: Options,
    /// Whether an existing one is replaced.
    pub or_replace: bool,
    /// It is not an error if it already exists: then nothing happens.
    pub if_not_exists: bool,
}

/// Reads what follows `CREATE POOL`.
pub(crate) fn read(
    cursor: &mut Cursor<'_>,
    or_replace: bool,
    options: Options,
) -> Result<StatementKind, TextError> {
    let if_not_exists = cursor.take(&["IF", "NOT", "EXISTS"]);
    let name = cursor.relation_name("the name of the pool")?;
    cursor.finish("CREATE POOL statement")?;
    Ok(StatementKind::CreatePool(CreatePool { name, options, or_replace, if_not_exists }))
}
