//! What queries can name, with columns, for those who show the catalogue in other ways.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::logical_expr::LogicalPlan;

use super::Catalog;
use crate::logical::header;
use crate::relations::named_relations::Relation;
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
}

impl Catalog {
    /// What queries can name in FROM, by name.
    pub fn listed(&self) -> Vec<ListedRelation> {
        let listed = |(name, relation): (&str, &Relation)| {
            let (kind, columns) = match relation {
                Relation::Source(source) => {
                    let kind = if source.is_table { RelationKind::Table } else { RelationKind::Source };
                    (kind, Arc::clone(&source.schema))
                }
                Relation::View(view) if view.materialized.is_some() => {
                    (RelationKind::MaterializedView, columns(&view.plan))
                }
                Relation::View(view) => (RelationKind::View, columns(&view.plan)),
                Relation::Process(set) => (RelationKind::Process, columns(&set.plan)),
            };
            ListedRelation { name: name.to_owned(), kind, columns }
        };
        self.relations.iter().map(listed).collect()
    }
}

fn columns(plan: &LogicalPlan) -> SchemaRef {
    let fields = plan.schema().fields().iter();
    let fields: Vec<Field> =
        fields.map(|field| field.as_ref().clone().with_name(header(field.name()))).collect();
    Arc::new(Schema::new(fields))
}
