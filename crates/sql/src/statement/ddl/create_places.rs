//! `CREATE PLACES`.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::{Name, StatementKind};

/// `CREATE [OR REPLACE] PLACES [IF NOT EXISTS] name (member, ...)`
#[derive(Clone, Debug, PartialEq)]
pub struct CreatePlaces {
    /// The name of the group.
    pub name: Name,
    /// Whether an existing one is replaced.
    pub or_replace: bool,
    /// It is not an error if it already exists: then nothing happens.
    pub if_not_exists: bool,
    /// Its members.
    pub members: Vec<PlaceName>,
}

/// A place as written.
#[derive(Clone, Debug, PartialEq)]
pub enum PlaceName {
    /// The number of a place; on one machine, of a worker.
    Number(u32),
    /// The places of a group.
    Group(Name),
}

/// Reads what follows `CREATE PLACES`.
pub(crate) fn read(cursor: &mut Cursor<'_>, or_replace: bool) -> Result<StatementKind, TextError> {
    let if_not_exists = cursor.take(&["IF", "NOT", "EXISTS"]);
    let name = cursor.relation_name("the name of the places")?;
    cursor.expect_symbol(&Token::LParen)?;
    let mut members = vec![place(cursor)?];
    while cursor.take_symbol(&Token::Comma) {
        members.push(place(cursor)?);
    }
    cursor.expect_symbol(&Token::RParen)?;
    cursor.finish("CREATE PLACES statement")?;
    Ok(StatementKind::CreatePlaces(CreatePlaces { name, or_replace, if_not_exists, members }))
}

/// Reads a number or a name.
pub(crate) fn place(cursor: &mut Cursor<'_>) -> Result<PlaceName, TextError> {
    let Token::Number(digits, _) = &cursor.peek().token else {
        return Ok(PlaceName::Group(cursor.relation_name("a place: the number of a worker, or a name")?));
    };
    let Ok(number) = digits.parse() else {
        return Err(cursor.unexpected("the number of a worker"));
    };
    cursor.advance();
    Ok(PlaceName::Number(number))
}
