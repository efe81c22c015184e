//! Regions of space that follow the points: an operator with one partition, which sees all rows in the order of time.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use tidemill_operators::regions::{Regions, RegionsSpec, output_schema};

use super::{Relation, Role, Translator, refuse};
use crate::logical::RegionsNode;

impl Translator {
    pub(super) fn adaptive_regions(&mut self, node: &RegionsNode) -> Result<Relation> {
        let relation = self.output(&node.input)?;
        let event_time = node.input.schema().index_of_column(&node.time)?;
        let Some(delay_ns) = relation.roles[event_time].time_delay_ns().filter(|_| relation.is_stream())
        else {
            return Err(refuse(
                format!(
                    "'{}' is not an event time, so it cannot tell which points are recent",
                    node.time.name
                ),
                "declare it as the watermark's column: CREATE SOURCE ... (..., WATERMARK FOR event_time AS event_time)",
            ));
        };
        let coordinates: Vec<&Expr> = node.coordinates.iter().collect();
        let side = self.side(relation, &node.input, &coordinates)?;
        let spec = RegionsSpec {
            schema: Arc::clone(&side.relation.schema),
            event_time,
            coordinates: side.keys,
            columns: side.columns,
            method: node.choice.method,
            history_ns: node.choice.history_ns,
            every_ns: node.choice.every_ns,
            points_max: node.choice.points_max,
            watermark: self.watermark(&side.relation, delay_ns),
            rows_max: self.rows_max(1),
            late: self.late.clone(),
        };
        let schema = output_schema(&spec);
        let inputs = [(side.relation.stream, Vec::new())];
        let every = crate::text::duration::display_ns(spec.every_ns);
        let name = format!("regions renewed every {every}");
        let stream = self
            .operator(&name, &inputs, 1, Arc::clone(&schema), move |_| Box::new(Regions::new(spec.clone())));
        self.formerly(&format!("regions anew every {every}"));
        let mut roles = side.relation.roles[..side.columns].to_vec();
        roles.push(Role::None);
        Ok(Relation { stream, schema, roles, ordered: true, selection: None, ..side.relation })
    }
}
