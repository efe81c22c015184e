//! Joins with a table that does not change, with one that does, and of two streams within a time bound.

use std::sync::Arc;

use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use tidemill_engine::Expression;
use tidemill_operators::interval_join::{self, IntervalJoin, IntervalJoinSpec};
use tidemill_operators::join::JoinKind;
use tidemill_operators::table_join::{self, TableJoin, TableJoinSpec};
use tidemill_operators::until_end::{UntilEnd, UntilEndSpec};
use tidemill_operators::watermark::FOREVER_NS;

use super::changelog::KEEP_UP_TO_DATE;
use super::columns::{schema_of, unique};
use super::not_streaming::join_words;
use super::relation::merge_sources;
use super::static_table::could_be_static;
use super::time_bound::{TimeBound, time_bound};
use super::{Kind, Relation, Role, Translator, Window, as_column, column_at, refuse};
use crate::expressions::compiled::Compiled;
use crate::expressions::or_null::OrNull;

/// A side of a join with its keys as columns.
pub(super) struct Side {
    pub relation: Relation,
    pub keys: Vec<usize>,
    /// How many of its columns belong to the logical plan; computed keys come after them.
    pub columns: usize,
}

impl Translator {
    pub(super) fn join(&mut self, join: &Join) -> Result<Relation> {
        if let Some(joined) = self.join_while_true(join)? {
            return Ok(joined);
        }
        if join.null_equality == NullEquality::NullEqualsNull {
            let refusal = refuse(
                "a join in which NULL equals NULL, or a subquery that depends on the outer row, has rows that change \
                 later",
                KEEP_UP_TO_DATE,
            );
            return self.changing_join_or(join, refusal);
        }
        if self.is_read_once(&join.right) || self.is_read_once(&join.left) {
            return self.lookup(join);
        }
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right) {
            let refusal = refuse(
                format!("{} of two streams has rows that change later", join_words(join.join_type)),
                KEEP_UP_TO_DATE,
            );
            return self.changing_join_or(join, refusal);
        }
        let left = self.relation(&join.left)?;
        let right = self.relation(&join.right)?;
        if left.is_changing() || right.is_changing() {
            return self.changing_join(join);
        }
        match (left.is_stream(), right.is_stream()) {
            (true, true) => self.stream_join(join, left, right),
            (true, false) if self.is_kept_up_to_date(&right) => self.changing_join(join),
            (false, true) if self.is_kept_up_to_date(&left) => self.changing_join(join),
            (true, false) => self.table_join(join, left, right, false),
            (false, true) => self.table_join(join, right, left, true),
            (false, false) => {
                let refusal = refuse(
                    "a join of two tables (aggregates without a window) would have to retract rows",
                    KEEP_UP_TO_DATE,
                );
                self.changing_join_or(join, refusal)
            }
        }
    }

    /// Whether a join with a table changes when the table does.
    fn is_kept_up_to_date(&self, table: &Relation) -> bool {
        self.takes_changes && !table.is_as_of_the_row
    }

    /// Joins a stream with the current rows of a table that other rows change.
    fn table_join(
        &mut self,
        join: &Join,
        stream: Relation,
        table: Relation,
        swapped: bool,
    ) -> Result<Relation> {
        let kind = match (join.join_type, swapped) {
            (JoinType::Inner, _) => JoinKind::Inner,
            (JoinType::Left, false) | (JoinType::Right, true) => JoinKind::Left,
            _ => {
                let refusal = refuse(
                    "rows of a table without a match would have to be retracted when a match arrives",
                    "make the stream the preserved side: stream LEFT JOIN table",
                );
                return self.changing_join_or(join, refusal);
            }
        };
        let (stream_plan, table_plan) =
            if swapped { (&join.right, &join.left) } else { (&join.left, &join.right) };
        let ends = stream.is_finite && table.is_finite;
        if !ends && is_aggregate(table_plan) {
            let refusal = refuse(
                "each row is joined once with a value of an aggregate that changes afterwards, so the result would \
                 not be kept up to date",
                KEEP_UP_TO_DATE,
            );
            return self.changing_join_or(join, refusal);
        }
        let (on, filter) = conditions(join, &table);
        let pairs = on.iter().map(|(l, r)| if swapped { (r, l) } else { (l, r) });
        let (stream_keys, table_keys): (Vec<&Expr>, Vec<&Expr>) = pairs.unzip();
        let table_keys = match own_keys(&table, table_plan, &table_keys) {
            Ok(keys) => keys,
            Err(refusal) => return self.changing_join_or(join, refusal),
        };
        let stream = self.side(stream, stream_plan, &stream_keys)?;
        let stream = Side { relation: self.until_end_of(stream.relation, &stream.keys, &table), ..stream };
        let residual = self.condition(filter.as_ref(), &stream, stream_plan, table_plan)?;
        let partitions = self.partitions(table_keys.len());
        let spec = TableJoinSpec {
            stream: Arc::clone(&stream.relation.schema),
            table: Arc::clone(&table.schema),
            stream_keys: stream.keys.clone(),
            table_keys: table_keys.clone(),
            kind,
            residual,
            rows_max: self.rows_max(partitions),
        };
        TableJoin::new(spec.clone())
            .map_err(|cause| refuse(cause.to_string(), "cast the keys to one type"))?;
        let output = unique(&table_join::output_schema(&spec));
        let inputs = [(table.stream, table_keys), (stream.relation.stream, stream.keys.clone())];
        let joined = self.operator("join with table", &inputs, partitions, Arc::clone(&output), move |_| {
            Box::new(TableJoin::new(spec.clone()).expect("checked when it was planned"))
        });
        let table_roles = vec![Role::None; table.schema.fields().len()];
        let roles = stream.relation.roles.iter().copied().chain(table_roles).collect();
        let joined =
            Relation { selection: None, stream: joined, schema: output, roles, ..stream.relation.clone() };
        let joined = merge_sources(joined, &table);
        self.joined_in_order(joined, &stream, table.schema.fields().len(), swapped, join)
    }

    /// If all input ends, the stream's rows wait for the end, to see the table's last rows. The answer then depends
    /// neither on the cuts nor on the existence of a watermark.
    fn until_end_of(&mut self, stream: Relation, keys: &[usize], table: &Relation) -> Relation {
        if !stream.is_finite || !table.is_finite {
            return stream;
        }
        let partitions = self.partitions(keys.len());
        let both = merge_sources(stream, table);
        let schema = Arc::clone(&both.schema);
        let spec = UntilEndSpec {
            schema: Arc::clone(&schema),
            watermark: self.watermark(&both, 0),
            rows_max: self.rows_max(partitions),
        };
        let inputs = [(both.stream, keys.to_vec())];
        let stream = self.operator("wait for the end", &inputs, partitions, schema, move |_| {
            Box::new(UntilEnd::new(spec.clone()))
        });
        let roles = behind(&both, FOREVER_NS);
        Relation { selection: None, stream, roles, ordered: false, ..both }
    }

    /// Joins two streams, within a bound on the difference of their event times.
    fn stream_join(&mut self, join: &Join, left: Relation, right: Relation) -> Result<Relation> {
        // A right join is a left join the other way round.
        let swapped = join.join_type == JoinType::Right;
        let (first, second) = if swapped { (right, left) } else { (left, right) };
        let (first_plan, second_plan) =
            if swapped { (&join.right, &join.left) } else { (&join.left, &join.right) };
        let kind = if join.join_type == JoinType::Inner { JoinKind::Inner } else { JoinKind::Left };
        let pairs = join.on.iter().map(|(l, r)| if swapped { (r, l) } else { (l, r) });
        let (first_keys, second_keys): (Vec<&Expr>, Vec<&Expr>) = pairs.unzip();
        let columns = |keys: &[&Expr], plan: &LogicalPlan| -> Vec<usize> {
            keys.iter().filter_map(|key| as_column(key, plan.schema())).collect()
        };
        let first = self.with_computed_bounds(first, first_plan, &columns(&first_keys, first_plan))?;
        let second = self.with_computed_bounds(second, second_plan, &columns(&second_keys, second_plan))?;
        let Some(bound) =
            time_bound(join, swapped, &first, first_plan.schema(), &second, second_plan.schema())?
        else {
            let advice = if could_be_static(&join.right) || could_be_static(&join.left) {
                "declare the side that does not change with CREATE TABLE, or bound the time: ... AND a.event_time \
                 BETWEEN b.event_time - INTERVAL '1 minute' AND b.event_time"
            } else {
                "bound the time: ... AND a.event_time BETWEEN b.event_time - INTERVAL '1 minute' AND b.event_time"
            };
            let refusal = refuse(
                "this joins two streams without a bound, so both would have to be kept in full",
                advice,
            );
            return self.changing_join_or(join, refusal);
        };
        let first = self.side(first, first_plan, &first_keys)?;
        let second = self.side(second, second_plan, &second_keys)?;
        let both = merge_sources(first.relation.clone(), &second.relation);
        let TimeBound { left_time, right_time, low_ns, high_ns, delay_ns, rest } = bound;
        let residual = self.condition(rest.as_ref(), &first, first_plan, second_plan)?;
        let partitions = self.partitions(first.keys.len());
        let spec = IntervalJoinSpec {
            left: Arc::clone(&first.relation.schema),
            right: Arc::clone(&second.relation.schema),
            left_keys: first.keys.clone(),
            right_keys: second.keys.clone(),
            left_time,
            right_time,
            low_ns,
            high_ns,
            kind,
            residual,
            watermark: self.watermark(&both, delay_ns),
            rows_max: self.rows_max(partitions),
            late: self.late.clone(),
        };
        IntervalJoin::new(spec.clone())
            .map_err(|cause| refuse(cause.to_string(), "cast the keys to one type"))?;
        let output = unique(&interval_join::output_schema(&spec));
        let inputs =
            [(first.relation.stream, first.keys.clone()), (second.relation.stream, second.keys.clone())];
        let name = format!(
            "join within {} to {}",
            crate::text::duration::display_ns(low_ns),
            crate::text::duration::display_ns(high_ns)
        );
        let stream = self.operator(&name, &inputs, partitions, Arc::clone(&output), move |_| {
            Box::new(IntervalJoin::new(spec.clone()).expect("checked when it was planned"))
        });
        let left_roles = behind(&first.relation, delay_ns.saturating_add((-low_ns).max(0)));
        let right_roles = match kind {
            JoinKind::Inner => behind(&second.relation, delay_ns.saturating_add(high_ns.max(0))),
            // A row without a match has no time on this side.
            JoinKind::Left => vec![Role::None; second.relation.roles.len()],
        };
        let roles = left_roles.into_iter().chain(right_roles).collect();
        let joined = Relation { selection: None, stream, schema: output, roles, ordered: false, ..both };
        let second_columns = second.relation.schema.fields().len();
        self.joined_in_order(joined, &first, second_columns, swapped, join)
    }

    /// A condition over the columns of the first side, including computed keys, followed by the second's.
    pub(super) fn condition(
        &self,
        filter: Option<&Expr>,
        first: &Side,
        first_plan: &LogicalPlan,
        second_plan: &LogicalPlan,
    ) -> Result<Option<Arc<dyn Expression>>> {
        let Some(filter) = filter else { return Ok(None) };
        let extra = first.relation.schema.fields().iter().skip(first.columns);
        let extra = extra.enumerate().map(|(index, field)| {
            let field = field.as_ref().clone().with_name(format!("key {index}"));
            (None, Arc::new(field))
        });
        let own = |plan: &LogicalPlan| -> Vec<_> {
            plan.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect()
        };
        let fields = own(first_plan).into_iter().chain(extra).chain(own(second_plan)).collect();
        let schema = datafusion::common::DFSchema::new_with_metadata(fields, Default::default())?;
        let compiled = Compiled::new(filter, &schema)?;
        Ok(Some(Arc::new(OrNull::condition(compiled, self.faults.clone()))))
    }

    /// A side whose keys are columns: keys that are expressions are computed after the other columns.
    pub(super) fn side(&mut self, relation: Relation, plan: &LogicalPlan, keys: &[&Expr]) -> Result<Side> {
        let schema = plan.schema();
        let columns = schema.fields().len();
        let mut all: Vec<Expr> = (0..columns).map(|index| column_at(schema, index)).collect();
        let mut places = Vec::new();
        for key in keys {
            places.push(as_column(key, schema).unwrap_or_else(|| {
                all.push((*key).clone());
                all.len() - 1
            }));
        }
        let relation = self.with_computed_bounds(relation, plan, &places)?;
        let relation =
            if all.len() == columns { relation } else { self.compute(relation, schema, &[], &all, None)? };
        Ok(Side { relation, keys: places, columns })
    }

    /// Window bounds that are joined on are computed. The bounds of a row are event times too: no later row has a
    /// window that ends before the row's own time may be.
    fn with_computed_bounds(
        &mut self,
        relation: Relation,
        plan: &LogicalPlan,
        keys: &[usize],
    ) -> Result<Relation> {
        let is_pending = |role: &Role| role.window().is_some_and(|window| !window.is_computed);
        if !keys.iter().filter_map(|key| relation.roles.get(*key)).any(is_pending) {
            return Ok(relation);
        }
        let computed = |role: &Role| match *role {
            Role::WindowStart(window) => Role::WindowStart(Window { is_computed: true, ..window }),
            Role::WindowEnd(window) => Role::WindowEnd(Window { is_computed: true, ..window }),
            role => role,
        };
        let roles = relation.roles.iter().map(computed).collect();
        let relation = self.with_known_bounds(relation, plan.schema())?;
        Ok(Relation { roles, ..relation })
    }

    /// Removes computed keys, and orders the sides as in the logical plan.
    fn joined_in_order(
        &mut self,
        joined: Relation,
        first: &Side,
        second_columns: usize,
        swapped: bool,
        join: &Join,
    ) -> Result<Relation> {
        let first_all = first.relation.schema.fields().len();
        let own_second = join.schema.fields().len() - first.columns;
        debug_assert!(own_second <= second_columns);
        let first_places = 0..first.columns;
        let second_places = first_all..first_all + own_second;
        let places: Vec<usize> = if swapped {
            second_places.chain(first_places).collect()
        } else {
            first_places.chain(second_places).collect()
        };
        let selected = self.select(joined, &places, &join.schema)?;
        Ok(Relation { schema: schema_of(&join.schema), ..selected })
    }
}

/// Whether a table is an aggregate, and not a view whose primary key says which rows replace others.
fn is_aggregate(table: &LogicalPlan) -> bool {
    match table {
        LogicalPlan::Aggregate(_) => true,
        LogicalPlan::Extension(_) => false,
        other => other.inputs().into_iter().any(is_aggregate),
    }
}

/// The equalities by which rows are found, and the other conditions. A table of one row, an aggregate without GROUP BY,
/// has no key: an equality with its values is an ordinary condition.
fn conditions(join: &Join, table: &Relation) -> (Vec<(Expr, Expr)>, Option<Expr>) {
    let has_key = !matches!(&table.kind, Kind::Table { keys: Some(keys) } if keys.is_empty());
    if has_key {
        return (join.on.clone(), join.filter.clone());
    }
    let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    (Vec::new(), conjunction(equal.chain(join.filter.clone())))
}

/// The table's columns that form the keys of a join: all of its own key, and no others.
fn own_keys(table: &Relation, plan: &LogicalPlan, keys: &[&Expr]) -> Result<Vec<usize>> {
    let Kind::Table { keys: Some(own) } = &table.kind else {
        return Err(refuse(
            "the columns of the table do not include its key",
            "add the columns it is grouped by to its SELECT",
        ));
    };
    let places: Option<Vec<usize>> = keys.iter().map(|key| as_column(key, plan.schema())).collect();
    let sorted = |keys: &[usize]| {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys
    };
    match places {
        Some(places) if sorted(&places) == sorted(own) => Ok(places),
        _ => {
            let names: Vec<&str> = own.iter().map(|key| table.schema.field(*key).name().as_str()).collect();
            Err(refuse(
                "the table is joined on columns other than its key",
                &format!("join on exactly ({})", names.join(", ")),
            ))
        }
    }
}

/// Times of rows that were held.
fn behind(relation: &Relation, by_ns: i64) -> Vec<Role> {
    let behind = |role: &Role| match role.time_delay_ns() {
        Some(delay_ns) => Role::EventTime { delay_ns: delay_ns.saturating_add(by_ns) },
        None => Role::None,
    };
    relation.roles.iter().map(behind).collect()
}
