//! Which fragment of a store has the rows that a query asks for.

use datafusion::arrow::array::{RecordBatch, new_null_array};
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable};
use tidemill_engine::Cut;
use tidemill_store::{Fragmentation, StoreConfig};

use crate::expressions::compiled::Compiled;
use tidemill_trees::nodes::Tree;

/// The expression that divides the rows of a store, and what a query says about its value.
pub(super) struct Divider<'a> {
    config: &'a StoreConfig,
    fragmentation: &'a Fragmentation,
    by: &'a Expr,
    schema: DFSchema,
    /// Its value, if the query says it.
    value: Option<ScalarValue>,
    /// For each column of the store its value, if the query says it.
    columns: Vec<Option<ScalarValue>>,
}

impl<'a> Divider<'a> {
    /// `None` if the rows are divided by their key, or not at all.
    pub fn new(config: &'a StoreConfig, by: Option<&'a Expr>) -> Option<Divider<'a>> {
        let fragmentation = config.fragments.as_ref()?;
        let schema = DFSchema::try_from(config.schema.clone()).ok()?;
        let columns = vec![None; config.schema.fields().len()];
        Some(Divider { config, fragmentation, by: by?, schema, value: None, columns })
    }

    /// Only rows are wanted for which this is equal to a value.
    pub fn is_equal(&mut self, what: &Expr, value: &ScalarValue) {
        // Numbers that are equal may differ in bits, and lists may contain such numbers.
        let data_type = value.data_type();
        if data_type.is_floating() || data_type.is_nested() {
            return;
        }
        let Some(what) = unqualified(what) else { return };
        let is_same_type = what.get_type(&self.schema).is_ok_and(|found| found == data_type);
        if !is_same_type {
            return;
        }
        if what == *self.by {
            self.value = Some(value.clone());
        }
        if let Expr::Column(column) = &what
            && let Ok(index) = self.config.schema.index_of(column.name())
        {
            self.columns[index] = Some(value.clone());
        }
    }

    /// The fragment that has the rows, if the query says it.
    pub fn fragment(self) -> Option<usize> {
        let value = match &self.value {
            Some(value) => value.to_array_of_size(1).ok()?,
            None => {
                let is_known = |column: &&Column| {
                    let index = self.config.schema.index_of(column.name());
                    index.is_ok_and(|index| self.columns[index].is_some())
                };
                let columns = self.by.column_refs();
                if columns.is_empty() || !columns.iter().all(is_known) {
                    return None;
                }
                let row = self.row()?;
                // A row for which it cannot be computed is somewhere else.
                Compiled::new(self.by, &self.schema).ok()?.values(&row, &Cut::first()).ok()?
            }
        };
        self.fragmentation.fragment_of(&[value])
    }

    /// One row with the known values.
    fn row(&self) -> Option<RecordBatch> {
        let fields = self.config.schema.fields().iter();
        let value = |(field, value): (&FieldRef, &Option<ScalarValue>)| match value {
            Some(value) => value.to_array_of_size(1).ok(),
            None => Some(new_null_array(field.data_type(), 1)),
        };
        let columns = fields.clone().zip(&self.columns).map(value).collect::<Option<Vec<_>>>()?;
        let fields: Vec<_> = fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
        RecordBatch::try_new(Schema::new(fields).into(), columns).ok()
    }
}

/// The expression as it was written for the store: without the names of relations.
fn unqualified(expression: &Expr) -> Option<Expr> {
    let plain = expression.clone().rewrite_up(|part| match part {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::from_name(column.name)))),
        Expr::Alias(alias) => Ok(Transformed::yes(*alias.expr)),
        other => Ok(Transformed::no(other)),
    });
    plain.data().ok()
}
