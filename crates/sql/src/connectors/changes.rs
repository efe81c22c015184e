//! `changes = ...`: what the rows of a source mean for the relation that they make.

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::DFSchema;
use tidemill_engine::Cause;

use crate::logical::Provider;
use crate::relations::source_changes::SourceChanges;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind};
use crate::statement::{CreateSource, Options, Statement, expression_of};
use crate::text::TextError;

/// What the rows mean.
pub(super) const CHANGES: OptionDefinition = OptionDefinition::new(
    "changes",
    OptionKind::Choice(&["append", "upsert", "weights"]),
    OptionDefault::Value("append"),
    "what its rows mean. `append`: each is one more. `upsert`: each replaces the one with the same PRIMARY KEY. \
     `weights`: the column `weight`, a BIGINT NOT NULL that queries do not see, says how many of it come, or go if it \
     is negative",
);

/// Which of the rows delete.
pub(super) const DELETED: OptionDefinition = OptionDefinition::new(
    "deleted",
    OptionKind::Text,
    OptionDefault::Nothing("none"),
    "with `changes = 'upsert'`, a condition on the columns: a row for which it is true deletes the one with its key, \
     such as `deleted = 'op = ''delete'''`",
);

/// The name of the column with weights.
const WEIGHT: &str = "weight";

/// What the rows of a source mean that has these columns; `None`: each is one more.
pub(super) fn source_changes(
    create: &CreateSource,
    options: &Options,
    schema: &SchemaRef,
    (statement, provider): (&Statement, &Provider<'_>),
) -> Result<Option<SourceChanges>, TextError> {
    let changes = options.text(CHANGES.name)?.unwrap_or("append");
    if changes != "upsert" && options.get(DELETED.name).is_some() {
        let error =
            options.error_at_name(DELETED.name, "only rows that replace others by key can also delete them");
        return Err(error.with_hint("add changes = 'upsert' and a PRIMARY KEY, or remove it"));
    }
    match changes {
        "upsert" if create.key.is_empty() => {
            let error = options.error(CHANGES.name, "no key says which row is replaced");
            Err(error.with_hint("declare it: PRIMARY KEY (column)"))
        }
        "upsert" => {
            let deleted = options.text(DELETED.name)?;
            let deleted =
                deleted.map(|text| condition(text, options, schema, (statement, provider))).transpose()?;
            Ok(Some(SourceChanges::Upsert { deleted }))
        }
        "weights" => {
            let found = schema.column_with_name(WEIGHT);
            match found {
                Some((column, field)) if *field.data_type() == DataType::Int64 && !field.is_nullable() => {
                    Ok(Some(SourceChanges::Weights { column }))
                }
                _ => {
                    let error = options.error(CHANGES.name, "no column has the weights of the rows");
                    Err(error.with_hint("declare it: weight BIGINT NOT NULL"))
                }
            }
        }
        _ => Ok(None),
    }
}

fn condition(
    text: &str,
    options: &Options,
    schema: &SchemaRef,
    (statement, provider): (&Statement, &Provider<'_>),
) -> Result<datafusion::logical_expr::Expr, TextError> {
    let refused = |error: &TextError| {
        options.error(DELETED.name, error.message.clone()).with_optional_hint(error.hint.clone())
    };
    let written = expression_of(text).map_err(|error| refused(&error))?;
    let columns = DFSchema::try_from(schema.as_ref().clone());
    let columns =
        columns.map_err(|error| options.error(DELETED.name, Cause::user(error.to_string()).to_string()))?;
    let condition = provider
        .expression(&written, &columns)
        .map_err(|error| refused(&provider.text_error(&error, statement)))?;
    let found = datafusion::logical_expr::ExprSchemable::get_type(&condition, &columns);
    match found {
        Ok(DataType::Boolean) => Ok(condition),
        _ => Err(options
            .error(DELETED.name, "it is not a condition")
            .with_hint("write a comparison, such as op = 'delete'")),
    }
}
