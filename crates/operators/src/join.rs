//! Shared by all joins: their kinds, and the schema of joined rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::filter::prep_null_mask_filter;
use tidemill_core::error::Cause;
use tidemill_core::{Cut, Expression};

/// What happens to rows of the left side without a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// They are left out.
    Inner,
    /// They are kept, with NULLs in the columns of the right side.
    Left,
}

/// The left columns, followed by the right ones, which may be NULL in a left join.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_operators::join::{JoinKind, joined_schema};
///
/// let side = |name| Arc::new(Schema::new(vec![Field::new(name, DataType::Int64, false)]));
/// let joined = joined_schema(&side("a"), &side("b"), JoinKind::Left);
/// assert!(!joined.field(0).is_nullable() && joined.field(1).is_nullable());
/// ```
pub fn joined_schema(left: &SchemaRef, right: &SchemaRef, kind: JoinKind) -> SchemaRef {
    let right = right.fields().iter().map(|field| right_field(field, kind));
    Arc::new(Schema::new(left.fields().iter().cloned().chain(right).collect::<Vec<_>>()))
}

/// A field of the right side, as it appears in joined rows.
pub(crate) fn right_field(field: &Arc<Field>, kind: JoinKind) -> Arc<Field> {
    match kind {
        JoinKind::Inner => Arc::clone(field),
        JoinKind::Left => Arc::new(field.as_ref().clone().with_nullable(true)),
    }
}

/// The pairs for which a condition holds. NULL counts as false.
pub(crate) fn condition(
    condition: &dyn Expression,
    pairs: &RecordBatch,
    cut: &Cut,
) -> Result<BooleanArray, Cause> {
    let holds = condition.evaluate(pairs, cut)?;
    let Some(holds) = holds.as_boolean_opt().filter(|holds| holds.len() == pairs.num_rows()) else {
        let found = holds.data_type();
        return Err(Cause::bug(format!("the condition of a join must be a Boolean, not {found}")));
    };
    Ok(match holds.null_count() {
        0 => holds.clone(),
        _ => prep_null_mask_filter(holds),
    })
}
