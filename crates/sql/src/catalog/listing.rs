//! What queries can name, with columns, for those who show the catalogue in other ways.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::logical_expr::LogicalPlan;

use super::Catalog;
use crate::logical::header;
use crate::relations::named_relations::{Materialized, Relation};
use crate::statement::RelationKind;

/// Something that queries can name in FROM.
#[derive(Clone, Debug)]
pub struct ListedRelation {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: RelationKind,
    /// Its columns.
    pub columns: SchemaRef,
    /// The columns by which its rows are found, if there are any.
    pub key: Option<ListedKey>,
}

/// The columns by which the rows of a relation are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// Their indexes.
    pub columns: Vec<usize>,
    /// Whether it has one row at most for each value of them, counting NULL as a value.
    pub is_unique: bool,
}

impl Catalog {
    /// What queries can name in FROM, by name.
    pub fn listed(&self) -> Vec<ListedRelation> {
        let listed = |(name, relation): (&str, &Relation)| {
            let (kind, columns, key) = match relation {
                Relation::Source(source) if source.is_table => {
                    (RelationKind::Table, Arc::clone(&source.schema), unique(&source.key))
                }
                Relation::Source(source) => (RelationKind::Source, Arc::clone(&source.schema), None),
                Relation::View(view) => match &view.materialized {
                    Some(materialized) => {
                        (RelationKind::MaterializedView, columns(&view.plan), key_of(materialized))
                    }
                    None => (RelationKind::View, columns(&view.plan), None),
                },
                Relation::Process(set) => (RelationKind::Process, columns(&set.plan), None),
            };
            ListedRelation { name: name.to_owned(), kind, columns, key }
        };
        self.relations.iter().map(listed).collect()
    }
}

fn unique(columns: &[usize]) -> Option<ListedKey> {
    (!columns.is_empty()).then(|| ListedKey { columns: columns.to_vec(), is_unique: true })
}

fn key_of(materialized: &Materialized) -> Option<ListedKey> {
    let found = materialized.retained.key.as_ref();
    unique(materialized.key.as_deref().unwrap_or_default())
        .or_else(|| found.map(|columns| ListedKey { columns: columns.clone(), is_unique: false }))
}

fn columns(plan: &LogicalPlan) -> SchemaRef {
    let fields = plan.schema().fields().iter();
    let fields: Vec<Field> =
        fields.map(|field| field.as_ref().clone().with_name(header(field.name()))).collect();
    Arc::new(Schema::new(fields))
}
