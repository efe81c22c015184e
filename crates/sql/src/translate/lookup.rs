//! Joins with a table that does not change: a transform that looks rows up, before any split.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::{Expr, Join, lit};
use tidemill_operators::join::JoinKind;
use tidemill_operators::lookup::{Dimension, Lookup, LookupColumn, LookupSpec, output_schema};

use super::columns::{schema_of, stream_schema, unique};
use super::join::condition;
use super::{Relation, Role, Translator, as_column, is_static, read_static, refuse};

impl Translator {
    pub(super) fn lookup(&mut self, join: &Join) -> Result<Relation> {
        let swapped = !is_static(&join.right);
        let (stream_plan, table_plan) =
            if swapped { (&join.right, &join.left) } else { (&join.left, &join.right) };
        let kind = match (join.join_type, swapped) {
            (JoinType::Inner, _) => JoinKind::Inner,
            (JoinType::Left, false) | (JoinType::Right, true) => JoinKind::Left,
            _ => {
                return Err(refuse(
                    format!("a {} join with a table cannot run on a stream", join.join_type),
                    "let the stream be the side that is kept: stream LEFT JOIN table",
                ));
            }
        };
        let relation = self.relation(stream_plan)?;
        if !relation.is_stream() {
            return Err(refuse(
                "a table that changes is joined with one that does not, before its rows are final",
                "join before GROUP BY: aggregate over (stream JOIN table)",
            ));
        }
        let pairs = join.on.iter().map(|(l, r)| if swapped { (r, l) } else { (l, r) });
        let (stream_keys, table_keys): (Vec<&Expr>, Vec<&Expr>) = pairs.unzip();
        // Without keys, as in a cross join, all rows have the same one.
        let is_crossed = join.on.is_empty();
        let same = lit(SAME_KEY);
        let stream_keys = if is_crossed { vec![&same] } else { stream_keys };
        let stream = self.side(relation, stream_plan, &stream_keys)?;
        let table = read_static(table_plan)?;
        let places: Option<Vec<usize>> =
            table_keys.iter().map(|key| as_column(key, table_plan.schema())).collect();
        let Some(mut places) = places else {
            return Err(refuse(
                "a table is joined by an expression",
                "give the expression a name in a subquery or a view over the table, and join by that",
            ));
        };
        let table = table.with_schema(schema_of(table_plan.schema()))?;
        let table_columns = table.num_columns();
        let table = if is_crossed { with_same_key(&table)? } else { table };
        if is_crossed {
            places.push(table_columns);
        }
        let dimension =
            Arc::new(Dimension::new(table, places).map_err(|cause| {
                refuse(cause.to_string(), "join by columns of a type that can be compared")
            })?);
        let (stream_output, table_output) =
            ((0..stream.columns).map(LookupColumn::Stream), (0..table_columns).map(LookupColumn::Dimension));
        let columns: Vec<LookupColumn> = match swapped {
            false => stream_output.chain(table_output).collect(),
            true => table_output.chain(stream_output).collect(),
        };
        let residual = condition(join.filter.as_ref(), &stream, stream_plan, table_plan)?;
        let spec = LookupSpec {
            stream: Arc::clone(&stream.relation.schema),
            dimension,
            keys: stream.keys.clone(),
            kind,
            residual,
            output: columns,
        };
        let output = unique(&output_schema(&spec));
        Lookup::new(spec.clone()).map_err(|cause| refuse(cause.to_string(), "cast the keys to one type"))?;
        let keys: Vec<String> = table_keys.iter().map(ToString::to_string).collect();
        let name = if is_crossed {
            "pair with all rows".to_string()
        } else {
            format!("look up {}", keys.join(", "))
        };
        let joined = self.transform(name, stream.relation.stream, Arc::clone(&output), move || {
            Box::new(Lookup::new(spec.clone()).expect("checked when it was planned"))
        });
        let stream_roles = stream.relation.roles[..stream.columns].to_vec();
        let table_roles = vec![Role::None; table_columns];
        let roles =
            if swapped { [table_roles, stream_roles].concat() } else { [stream_roles, table_roles].concat() };
        Ok(Relation { selection: None, stream: joined, schema: output, roles, ..stream.relation })
    }
}

/// The key of all rows of a cross join.
const SAME_KEY: i64 = 0;

/// A table with a column behind the others that is the same in all rows.
fn with_same_key(table: &RecordBatch) -> Result<RecordBatch> {
    let key = Arc::new(Int64Array::from(vec![SAME_KEY; table.num_rows()])) as ArrayRef;
    let schema = table.schema();
    let fields = schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone()));
    let schema = stream_schema(fields.chain([("same".to_string(), DataType::Int64)]));
    let columns = table.columns().iter().cloned().chain([key]).collect();
    Ok(RecordBatch::try_new(schema, columns)?)
}
