//! What `FLOAT` meant in a definition of an earlier version: its journal has columns of 4 bytes (decision 0154).

use std::borrow::Cow;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::sql::sqlparser::ast;

use super::Planner;
use crate::statement::CreateSource;

/// Returns a definition with the types that its journal has, which is that of the next version of the catalogue.
pub(super) fn as_journaled<'a>(planner: &Planner, create: &'a CreateSource) -> Cow<'a, CreateSource> {
    let stream = format!("{}-{}", create.name, planner.catalog.version() + 1);
    match planner.journaled_columns.get(&stream) {
        Some(columns) => with_types_of(create, columns),
        None => Cow::Borrowed(create),
    }
}

/// A definition in which columns that have 4 bytes already do not get 8.
pub(super) fn with_types_of<'a>(create: &'a CreateSource, columns: &SchemaRef) -> Cow<'a, CreateSource> {
    let mut create = Cow::Borrowed(create);
    for (index, column) in create.clone().columns.iter().enumerate() {
        let (Some(declared), Ok(known)) = (&column.data_type, columns.field_with_name(column.name.as_str()))
        else {
            continue;
        };
        let mut meant = declared.clone();
        if column.computed.is_none() && shorten(&mut meant, known.data_type()) {
            create.to_mut().columns[index].data_type = Some(meant);
        }
    }
    create
}

/// Lets a type have 4 bytes where another one has; whether that changes it.
fn shorten(declared: &mut ast::DataType, known: &DataType) -> bool {
    match (declared, known) {
        (
            declared @ (ast::DataType::DoublePrecision | ast::DataType::Double(_) | ast::DataType::Float(_)),
            DataType::Float32,
        ) => {
            *declared = ast::DataType::Real;
            true
        }
        (
            ast::DataType::Array(
                ast::ArrayElemTypeDef::SquareBracket(item, _)
                | ast::ArrayElemTypeDef::AngleBracket(item)
                | ast::ArrayElemTypeDef::Parenthesis(item),
            ),
            DataType::List(known),
        ) => shorten(item, known.data_type()),
        (ast::DataType::Struct(fields, _), DataType::Struct(known)) => {
            let fields = fields.iter_mut().zip(known);
            fields.fold(false, |changed, (field, known)| {
                shorten(&mut field.field_type, known.data_type()) || changed
            })
        }
        _ => false,
    }
}
