//! Joins with a table that does not change: a transform that looks rows up, before any split.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{JoinType, Result, ScalarValue};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, lit};
use tidemill_operators::lookup::{Dimension, Lookup, LookupColumn, LookupKind, LookupSpec, output_schema};

use super::columns::{schema_of, stream_schema, unique};
use super::not_streaming::join_words;
use super::{Relation, Role, Translator, as_column, column_at, read_static, refuse};
use crate::limit_reached::limit_reached;

impl Translator {
    /// The rows of one side with the columns of the other, if that is a single row that is known: it is there from the first cycle on.
    fn with_constant_row(&mut self, join: &Join) -> Result<Option<Relation>> {
        if join.join_type != JoinType::Inner || !join.on.is_empty() || join.filter.is_some() {
            return Ok(None);
        }
        let is_row = |plan: &LogicalPlan| self.is_read_once(plan) && plan.max_rows() == Some(1);
        let (rows, row, is_right) = match (is_row(&join.left), is_row(&join.right)) {
            (_, true) => (&join.left, &join.right, true),
            (true, false) => (&join.right, &join.left, false),
            (false, false) => return Ok(None),
        };
        let constant = read_static(row, &self.limits.memory)?;
        if constant.num_rows() != 1 {
            return Ok(None);
        }
        let value = |column: &ArrayRef| Ok(Expr::Literal(ScalarValue::try_from_array(column, 0)?, None));
        let values = constant.columns().iter().map(value).collect::<Result<Vec<_>>>()?;
        let schema = rows.schema();
        let own: Vec<Expr> = (0..schema.fields().len()).map(|index| column_at(schema, index)).collect();
        let columns = if is_right { [own, values].concat() } else { [values, own].concat() };
        let relation = self.output(rows)?;
        self.compute(relation, schema, &[], &columns, Some(&join.schema)).map(Some)
    }

    pub(super) fn lookup(&mut self, join: &Join) -> Result<Relation> {
        let swapped = !self.is_read_once(&join.right);
        let (stream_plan, table_plan) =
            if swapped { (&join.right, &join.left) } else { (&join.left, &join.right) };
        let kind = match kind(join, swapped) {
            Ok(kind) => kind,
            Err(refusal) => return self.changing_join_or(join, refusal),
        };
        let relation = self.relation(stream_plan)?;
        if !relation.is_stream()
            && let Some(joined) = self.with_constant_row(join)?
        {
            return Ok(joined);
        }
        if !relation.is_stream() {
            let refusal = refuse(
                "a table that changes is joined with a fixed one before its rows are final",
                "join before GROUP BY: aggregate over (stream JOIN table)",
            );
            return self.changing_join_or(join, refusal);
        }
        let pairs = join.on.iter().map(|(l, r)| if swapped { (r, l) } else { (l, r) });
        let (stream_keys, table_keys): (Vec<&Expr>, Vec<&Expr>) = pairs.unzip();
        // Without keys, as in a cross join, all rows have the same one.
        let is_crossed = join.on.is_empty();
        let same = lit(SAME_KEY);
        let stream_keys = if is_crossed { vec![&same] } else { stream_keys };
        let stream = self.side(relation, stream_plan, &stream_keys)?;
        let table = read_static(table_plan, &self.limits.memory)?;
        let places: Option<Vec<usize>> =
            table_keys.iter().map(|key| as_column(key, table_plan.schema())).collect();
        let Some(mut places) = places else {
            return Err(refuse(
                "the table is joined on an expression",
                "name the expression in a subquery or a view over the table, and join on that name",
            ));
        };
        let table = table.with_schema(schema_of(table_plan.schema()))?;
        if kind == LookupKind::NotIn && places.iter().any(|key| table.column(*key).logical_null_count() > 0) {
            return Err(refuse(
                "the list of NOT IN contains NULL, so the condition is true for no row",
                "exclude NULLs from the list with WHERE column IS NOT NULL, or write NOT EXISTS",
            ));
        }
        let table_columns = table.num_columns();
        let keeps_table = matches!(kind, LookupKind::Inner | LookupKind::Left);
        let shown_columns = if keeps_table { table_columns } else { 0 };
        let table = if is_crossed { with_same_key(&table)? } else { table };
        if is_crossed {
            places.push(table_columns);
        }
        let dimension = Dimension::new(table, places)
            .map_err(|cause| refuse(cause.to_string(), "join on columns of a type that can be compared"))?;
        let dimension = Arc::new(dimension.counted(&self.limits.memory).map_err(limit_reached)?);
        let (stream_output, table_output) =
            ((0..stream.columns).map(LookupColumn::Stream), (0..shown_columns).map(LookupColumn::Dimension));
        let columns: Vec<LookupColumn> = if swapped {
            table_output.chain(stream_output).collect()
        } else {
            stream_output.chain(table_output).collect()
        };
        let residual = self.condition(join.filter.as_ref(), &stream, stream_plan, table_plan)?;
        let spec = LookupSpec {
            stream: Arc::clone(&stream.relation.schema),
            dimension,
            keys: stream.keys.clone(),
            kind,
            residual,
            output: columns,
            memory: self.limits.memory.clone(),
        };
        let output = unique(&output_schema(&spec));
        Lookup::new(spec.clone()).map_err(|cause| refuse(cause.to_string(), "cast the keys to one type"))?;
        let name = if is_crossed { "pair with all rows".to_string() } else { name(kind, &table_keys) };
        let joined = self.transform(name, stream.relation.stream, Arc::clone(&output), move || {
            Box::new(Lookup::new(spec.clone()).expect("checked when it was planned"))
        });
        let stream_roles = stream.relation.roles[..stream.columns].to_vec();
        let table_roles = vec![Role::None; shown_columns];
        let roles =
            if swapped { [table_roles, stream_roles].concat() } else { [stream_roles, table_roles].concat() };
        Ok(Relation { selection: None, stream: joined, schema: output, roles, ..stream.relation })
    }
}

/// Which rows a join with a table keeps.
fn kind(join: &Join, swapped: bool) -> Result<LookupKind> {
    Ok(match (join.join_type, swapped) {
        (JoinType::Inner, _) => LookupKind::Inner,
        (JoinType::Left, false) | (JoinType::Right, true) => LookupKind::Left,
        (JoinType::LeftSemi, false) | (JoinType::RightSemi, true) => LookupKind::Exists,
        (JoinType::LeftAnti, false) if join.null_aware => LookupKind::NotIn,
        (JoinType::LeftAnti, false) | (JoinType::RightAnti, true) => LookupKind::NotExists,
        (JoinType::LeftMark | JoinType::RightMark, _) => {
            return Err(refuse(
                "IN or EXISTS over a table is supported on a stream only as a condition of its own in WHERE, joined \
                 by AND",
                "look the value up: SELECT s.*, t.id IS NOT NULL AS found FROM s LEFT JOIN (SELECT DISTINCT id FROM \
                 t) AS t ON t.id = s.id",
            ));
        }
        _ => {
            return Err(refuse(
                format!("{} with a table cannot run on a stream", join_words(join.join_type)),
                "make the stream the preserved side: stream LEFT JOIN table",
            ));
        }
    })
}

/// Its display name. Subqueries have names that nobody has written.
fn name(kind: LookupKind, table_keys: &[&Expr]) -> String {
    let shown = |key: &&Expr| match key {
        Expr::Column(column) if !matches!(kind, LookupKind::Inner | LookupKind::Left) => column.name.clone(),
        key => key.to_string(),
    };
    let keys = table_keys.iter().map(shown).collect::<Vec<_>>().join(", ");
    match kind {
        LookupKind::Inner | LookupKind::Left => format!("look up {keys}"),
        LookupKind::Exists => format!("keep if {keys} is found"),
        LookupKind::NotExists | LookupKind::NotIn => format!("keep if {keys} is not found"),
    }
}

/// The common key of all rows in a cross join.
const SAME_KEY: i64 = 0;

/// A table with an additional last column that is the same in all rows.
fn with_same_key(table: &RecordBatch) -> Result<RecordBatch> {
    let key = Arc::new(Int64Array::from(vec![SAME_KEY; table.num_rows()])) as ArrayRef;
    let schema = table.schema();
    let fields = schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone()));
    let schema = stream_schema(fields.chain([("same".to_string(), DataType::Int64)]));
    let columns = table.columns().iter().cloned().chain([key]).collect();
    Ok(RecordBatch::try_new(schema, columns)?)
}
