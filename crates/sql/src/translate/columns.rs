//! Schemas of streams: unique names for the columns of a logical plan; and what columns stand for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Expr, SortExpr};
use tidemill_operators::top::OrderBy;

use tidemill_trees::nodes::Tree;

/// The schema of a stream with these columns. Repeated names get a number, because streams have no qualifiers. Every
/// column may be NULL, because expressions promise nothing else.
pub(super) fn stream_schema(columns: impl IntoIterator<Item = (String, DataType)>) -> SchemaRef {
    let mut taken = HashSet::new();
    // Hundreds of joined streams have hundreds of columns of one name: no number is tried twice for it.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let fields = columns.into_iter().map(|(name, data_type)| {
        let mut unique = name.clone();
        while !taken.insert(unique.clone()) {
            let number = numbers.entry(name.clone()).or_insert(2);
            unique = format!("{name}_{number}");
            *number += 1;
        }
        Field::new(unique, data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The schema of a stream with these columns, whatever their names.
pub(crate) fn unique(schema: &Schema) -> SchemaRef {
    extended(schema, [])
}

/// Returns the schema of a stream with more columns at its end.
pub(super) fn extended(schema: &Schema, more: impl IntoIterator<Item = (String, DataType)>) -> SchemaRef {
    let own = schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone()));
    stream_schema(own.chain(more))
}

/// Returns the order by columns with these places.
pub(super) fn order_of(places: &[usize], order_by: &[SortExpr]) -> Vec<OrderBy> {
    let by = places.iter().zip(order_by);
    by.map(|(column, by)| OrderBy { column: *column, descending: !by.asc, nulls_first: by.nulls_first })
        .collect()
}

/// The stream schema of a logical plan's columns.
pub(super) fn schema_of(schema: &DFSchema) -> SchemaRef {
    stream_schema(schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())))
}

/// Replaces columns of an expression by their definitions.
pub(super) fn replace_columns(
    expression: Expr,
    replacement: impl Fn(&Column) -> Result<Option<Expr>>,
) -> Result<Expr> {
    expression
        .rewrite_up(|part| match &part {
            Expr::Column(column) => match replacement(column)? {
                Some(replaced) => Ok(Transformed::yes(replaced)),
                None => Ok(Transformed::no(part)),
            },
            _ => Ok(Transformed::no(part)),
        })
        .data()
}

/// The columns by which rows are spread over partitions, as widely as possible: nothing depends on it, for nothing is kept.
/// To hash an array costs more than to pass it on, so lists and structs are left out if there are other columns.
pub(super) fn spread(schema: &SchemaRef) -> Vec<usize> {
    let is_plain = |column: &usize| !schema.field(*column).data_type().is_nested();
    let all = 0..schema.fields().len();
    let plain: Vec<usize> = all.clone().filter(is_plain).collect();
    if plain.is_empty() { all.collect() } else { plain }
}
