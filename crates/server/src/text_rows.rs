//! Rows of texts.

use std::sync::Arc;

use serde_json::Value;
use tidemill_engine::arrow::array::{ArrayRef, RecordBatch, StringArray};
use tidemill_engine::arrow::schema::{DataType, Field, Schema};

/// The column of a plan, as PostgreSQL calls it.
pub(crate) const PLAN_COLUMN: &str = "QUERY PLAN";

pub(crate) fn text_schema(names: &[&str]) -> Schema {
    Schema::new(names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect::<Vec<_>>())
}

/// The lines of a plan.
pub(crate) fn plan_table(plan: &str) -> RecordBatch {
    text_table(&[PLAN_COLUMN], vec![plan.lines().map(str::to_owned).collect()])
}

/// Returns the lines of a plan, or one text in JSON with the same lines as a tree, as clients of PostgreSQL draw it.
pub(crate) fn plan_rows(plan: &str, is_json: bool) -> RecordBatch {
    if !is_json {
        return plan_table(plan);
    }
    let lines: Vec<&str> = plan.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut nodes = nodes(&lines);
    let root = if nodes.len() == 1 { nodes.remove(0) } else { node("Query", nodes) };
    let tree = serde_json::json!([{ "Plan": root }]);
    text_table(&[PLAN_COLUMN], vec![vec![format!("{tree:#}")]])
}

/// The nodes of lines, of which those that are indented more than the one before are below it.
fn nodes(lines: &[&str]) -> Vec<Value> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let Some(first) = lines.first() else { return Vec::new() };
    let below = lines[1..].iter().take_while(|line| depth(line) > depth(first)).count();
    let (own, rest) = lines.split_at(1 + below);
    let mut all = vec![node(first.trim(), nodes(&own[1..]))];
    all.extend(nodes(rest));
    all
}

fn node(name: &str, plans: Vec<Value>) -> Value {
    let mut node = serde_json::Map::new();
    node.insert("Node Type".to_owned(), name.into());
    if !plans.is_empty() {
        node.insert("Plans".to_owned(), plans.into());
    }
    node.into()
}

/// A table of texts. The columns have the same length.
pub(crate) fn text_table(names: &[&str], columns: Vec<Vec<String>>) -> RecordBatch {
    let columns = columns.into_iter().map(|values| Arc::new(StringArray::from(values)) as ArrayRef);
    RecordBatch::try_new(Arc::new(text_schema(names)), columns.collect()).expect("columns of equal length")
}

#[cfg(test)]
mod tests {
    use tidemill_engine::arrow::array::cast::AsArray;

    use super::*;

    #[test]
    fn a_plan_in_json_is_a_tree_of_its_lines() {
        let rows = plan_rows("join\n  table a\n    filter\n  table b\n", true);
        let text = rows.column(0).as_string::<i32>().value(0).to_owned();
        let tree: Value = serde_json::from_str(&text).unwrap();
        let expected = r#"[{"Plan": {"Node Type": "join", "Plans": [
            {"Node Type": "table a", "Plans": [{"Node Type": "filter"}]}, {"Node Type": "table b"}]}}]"#;
        assert_eq!(tree, serde_json::from_str::<Value>(expected).unwrap());
        assert_eq!(plan_rows("a\nb", false).num_rows(), 2);
    }
}
