//! Joins of any kind on any condition, kept up to date: both sides are kept.

use std::sync::Arc;

use datafusion::common::{DataFusionError, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder};
use tidemill_operators::changes::{self, ChangingJoinKind, ChangingJoinSpec};

use super::changing;
use crate::translate::columns::{schema_of, unique};
use crate::translate::relation::merge_sources;
use crate::translate::{Relation, Translator, refuse};

impl Translator {
    /// The join over changelogs, if the query takes changes; otherwise the refusal.
    pub(in crate::translate) fn changing_join_or(
        &mut self,
        join: &Join,
        refusal: DataFusionError,
    ) -> Result<Relation> {
        if self.takes_changes { self.changing_join(join) } else { Err(refusal) }
    }

    /// A join over the changelogs of both sides.
    pub(in crate::translate) fn changing_join(&mut self, join: &Join) -> Result<Relation> {
        if join.null_aware {
            return self.output(&not_in(join)?);
        }
        // A mark on the right side's rows is one on the left side's of the join the other way round.
        let swapped = join.join_type == JoinType::RightMark;
        let (left_plan, right_plan) =
            if swapped { (&join.right, &join.left) } else { (&join.left, &join.right) };
        let pairs = join.on.iter().map(|(l, r)| if swapped { (r, l) } else { (l, r) });
        let (left_keys, right_keys): (Vec<&Expr>, Vec<&Expr>) = pairs.unzip();
        let left = self.output(left_plan)?;
        let left = self.changelog(left)?;
        let right = self.output(right_plan)?;
        let right = self.changelog(right)?;
        let left = self.side(left, left_plan, &left_keys)?;
        let right = self.side(right, right_plan, &right_keys)?;
        let residual = self.condition(join.filter.as_ref(), &left, left_plan, right_plan)?;
        let kind = kind_of(join.join_type);
        let partitions = self.partitions(left.keys.len());
        let spec = ChangingJoinSpec {
            left: Arc::clone(&left.relation.schema),
            right: Arc::clone(&right.relation.schema),
            left_changes: left.relation.is_changing(),
            right_changes: right.relation.is_changing(),
            left_keys: left.keys.clone(),
            right_keys: right.keys.clone(),
            null_equals_null: join.null_equality == NullEquality::NullEqualsNull,
            kind,
            residual,
            rows_max: self.rows_max(partitions),
        };
        changes::Join::new(spec.clone())
            .map_err(|cause| refuse(cause.to_string(), "cast the keys to one type"))?;
        let output = unique(&changes::data_schema(&changes::Join::output_schema(&spec)));
        let inputs = [(left.relation.stream, left.keys.clone()), (right.relation.stream, right.keys.clone())];
        let name = format!("{} of changes", name_of(kind));
        let (written, faults) = (changes::changelog_schema(&output), self.faults.clone());
        let stream = self.operator(&name, &inputs, partitions, written, move |_| {
            let join = changes::Join::new(spec.clone()).expect("checked when it was planned");
            Box::new(join.faults(faults.clone()))
        });
        let joined = changing(merge_sources(left.relation.clone(), &right.relation), stream, output);
        let left_all = left.relation.schema.fields().len();
        let own_left = 0..left.columns;
        let places: Vec<usize> = match kind {
            ChangingJoinKind::LeftSemi | ChangingJoinKind::LeftAnti => own_left.collect(),
            ChangingJoinKind::RightSemi | ChangingJoinKind::RightAnti => (0..right.columns).collect(),
            ChangingJoinKind::LeftMark => own_left.chain([left_all]).collect(),
            _ => own_left.chain(left_all..left_all + right.columns).collect(),
        };
        let selected = self.select(joined, &places, &join.schema)?;
        Ok(Relation { schema: schema_of(&join.schema), ..selected })
    }
}

/// `NOT IN` a list in which NULL may be: no row of the list equals the row's, none is NULL, and the row's is not NULL unless the list
/// is empty.
fn not_in(join: &Join) -> Result<LogicalPlan> {
    let [(value, listed)] = &join.on[..] else {
        return Err(refuse("NOT IN over rows of several columns is not supported here", "write NOT EXISTS"));
    };
    let anti = |left: LogicalPlan, right: LogicalPlan, on: Vec<(Expr, Expr)>, filter: Option<Expr>| {
        let (left, right) = (Arc::new(left), Arc::new(right));
        let (kind, constraint) = (JoinType::LeftAnti, JoinConstraint::On);
        let equality = NullEquality::NullEqualsNothing;
        Join::try_new(left, right, on, filter, kind, constraint, equality, false).map(LogicalPlan::Join)
    };
    let (rows, list) = (join.left.as_ref().clone(), join.right.as_ref().clone());
    let nulls = LogicalPlanBuilder::from(list.clone()).filter(listed.clone().is_null())?.build()?;
    let unequal = anti(rows, list.clone(), join.on.clone(), join.filter.clone())?;
    let known = anti(unequal, nulls, Vec::new(), None)?;
    anti(known, list, Vec::new(), Some(value.clone().is_null()))
}

fn kind_of(join: JoinType) -> ChangingJoinKind {
    match join {
        JoinType::Inner => ChangingJoinKind::Inner,
        JoinType::Left => ChangingJoinKind::Left,
        JoinType::Right => ChangingJoinKind::Right,
        JoinType::Full => ChangingJoinKind::Full,
        JoinType::LeftSemi => ChangingJoinKind::LeftSemi,
        JoinType::LeftAnti => ChangingJoinKind::LeftAnti,
        JoinType::RightSemi => ChangingJoinKind::RightSemi,
        JoinType::RightAnti => ChangingJoinKind::RightAnti,
        JoinType::LeftMark | JoinType::RightMark => ChangingJoinKind::LeftMark,
    }
}

fn name_of(kind: ChangingJoinKind) -> &'static str {
    match kind {
        ChangingJoinKind::Inner => "join",
        ChangingJoinKind::Left => "left join",
        ChangingJoinKind::Right => "right join",
        ChangingJoinKind::Full => "full join",
        ChangingJoinKind::LeftSemi | ChangingJoinKind::RightSemi => "semi join",
        ChangingJoinKind::LeftAnti | ChangingJoinKind::RightAnti => "anti join",
        ChangingJoinKind::LeftMark => "mark join",
    }
}
