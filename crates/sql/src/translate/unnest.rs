//! UNNEST: a row for each element of a row's lists, where the row is.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Unnest as UnnestPlan;

use tidemill_operators::changes::changelog_schema;

use super::changelog::KEEP_UP_TO_DATE;
use super::columns::schema_of;
use super::{Kind, Relation, Role, Translator, refuse};
use crate::expressions::unnested::{Unnest, Unnested};

impl Translator {
    pub(super) fn unnest(&mut self, unnest: &UnnestPlan) -> Result<Relation> {
        let relation = self.output(&unnest.input)?;
        let relation = if self.takes_changes { self.changelog(relation)? } else { relation };
        if matches!(relation.kind, Kind::Table { .. }) {
            return Err(refuse(
                "UNNEST of a table (an aggregate without a window) would have to retract elements that are gone",
                KEEP_UP_TO_DATE,
            ));
        }
        let is_list = |column: &usize| unnest.list_type_columns.iter().any(|(index, _)| index == column);
        let is_deep = unnest.list_type_columns.iter().any(|(_, list)| list.depth != 1);
        if is_deep || !unnest.struct_type_columns.is_empty() {
            return Err(refuse(
                "UNNEST of a struct, or of lists within lists, is not supported on streams",
                "select the fields by name, and unnest one level in each subquery",
            ));
        }
        let column = |column: &usize| {
            if is_list(column) { Unnested::Elements(*column) } else { Unnested::Whole(*column) }
        };
        let columns: Vec<Unnested> = unnest.dependency_indices.iter().map(column).collect();
        let fields = relation.schema.fields();
        for (index, _) in &unnest.list_type_columns {
            let found = fields[*index].data_type();
            if !matches!(found, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)) {
                return Err(refuse(
                    format!("UNNEST takes a list, and not {found}"),
                    "cast it: unnest(CAST(x AS DOUBLE[]))",
                ));
            }
        }
        let output = schema_of(&unnest.schema);
        // The elements of a row come and go with it.
        let weight = relation.is_changing().then(|| Unnested::Whole(fields.len()));
        let written = if relation.is_changing() { changelog_schema(&output) } else { Arc::clone(&output) };
        let steps = Unnest {
            columns: columns.iter().copied().chain(weight).collect(),
            output: Arc::clone(&written),
            keeps_empty: unnest.options.expand_empty_as_null(),
            memory: self.limits.memory.clone(),
        };
        let lists = unnest.list_type_columns.iter().map(|(index, _)| as_written(fields[*index].name()));
        let name = crate::logical::shown_text(&format!("unnest {}", lists.collect::<Vec<_>>().join(", ")));
        let stream = self.transform(name, relation.stream, written, move || Box::new(steps.clone()));
        let role = |column: &Unnested| match column {
            Unnested::Whole(index) => relation.roles[*index],
            Unnested::Elements(_) => Role::None,
        };
        let roles = columns.iter().map(role).collect();
        Ok(Relation { stream, schema: output, roles, selection: None, ..relation })
    }
}

/// The list as written: DataFusion's planner computes it in a column with this name.
fn as_written(name: &str) -> &str {
    let inner = name.strip_prefix("__unnest_placeholder(").and_then(|name| name.strip_suffix(')'));
    inner.unwrap_or(name)
}
