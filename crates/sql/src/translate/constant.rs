//! Relations that are known when a query is planned: no rows (`WHERE 1 = 0`, `LIMIT 0`), a list of values, a table that
//! does not change. As streams they are sources that return these rows and end.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::LogicalPlan;

use super::columns::schema_of;
use super::{Kind, Relation, Role, Translator, UsedSource, read_static};
use crate::relations::projected::Projected;
use crate::relations::single_batch_source::SingleBatchSource;
use crate::relations::source_definition::SourceDefinition;

impl Translator {
    /// A plan that reads only tables.
    pub(super) fn constant(&mut self, plan: &LogicalPlan) -> Result<Relation> {
        let rows = read_static(plan, &self.limits.memory)?;
        self.constant_rows(plan.schema(), rows)
    }

    /// A relation without rows.
    pub(super) fn nothing(&mut self, schema: &DFSchema) -> Result<Relation> {
        self.constant_rows(schema, RecordBatch::new_empty(schema_of(schema)))
    }

    fn constant_rows(&mut self, schema: &DFSchema, rows: RecordBatch) -> Result<Relation> {
        let schema = schema_of(schema);
        let rows = rows.with_schema(Arc::clone(&schema))?;
        let name = if rows.num_rows() == 0 { "no rows" } else { "constant rows" };
        // Rows that do not exist have no time: their windows may be closed at once.
        let role = |data_type: &DataType| match data_type {
            DataType::Timestamp(TimeUnit::Nanosecond, _) if rows.num_rows() == 0 => {
                Role::EventTime { delay_ns: 0 }
            }
            _ => Role::None,
        };
        let roles = schema.fields().iter().map(|field| role(field.data_type())).collect();
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        let is_empty = rows.num_rows() == 0;
        let open =
            move |columns: Option<&[usize]>| Projected::open(SingleBatchSource::new(rows.clone()), columns);
        let definition = SourceDefinition::new(name, Arc::clone(&schema), Arc::new(open));
        let definition = Arc::new(SourceDefinition { is_finite: true, is_repeatable: true, ..definition });
        let streams = self.plan.source(name, vec![Arc::clone(&schema)]);
        let stream = streams[0];
        let source = self.first_source + self.sources.len();
        let raw_columns = columns.clone();
        self.sources.push(UsedSource { definition, columns, raw_columns, computed: None, streams, is_empty });
        Ok(Relation {
            stream,
            schema,
            roles,
            kind: Kind::Stream,
            sources: vec![source],
            ordered: false,
            is_as_of_the_row: false,
            is_finite: true,
            selection: None,
        })
    }
}
