//! ORDER BY on a stream: by event time only.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::Sort;
use tidemill_operators::sort::{Ordering, OrderingSpec};

use super::{Relation, Translator, as_column, refuse};

impl Translator {
    pub(super) fn sort(&mut self, sort: &Sort) -> Result<Relation> {
        let relation = self.relation(&sort.input)?;
        let by_time = match sort.expr.as_slice() {
            [by] if by.asc => as_column(&by.expr, sort.input.schema())
                .and_then(|column| Some((column, relation.roles[column].time_delay_ns()?))),
            _ => None,
        };
        // Rows that come and go have no order: whoever reads them says in which they want them.
        if self.takes_changes && sort.fetch.is_none() && (by_time.is_none() || !relation.is_stream()) {
            return self.output(&sort.input);
        }
        let Some((event_time, delay_ns)) = by_time.filter(|_| relation.is_stream() && sort.fetch.is_none())
        else {
            return Err(refuse(
                "a stream can be ordered only by its event time, because no other order is known before its \
                 end",
                "ORDER BY the watermark's column, or number the rows of each window with ROW_NUMBER()",
            ));
        };
        let schema = Arc::clone(&relation.schema);
        let spec = OrderingSpec {
            schema: Arc::clone(&schema),
            event_time,
            watermark: self.watermark(&relation, delay_ns),
            rows_max: self.rows_max(1),
            late: self.late.clone(),
        };
        let inputs = [(relation.stream, Vec::new())];
        let stream = self.operator("order by event time", &inputs, 1, schema, move |_| {
            Box::new(Ordering::new(spec.clone()))
        });
        Ok(Relation { selection: None, stream, ordered: true, ..relation })
    }
}
