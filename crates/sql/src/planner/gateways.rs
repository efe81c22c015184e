//! What of a query is computed in this process, if the rows of some sources enter at gateways.

use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use tidemill_engine::Cause;

use super::Planner;
use crate::expressions::compiled::plain;
use crate::gateway_place::GatewayPlace;
use crate::query::gateway_parts::{entrance, gateway_parts};
use crate::query::prepared::Output;
use crate::query::retained;
use crate::relations::named_relations::{Materialized, Retained, ViewGateways};
use crate::statement::Statement;
use crate::text::TextError;

impl Planner {
    /// The gateways at which the sources of a view enter.
    pub(super) fn view_gateways(
        &self,
        stored: &LogicalPlan,
        output: &Output,
        retained: &Retained,
        statement: &Statement,
    ) -> Result<Option<ViewGateways>, TextError> {
        let parts = gateway_parts(stored).map_err(|error| self.text_error(&error, statement))?;
        if parts.is_empty() {
            return Ok(None);
        }
        let config = retained::config(output, retained, self.settings.max_result_rows)
            .map_err(|cause| statement.error(statement.span, cause.to_string()))?;
        let names = parts.into_iter().map(|part| part.gateway).collect();
        Ok(Some(ViewGateways { names, config: Arc::new(config) }))
    }

    /// The plan of the rows that this process keeps of a view; `None`: it keeps none of them.
    pub(super) fn plan_of_view(&self, view: &Materialized) -> Result<Option<LogicalPlan>, Cause> {
        match &self.settings.gateways {
            GatewayPlace::Ignored => Ok(Some(view.stored.clone())),
            GatewayPlace::Elsewhere => Ok(view.gateways.is_none().then(|| view.stored.clone())),
            GatewayPlace::Here(own) => {
                let parts = gateway_parts(&view.stored)
                    .map_err(|error| Cause::user(plain(&error)).with_source(error))?;
                Ok(parts.into_iter().find(|part| part.gateway == *own).map(|part| part.plan))
            }
        }
    }

    /// Checks that no source of a plan enters at a gateway elsewhere.
    pub(super) fn check_entrances(&self, plan: &LogicalPlan) -> Result<(), Cause> {
        let is_here = |gateway: &str| match &self.settings.gateways {
            GatewayPlace::Ignored => true,
            GatewayPlace::Elsewhere => false,
            GatewayPlace::Here(own) => own == gateway,
        };
        match entrance(plan) {
            Some((source, gateway)) if !is_here(&gateway) => Err(Cause::user(format!(
                "the rows of source '{source}' enter at gateway '{gateway}', which keeps materialized views only; \
                 write CREATE MATERIALIZED VIEW name AS SELECT * FROM {source}, and read that"
            ))),
            _ => Ok(()),
        }
    }
}
