//! `changes = ...`: what the rows of a source mean for the relation that they make.

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, ExprSchemable};

use crate::logical::Provider;
use crate::relations::source_changes::{COUNT_COLUMN, READER_COLUMN, SourceChanges};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind, OptionValues};
use crate::statement::{CreateSource, Options, Statement};
use crate::text::TextError;
use crate::translate::WEIGHT_COLUMN;

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

/// What the rows of a source mean that has these columns; `None`: each is one more.
pub(super) fn source_changes(
    create: &CreateSource,
    values: &OptionValues<'_>,
    schema: &SchemaRef,
    (statement, provider): (&Statement, &Provider<'_>),
) -> Result<Option<SourceChanges>, TextError> {
    let (options, changes) = (values.given(), values.required_text(CHANGES.name));
    if changes != "upsert" && values.is_given(DELETED.name) {
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
            let deleted = values.text(DELETED.name);
            let deleted =
                deleted.map(|text| condition(text, options, schema, (statement, provider))).transpose()?;
            Ok(Some(SourceChanges::Upsert { deleted }))
        }
        "weights" => {
            match schema.column_with_name(COUNT_COLUMN).or_else(|| schema.column_with_name(WEIGHT_COLUMN)) {
                Some((column, field)) if *field.data_type() == DataType::Int64 && !field.is_nullable() => {
                    let reader = schema.index_of(READER_COLUMN).ok().filter(|_| field.name() == COUNT_COLUMN);
                    Ok(Some(SourceChanges::Weights { column, reader }))
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
) -> Result<Expr, TextError> {
    let condition = provider.expression_of_option((options, DELETED.name), text, schema, statement)?;
    let columns = DFSchema::try_from(schema.as_ref().clone());
    match columns.and_then(|columns| condition.get_type(&columns)) {
        Ok(DataType::Boolean) => Ok(condition),
        _ => Err(options
            .error(DELETED.name, "it is not a condition")
            .with_hint("write a comparison, such as op = 'delete'")),
    }
}
