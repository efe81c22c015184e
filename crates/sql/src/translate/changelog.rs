//! What is known of changelogs wherever plans are translated: who takes them, and their columns.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use tidemill_engine::changes::weight_field;

/// The remedy where a result would have to change later.
pub(crate) const KEEP_UP_TO_DATE: &str = "keep it with CREATE MATERIALIZED VIEW, which changes with it; or let a sink \
    write what comes and goes: WITH (emit = 'changes', ...)";

/// What takes the rows of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Rows that come, and in tables replace those of the same key.
    Rows,
    /// Rows that come and go, with their weights apart from the columns.
    Changes,
    /// Rows that come and go, with their weights as a column that people see.
    WeightedRows,
}

impl Takes {
    /// Whether rows may go.
    pub fn changes(self) -> bool {
        self != Takes::Rows
    }
}

/// The column with the weights, as people see it: of [`Takes::WeightedRows`], and of sources with `changes = 'weights'`.
pub(crate) const WEIGHT_COLUMN: &str = "weight";

/// The columns of a logical plan with the weight, as expressions over a changelog see them.
pub(super) fn with_weight(schema: &DFSchema) -> Result<DFSchema> {
    let own = schema.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
    let fields = own.chain([(None, Arc::new(weight_field()))]).collect();
    DFSchema::new_with_metadata(fields, Default::default())
}
