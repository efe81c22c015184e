//! Expressions over batches: DataFusion's, made to report overflow, and to know the cycle's closing time.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{Expr, cast};
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use tidemill_engine::{Cause, Cut, Expression};

use crate::dictionary::OverDictionary;
use crate::logical::{CURRENT_DATE, NOW};

/// The name of the column that holds the cycle's closing time; no column of a query is named so.
const NOW_COLUMN: &str = "now()";

/// A compiled expression.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    physical: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    uses_now: bool,
    /// If it is computed from one dictionary.
    over_dictionary: Option<OverDictionary>,
}

impl Compiled {
    /// Compiles an expression over rows with this schema.
    pub fn new(expression: &Expr, schema: &DFSchema) -> Result<Self> {
        let with_now = schema_with_now(schema)?;
        let (expression, uses_now) = replace_now(expression.clone())?;
        let properties = ExecutionProps::new();
        let context = Default::default();
        let physical = create_physical_expr(&expression, &with_now, &properties, &context)?;
        let physical = checked(physical)?;
        let data_type = physical.data_type(with_now.as_arrow())?;
        let over_dictionary = over_dictionary(&physical, with_now.as_arrow())?;
        Ok(Compiled { physical, data_type, uses_now, over_dictionary })
    }

    /// The numbers of the columns that it reads.
    pub fn columns(&self) -> Vec<usize> {
        let columns = datafusion::physical_expr::utils::collect_columns(&self.physical);
        let mut columns: Vec<usize> = columns.iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        columns
    }

    /// The same expression over rows of which only these columns are left, in this order.
    pub fn over_columns(&self, kept: &[usize]) -> Result<Self> {
        use datafusion::physical_expr::expressions::Column as PhysicalColumn;
        let moved = Arc::clone(&self.physical).transform_up(|part| {
            let any = part.as_ref() as &dyn std::any::Any;
            let Some(column) = any.downcast_ref::<PhysicalColumn>() else { return Ok(Transformed::no(part)) };
            match kept.iter().position(|index| *index == column.index()) {
                Some(index) => Ok(Transformed::yes(Arc::new(PhysicalColumn::new(column.name(), index)) as _)),
                // The closing time stands after all columns.
                None => Ok(Transformed::yes(Arc::new(PhysicalColumn::new(column.name(), kept.len())) as _)),
            }
        });
        let over_dictionary = self.over_dictionary.clone().and_then(|over| {
            let column = kept.iter().position(|index| *index == over.column)?;
            Some(OverDictionary { column, ..over })
        });
        Ok(Compiled { physical: moved.data()?, over_dictionary, ..self.clone() })
    }

    /// The same expression over rows in which column `n` stands at `places[n]` of so many.
    pub fn moved(&self, places: &[usize], columns: usize) -> Result<Self> {
        use datafusion::physical_expr::expressions::Column as PhysicalColumn;
        let moved = Arc::clone(&self.physical).transform_up(|part| {
            let any = part.as_ref() as &dyn std::any::Any;
            let Some(column) = any.downcast_ref::<PhysicalColumn>() else { return Ok(Transformed::no(part)) };
            // The closing time stands after all columns.
            let place = places.get(column.index()).copied().unwrap_or(columns);
            Ok(Transformed::yes(Arc::new(PhysicalColumn::new(column.name(), place)) as _))
        });
        let over_dictionary = self
            .over_dictionary
            .clone()
            .and_then(|over| Some(OverDictionary { column: *places.get(over.column)?, ..over }));
        Ok(Compiled { physical: moved.data()?, over_dictionary, ..self.clone() })
    }

    /// One value per row, or DataFusion's error.
    pub fn values(&self, rows: &RecordBatch, cut: &Cut) -> Result<ArrayRef> {
        if let Some(values) = self.over_dictionary.as_ref().and_then(|over| over.values(rows)) {
            return Ok(values);
        }
        let values = match self.uses_now {
            false => self.physical.evaluate(rows)?,
            true => self.physical.evaluate(&rows_with_now(rows, cut)?)?,
        };
        values.into_array(rows.num_rows())
    }
}

impl Expression for Compiled {
    fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    fn evaluate(&self, rows: &RecordBatch, cut: &Cut) -> std::result::Result<ArrayRef, Cause> {
        self.values(rows, cut).map_err(|error| Cause::User(plain(&error)))
    }
}

/// What an error says, without DataFusion's headings.
pub(crate) fn plain(error: &datafusion::common::DataFusionError) -> String {
    let text = error.strip_backtrace();
    let headings =
        ["Arrow error: ", "Execution error: ", "Error during planning: ", "Divide by zero error: "];
    let mut text = text.as_str();
    while let Some(rest) = headings.iter().find_map(|heading| text.strip_prefix(heading)) {
        text = rest;
    }
    text.to_string()
}

/// The expression over its one column, if that is a dictionary and there is something to compute.
fn over_dictionary(physical: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<OverDictionary>> {
    use datafusion::physical_expr::expressions::Column as PhysicalColumn;
    let columns = datafusion::physical_expr::utils::collect_columns(physical);
    let mut columns = columns.iter();
    let (Some(column), None) = (columns.next(), columns.next()) else { return Ok(None) };
    let is_dictionary = matches!(schema.field(column.index()).data_type(), DataType::Dictionary(_, _));
    if !is_dictionary || (physical.as_ref() as &dyn std::any::Any).is::<PhysicalColumn>() {
        return Ok(None);
    }
    let name = column.name();
    let expression = Arc::clone(physical).transform_up(|part| {
        match (part.as_ref() as &dyn std::any::Any).is::<PhysicalColumn>() {
            true => Ok(Transformed::yes(Arc::new(PhysicalColumn::new(name, 0)) as Arc<dyn PhysicalExpr>)),
            false => Ok(Transformed::no(part)),
        }
    });
    Ok(Some(OverDictionary { column: column.index(), expression: expression.data()? }))
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

/// `now()` and `current_date` become the column of the cycle's closing time.
fn replace_now(expression: Expr) -> Result<(Expr, bool)> {
    let mut uses_now = false;
    let replaced = expression.transform_up(|part| {
        let Expr::ScalarFunction(call) = &part else { return Ok(Transformed::no(part)) };
        let now = Expr::Column(Column::from_name(NOW_COLUMN));
        let replacement = match call.func.name() {
            NOW => now,
            CURRENT_DATE => cast(now, DataType::Date32),
            _ => return Ok(Transformed::no(part)),
        };
        uses_now = true;
        Ok(Transformed::yes(replacement))
    });
    Ok((replaced.data()?, uses_now))
}

/// Sums, differences and products of whole numbers that do not fit are errors, and not something else.
fn checked(expression: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let checked = expression.transform_up(|part| {
        let any = part.as_ref() as &dyn std::any::Any;
        match any.downcast_ref::<BinaryExpr>() {
            Some(binary) => {
                let checked = binary.clone().with_fail_on_overflow(true);
                Ok(Transformed::yes(Arc::new(checked) as Arc<dyn PhysicalExpr>))
            }
            None => Ok(Transformed::no(part)),
        }
    });
    checked.data()
}
