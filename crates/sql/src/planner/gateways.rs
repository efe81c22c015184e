//! What of a query is computed in this process, if the rows of some sources enter at gateways.

use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use tidemill_engine::Cause;

use super::Planner;
use crate::expressions::compiled::plain;
use crate::gateway_place::GatewayPlace;
use crate::query::gateway_parts::{entrance, gateway_parts, has_finite_entrance, only_entrance};
use crate::query::prepared::Output;
use crate::query::retained;
use crate::relations::named_relations::{Materialized, Retained, ViewGateways};
use crate::statement::Statement;
use crate::text::{Problem, TextError};

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

    /// The gateway at which a sink runs: that of all of its sources.
    pub(super) fn sink_gateways(
        &self,
        inputs: &[LogicalPlan],
        connector: &str,
        statement: &Statement,
    ) -> Result<Vec<String>, TextError> {
        if self.settings.gateways == GatewayPlace::Ignored {
            return Ok(Vec::new());
        }
        let only = inputs.iter().try_fold(None, |found, plan| only_entrance(plan).map(|only| found.or(only)));
        let Some(gateway) = only.map_err(|error| self.text_error(&error, statement))? else {
            return Ok(Vec::new());
        };
        let refused = |message: String, hint: &str| {
            Err(statement.error(statement.span, message).of(Problem::NotSupported).with_hint(hint))
        };
        if connector == "stdout" {
            let message = format!("the sink would run at gateway '{gateway}', which has no standard output");
            return refused(message, "write to a file or a server, or follow a view with SUBSCRIBE");
        }
        if inputs.iter().any(has_finite_entrance) {
            let message = format!(
                "the sink would run at gateway '{gateway}' over a source that ends, and write its rows again whenever \
                 the process is started again"
            );
            return refused(message, "remove gateway from the source");
        }
        Ok(vec![gateway])
    }

    /// Whether this process runs a sink that runs at these gateways.
    pub(super) fn runs_sink(&self, gateways: &[String]) -> bool {
        match &self.settings.gateways {
            GatewayPlace::Ignored => true,
            GatewayPlace::Elsewhere => gateways.is_empty(),
            GatewayPlace::Here(own) => gateways == [own.as_str()],
        }
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
