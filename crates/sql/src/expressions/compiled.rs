//! Expressions over batches: DataFusion's, extended to report overflow and to know the cycle's closing time.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, TimestampNanosecondArray};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, DataFusionError, Result, ScalarValue, TableReference};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column as PhysicalColumn, Literal, NegativeExpr};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use tidemill_engine::{Cause, Cut, Expression, bytes_of_column};

use crate::expressions::dictionary::OverDictionary;
use crate::limit_reached::stops;
use crate::logical::{BATCH_BYTES_MAX, too_much_at_once};
use tidemill_trees::nodes::Tree;

/// The name of the column that holds the cycle's closing time; no column of a query has this name.
const NOW_COLUMN: &str = "now()";

/// A compiled expression.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    physical: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    uses_now: bool,
    /// Whether it is computed from one dictionary.
    over_dictionary: Option<OverDictionary>,
}

impl Compiled {
    /// Compiles an expression over rows with this schema.
    pub fn new(expression: &Expr, schema: &DFSchema) -> Result<Self> {
        // Most expressions of a wide plan are columns: they need no schema of their own.
        if let Expr::Column(column) = expression {
            return Compiled::column(column, schema);
        }
        let with_now = schema_with_now(schema)?;
        let now = Expr::Column(Column::from_name(NOW_COLUMN));
        let replaced = crate::logical::with_now(expression.clone(), &now)?;
        let uses_now = replaced.transformed;
        let properties = ExecutionProps::new();
        let context = Default::default();
        let expression = crate::logical::with_one_nan_in(replaced.data, &with_now)?;
        let expression = crate::logical::with_bounds_in(expression)?;
        let physical = create_physical_expr(&expression, &with_now, &properties, &context)?;
        let physical = checked(physical, with_now.as_arrow())?;
        let data_type = physical.data_type(with_now.as_arrow())?;
        let over_dictionary = over_dictionary(&physical, with_now.as_arrow())?;
        Ok(Compiled { physical, data_type, uses_now, over_dictionary })
    }

    fn column(column: &Column, schema: &DFSchema) -> Result<Self> {
        let index = schema.index_of_column(column)?;
        let data_type = schema.field(index).data_type().clone();
        let physical = Arc::new(PhysicalColumn::new(&column.name, index));
        Ok(Compiled { physical, data_type, uses_now: false, over_dictionary: None })
    }

    /// The indexes of the columns that it reads.
    pub fn columns(&self) -> Vec<usize> {
        let columns = datafusion::physical_expr::utils::collect_columns(&self.physical);
        let mut columns: Vec<usize> = columns.iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        columns
    }

    /// The same expression over rows that contain only these columns, in this order.
    pub fn over_columns(&self, kept: &[usize]) -> Result<Self> {
        self.relocated(kept.len(), |column| kept.iter().position(|index| *index == column))
    }

    /// The same expression over rows in which column `n` is at `places[n]` of the given number of columns.
    pub fn moved(&self, places: &[usize], columns: usize) -> Result<Self> {
        self.relocated(columns, |column| places.get(column).copied())
    }

    /// The same expression over rows with this many columns, in which each column that it reads has another index. The
    /// one without an index is the closing time, which comes after all columns.
    fn relocated(&self, columns: usize, place: impl Fn(usize) -> Option<usize>) -> Result<Self> {
        let physical = relocate(&self.physical, |column| place(column).unwrap_or(columns))?;
        let over_dictionary = self
            .over_dictionary
            .clone()
            .and_then(|over| Some(OverDictionary { column: place(over.column)?, ..over }));
        Ok(Compiled { physical, over_dictionary, ..self.clone() })
    }

    /// One value per row, or DataFusion's error.
    pub fn values(&self, rows: &RecordBatch, cut: &Cut) -> Result<ArrayRef> {
        match self.values_at_once(rows, cut) {
            Err(error) if rows.num_rows() > 1 && is_too_much(&error) => {
                let (mut parts, mut bytes) = (Vec::new(), 0);
                self.values_by_halves(rows, cut, &mut parts, &mut bytes)?;
                let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
                Ok(concat(&parts)?)
            }
            values => values,
        }
    }

    /// What would be too much at once is computed of half of the rows, and then of the other half.
    fn values_by_halves(
        &self,
        rows: &RecordBatch,
        cut: &Cut,
        parts: &mut Vec<ArrayRef>,
        bytes: &mut usize,
    ) -> Result<()> {
        match self.values_at_once(rows, cut) {
            Err(error) if rows.num_rows() > 1 && is_too_much(&error) => {
                let half = rows.num_rows() / 2;
                self.values_by_halves(&rows.slice(0, half), cut, parts, bytes)?;
                self.values_by_halves(&rows.slice(half, rows.num_rows() - half), cut, parts, bytes)
            }
            values => {
                let values = values?;
                *bytes += bytes_of_column(&values);
                parts.push(values);
                if *bytes > BATCH_BYTES_MAX && parts.len() > 1 {
                    Err(too_much_at_once("an expression", rows.num_rows()))
                } else {
                    Ok(())
                }
            }
        }
    }

    fn values_at_once(&self, rows: &RecordBatch, cut: &Cut) -> Result<ArrayRef> {
        if let Some(values) = self.over_dictionary.as_ref().and_then(|over| over.values(rows)) {
            return Ok(values);
        }
        let values = if self.uses_now {
            self.physical.evaluate(&rows_with_now(rows, cut)?)?
        } else {
            self.physical.evaluate(rows)?
        };
        values.into_array(rows.num_rows())
    }
}

fn is_too_much(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

impl Expression for Compiled {
    fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    fn evaluate(&self, rows: &RecordBatch, cut: &Cut) -> std::result::Result<ArrayRef, Cause> {
        self.values(rows, cut).map_err(|error| match stops(&error) {
            Some(cause) => cause.clone(),
            None => Cause::user(plain(&error)).with_source(error),
        })
    }
}

const NOT_DONE: &str = "This feature is not implemented: ";

/// The message of an error, without DataFusion's prefixes.
pub(crate) fn plain(error: &datafusion::common::DataFusionError) -> String {
    let text = error.strip_backtrace();
    let headings = [
        "Arrow error: ",
        "Execution error: ",
        "External error: ",
        "Error during planning: ",
        "Divide by zero error: ",
        "Resources exhausted: ",
        NOT_DONE,
    ];
    let mut text = text.as_str();
    while let Some(rest) = headings.iter().find_map(|heading| text.strip_prefix(heading)) {
        text = rest;
    }
    crate::text::wording::plain_sentence(text)
}

/// The expression over its single column, if that is a dictionary and there is something to compute.
fn over_dictionary(physical: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<OverDictionary>> {
    let columns = datafusion::physical_expr::utils::collect_columns(physical);
    let mut columns = columns.iter();
    let (Some(column), None) = (columns.next(), columns.next()) else { return Ok(None) };
    let is_dictionary = matches!(schema.field(column.index()).data_type(), DataType::Dictionary(_, _));
    if !is_dictionary || as_column(physical).is_some() {
        return Ok(None);
    }
    Ok(Some(OverDictionary { column: column.index(), expression: relocate(physical, |_| 0)? }))
}

/// The expression with its columns at other indexes.
fn relocate(
    physical: &Arc<dyn PhysicalExpr>,
    place: impl Fn(usize) -> usize,
) -> Result<Arc<dyn PhysicalExpr>> {
    let relocated = Arc::clone(physical).rewrite_up(|part| {
        let Some(column) = as_column(&part) else { return Ok(Transformed::no(part)) };
        let relocated = PhysicalColumn::new(column.name(), place(column.index()));
        Ok(Transformed::yes(Arc::new(relocated) as _))
    });
    relocated.data()
}

fn as_column(physical: &Arc<dyn PhysicalExpr>) -> Option<&PhysicalColumn> {
    (physical.as_ref() as &dyn Any).downcast_ref()
}

fn now_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, None)
}

fn schema_with_now(schema: &DFSchema) -> Result<DFSchema> {
    let mut fields: Vec<(Option<TableReference>, _)> =
        schema.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
    fields.push((None, Arc::new(Field::new(NOW_COLUMN, now_type(), false))));
    DFSchema::new_with_metadata(fields, Default::default())
}

fn rows_with_now(rows: &RecordBatch, cut: &Cut) -> Result<RecordBatch> {
    let now = TimestampNanosecondArray::from_value(cut.closed_at_ns as i64, rows.num_rows());
    let mut fields: Vec<_> = rows.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new(NOW_COLUMN, now_type(), false)));
    let mut columns = rows.columns().to_vec();
    columns.push(Arc::new(now));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

/// Overflow of integer sums, differences, products and negations is reported as an error.
fn checked(expression: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let checked = expression.rewrite_up(|part| {
        let any = part.as_ref() as &dyn Any;
        if let Some(binary) = any.downcast_ref::<BinaryExpr>() {
            return Ok(Transformed::yes(Arc::new(binary.clone().with_fail_on_overflow(true)) as _));
        }
        let Some(negative) = any.downcast_ref::<NegativeExpr>() else { return Ok(Transformed::no(part)) };
        let data_type = negative.data_type(schema)?;
        if !data_type.is_integer() {
            return Ok(Transformed::no(part));
        }
        let zero = Arc::new(Literal::new(ScalarValue::new_zero(&data_type)?));
        let difference = BinaryExpr::new(zero, Operator::Minus, Arc::clone(negative.arg()));
        Ok(Transformed::yes(Arc::new(difference.with_fail_on_overflow(true)) as _))
    });
    checked.data()
}
