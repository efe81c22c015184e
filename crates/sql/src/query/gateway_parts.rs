//! Which part of a view runs at which gateway.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union};

use crate::refusal::refuse;
use crate::relations::source_definition::scanned;
use tidemill_trees::nodes::PlanTree;

/// A part of a view, and the gateway at which its rows enter.
pub(crate) struct GatewayPart {
    pub gateway: String,
    pub plan: LogicalPlan,
}

/// The sources of a plan that are streams, by where they enter; `None`: not at a gateway.
fn entrances(plan: &LogicalPlan) -> Vec<(Option<String>, String)> {
    let mut entrances: Vec<(Option<String>, String)> = Vec::new();
    let _ = plan.look_through_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scanned(scan.source.as_ref())
            && !source.definition.is_table
        {
            let entrance = (source.definition.gateway.clone(), source.definition.name.clone());
            if !entrances.contains(&entrance) {
                entrances.push(entrance);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    entrances
}

/// A source of a plan that enters at a gateway, and the gateway.
pub(crate) fn entrance(plan: &LogicalPlan) -> Option<(String, String)> {
    entrances(plan).into_iter().find_map(|(gateway, source)| Some((source, gateway?)))
}

/// The gateway at which all sources of a plan enter; `None`: they enter at no gateway.
pub(crate) fn only_entrance(plan: &LogicalPlan) -> Result<Option<String>> {
    let entrances = entrances(plan);
    let mut gateways = entrances.iter().map(|(gateway, _)| gateway);
    let first = gateways.next().cloned().flatten();
    if gateways.all(|gateway| *gateway == first) {
        Ok(first)
    } else {
        Err(refuse(
            format!(
                "a sink runs in one process, and this one needs rows that enter at several places ({})",
                places(&entrances)
            ),
            "create a sink for each gateway, each with a destination of its own; or put the rows into a view with \
             UNION ALL, and follow that with SUBSCRIBE",
        ))
    }
}

/// Whether a source of a plan enters at a gateway and ends.
pub(crate) fn has_finite_entrance(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let _ = plan.look_through_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scanned(scan.source.as_ref())
        {
            let definition = &source.definition;
            found |= definition.gateway.is_some() && definition.is_finite && !definition.is_table;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// The parts of a view, one for each gateway at which its sources enter; none if they enter at no gateway.
///
/// A part has all that is computed from the rows of its gateway, and from tables that do not change. So the view is the parts
/// behind each other: a UNION ALL, with conditions and expressions over it.
pub(crate) fn gateway_parts(plan: &LogicalPlan) -> Result<Vec<GatewayPart>> {
    if entrances(plan).iter().all(|(gateway, _)| gateway.is_none()) {
        return Ok(Vec::new());
    }
    let mut parts: Vec<(String, Vec<LogicalPlan>)> = Vec::new();
    for GatewayPart { gateway, plan } in divided(plan)? {
        match parts.iter_mut().find(|(known, _)| *known == gateway) {
            Some((_, plans)) => plans.push(plan),
            None => parts.push((gateway, vec![plan])),
        }
    }
    let together = |(gateway, plans): (String, Vec<LogicalPlan>)| {
        let plan = match <[LogicalPlan; 1]>::try_from(plans) {
            Ok([only]) => only,
            Err(several) => LogicalPlan::Union(Union::try_new(several.into_iter().map(Arc::new).collect())?),
        };
        // A subquery of a condition over all parts may need the rows of another gateway.
        let entrances = entrances(&plan);
        if entrances.iter().all(|(entrance, _)| entrance.as_ref() == Some(&gateway)) {
            Ok(GatewayPart { gateway, plan })
        } else {
            Err(not_divided(&entrances))
        }
    };
    parts.into_iter().map(together).collect()
}

fn divided(plan: &LogicalPlan) -> Result<Vec<GatewayPart>> {
    let entrances = entrances(plan);
    let mut gateways: Vec<&Option<String>> = entrances.iter().map(|(gateway, _)| gateway).collect();
    gateways.dedup();
    if let [Some(only)] = gateways.as_slice() {
        return Ok(vec![GatewayPart { gateway: only.clone(), plan: plan.clone() }]);
    }
    match plan {
        LogicalPlan::Union(union) => {
            let mut parts = Vec::new();
            for input in &union.inputs {
                for GatewayPart { gateway, plan } in divided(input)? {
                    parts.push(GatewayPart { gateway, plan: named_as(plan, union)? });
                }
            }
            Ok(parts)
        }
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            let [input] = plan.inputs()[..] else { return Err(not_divided(&entrances)) };
            let over = |GatewayPart { gateway, plan: part }: GatewayPart| {
                let plan = plan.with_new_exprs(plan.expressions(), vec![part])?;
                Ok(GatewayPart { gateway, plan })
            };
            divided(input)?.into_iter().map(over).collect()
        }
        _ => Err(not_divided(&entrances)),
    }
}

/// A part of a union, with the names that its columns have in the union.
fn named_as(part: LogicalPlan, union: &Union) -> Result<LogicalPlan> {
    let own = part.schema().columns();
    let named = own.into_iter().zip(union.schema.columns()).map(|(own, wanted)| {
        let is_same = own == wanted;
        let column = Expr::Column(own);
        if is_same { column } else { column.alias_qualified(wanted.relation, wanted.name) }
    });
    LogicalPlanBuilder::from(part).project(named.collect::<Vec<_>>())?.build()
}

fn places(entrances: &[(Option<String>, String)]) -> String {
    let place = |(gateway, source): &(Option<String>, String)| match gateway {
        Some(gateway) => format!("'{source}' at gateway '{gateway}'"),
        None => format!("'{source}' at none"),
    };
    entrances.iter().map(place).collect::<Vec<_>>().join(", ")
}

fn not_divided(entrances: &[(Option<String>, String)]) -> DataFusionError {
    let places = places(entrances);
    refuse(
        format!(
            "this needs rows that enter at several places ({places}), and gateways do not wait for each other"
        ),
        "put the rows of each gateway into the view with UNION ALL, and join or aggregate when you read the view",
    )
}
