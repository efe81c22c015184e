//! Split streams: rows with the number of their sub-stream as a column, and a route that reads it.

use std::sync::Arc;

use datafusion::arrow::array::cast::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use tidemill_engine::{
    AutoSplit, LatticeRule, Operator, OperatorPlan, Proportions, Route, SplitPlan, route_by_value,
    route_or_broadcast,
};
use tidemill_operators::forward::{Forward, ForwardSpec};
use tidemill_operators::round_robin::{RoundRobin, RoundRobinSpec, output_schema};
use tidemill_operators::sub_stream::SubStream;

use super::join::Side;
use super::sub_stream::checked_route;
use super::{Relation, Role, Translator};
use crate::logical::{LatticeSplitters, SplitChoice, SplitShape, SplitStream, SplitWindow};

/// An operator input that is applied to each sub-stream.
pub(super) struct SplitInput {
    /// The columns of the sub-streams, followed by those that the route reads.
    side: Side,
    plan: SplitPlan,
    /// How the engine chooses, repeatedly, while the query runs; `None`: the plan stays.
    auto: Option<AutoSplit>,
    /// Whether rows are broadcast.
    has_broadcast: bool,
    /// Its display.
    text: String,
}

impl SplitInput {
    /// The rows that are split.
    pub fn relation(&self) -> &Relation {
        &self.side.relation
    }
}

impl Translator {
    /// Sub-streams without an operator: their rows, merged; with the number of the sub-stream, if that is asked for.
    pub(super) fn split_stream(&mut self, split: &SplitStream) -> Result<Relation> {
        let input = self.split_input(split)?;
        let schema = super::columns::schema_of(&split.schema);
        let (spec, is_numbered) = (ForwardSpec { schema: Arc::clone(&schema) }, split.is_numbered);
        let factory = move |partition| -> Box<dyn Operator> {
            if is_numbered {
                Box::new(SubStream::new(Arc::clone(&spec.schema), partition))
            } else {
                Box::new(Forward::new(spec.clone()))
            }
        };
        let operator = self.numbered("sub-streams", split.partitions, factory).output(Arc::clone(&schema));
        let operator = self.with_split(operator, &input);
        let stream = self.plan.operator(operator)[0];
        let relation = &input.side.relation;
        let mut roles = relation.roles[..input.side.columns].to_vec();
        roles.resize(schema.fields().len(), Role::None);
        Ok(Relation { stream, schema, roles, selection: None, ..relation.clone() })
    }

    /// The rows with the columns that determine where they go.
    pub(super) fn split_input(&mut self, split: &SplitStream) -> Result<SplitInput> {
        let relation = self.output(&split.input)?;
        if !relation.is_stream() {
            return Err(super::refuse(
                "splitstream cannot split a table (an aggregate without a window), because later rows replace \
                 earlier ones",
                "split the stream before it is aggregated",
            ));
        }
        let shown = |expression: &Expr| expression.clone().unalias();
        let broadcast = split.broadcast.as_ref().map(|broadcast| format!(", broadcast {}", shown(broadcast)));
        let (side, route) = if split.is_dealt {
            (self.dealt(relation, split)?, "turns".to_owned())
        } else {
            let route = checked_route(&split.route, split.broadcast.as_ref(), split.partitions);
            let routing: Vec<&Expr> = std::iter::once(&route).chain(&split.broadcast).collect();
            (self.side(relation, &split.input, &routing)?, shown(&split.route).to_string())
        };
        let text = format!("split by {route}{}", broadcast.unwrap_or_default());
        let plan = self.split_plan(split);
        let auto = auto_split(&split.choice);
        Ok(SplitInput { side, plan, auto, has_broadcast: split.broadcast.is_some(), text })
    }

    /// The rows with the number of the sub-stream whose turn it is, behind them. One worker deals them.
    fn dealt(&mut self, relation: Relation, split: &SplitStream) -> Result<Side> {
        let broadcast: Vec<&Expr> = split.broadcast.iter().collect();
        let Side { relation, keys: marks, columns } = self.side(relation, &split.input, &broadcast)?;
        let spec = RoundRobinSpec {
            schema: Arc::clone(&relation.schema),
            sub_streams: split.partitions,
            broadcast: marks.first().copied(),
        };
        let schema = output_schema(&spec);
        let inputs = [(relation.stream, Vec::new())];
        let stream = self.operator("round robin", &inputs, 1, Arc::clone(&schema), move |_| {
            Box::new(RoundRobin::new(spec.clone()))
        });
        let turn = relation.schema.fields().len();
        let mut roles = relation.roles.clone();
        roles.push(Role::None);
        let keys = std::iter::once(turn).chain(marks).collect();
        Ok(Side { relation: Relation { stream, schema, roles, selection: None, ..relation }, keys, columns })
    }

    fn split_plan(&self, split: &SplitStream) -> SplitPlan {
        let partitions = split.partitions;
        let plan = match split.choice.shape {
            SplitShape::Fsplit => SplitPlan::fsplit(partitions),
            SplitShape::Exptree => SplitPlan::exptree(partitions),
            SplitShape::Maxtree(share) => {
                let parts = Proportions::broadcast_part(share).unwrap_or(Proportions::counted(1, 0, 0));
                SplitPlan::maxtree(partitions, parts, CONSUME_RATIO)
            }
            SplitShape::Parasplit { splitters, is_tree } => {
                let splitters = match splitters {
                    LatticeSplitters::Number(splitters) => splitters,
                    // A rule needs costs; until they are measured, each worker splits.
                    LatticeSplitters::Workers | LatticeSplitters::By(_) => self.limits.workers,
                };
                if is_tree {
                    SplitPlan::parasplit_tree(partitions, splitters)
                } else {
                    SplitPlan::parasplit(partitions, splitters)
                }
            }
            SplitShape::Auto | SplitShape::Autosplit => {
                SplitPlan::autosplit(partitions, split.broadcast.is_some())
            }
        };
        match split.choice.window {
            SplitWindow::Rows(rows) => plan.with_window_rows(rows),
            SplitWindow::Default | SplitWindow::Searched => plan,
        }
    }

    /// An operator with this input.
    pub(super) fn with_split(&mut self, operator: OperatorPlan, input: &SplitInput) -> OperatorPlan {
        let side = &input.side;
        let names = side.relation.schema.fields().iter().take(side.columns);
        let names: Vec<&str> = names.map(|field| field.name().as_str()).collect();
        let route: Box<Route> = route_by_value::<Int64Type>(side.keys[0]);
        let route = if input.has_broadcast {
            let mark = side.keys[1];
            route_or_broadcast(route, move |rows| rows.column(mark).as_boolean().clone())
        } else {
            route
        };
        let operator = operator.input(side.relation.stream, &names, route).split(input.plan.clone());
        self.splits.insert((operator.name.clone(), operator.inputs.len() - 1), input.text.clone());
        match &input.auto {
            Some(auto) => operator.auto_split(auto.clone()),
            None => operator,
        }
    }
}

/// How the engine chooses while the query runs, if it does.
fn auto_split(choice: &SplitChoice) -> Option<AutoSplit> {
    let rate = choice.rate.unwrap_or(f64::INFINITY);
    let auto = match choice.shape {
        SplitShape::Auto => AutoSplit::for_rate(rate),
        SplitShape::Parasplit { splitters: LatticeSplitters::By(splitters), is_tree } => {
            AutoSplit::by_rule(LatticeRule { splitters, is_tree }, rate)
        }
        _ if choice.window == SplitWindow::Searched => AutoSplit::only_window(),
        _ => return None,
    };
    Some(AutoSplit { searches_window: !matches!(choice.window, SplitWindow::Rows(_)), ..auto })
}

/// The assumed ratio of the cost of consuming a row to that of splitting and emitting it, as in the thesis, before
/// anything is measured.
const CONSUME_RATIO: f64 = 1.0;
