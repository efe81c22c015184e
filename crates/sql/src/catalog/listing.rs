//! What queries can name, with columns, for those who show the catalogue in other ways.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::logical_expr::LogicalPlan;

use super::Catalog;
use super::definition::with_columns;
use super::failed::defined;
use crate::defined_functions::DefinedFunction;
use crate::logical::header;
use crate::relations::named_relations::{Materialized, Relation};
use crate::statement::{FunctionResult, RelationKind, Statement, StatementKind, TypedName, parse};
use crate::text::masked;

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

/// A function that is defined in SQL, or whose code is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFunction {
    /// Its name.
    pub name: String,
    /// Its parameters with their types, as they were written.
    pub parameters: Vec<(String, String)>,
    /// Whether it is an aggregate.
    pub is_aggregate: bool,
    /// The type of its value; `None`: it gives rows.
    pub value: Option<String>,
    /// The columns of its rows with their types; none if it gives a value.
    pub columns: Vec<(String, String)>,
}

impl Catalog {
    /// The functions that are defined in SQL, by name.
    ///
    /// ```
    /// use tidemill_sql::{Planner, parse};
    /// let mut planner = Planner::new();
    /// let text = "CREATE FUNCTION twice(n BIGINT) RETURNS BIGINT AS 'n * 2'";
    /// planner.execute(&parse(text, "example").unwrap()[0]).unwrap();
    /// let functions = planner.catalog().listed_functions();
    /// assert_eq!((functions[0].name.as_str(), functions[0].value.as_deref()), ("twice", Some("BIGINT")));
    /// ```
    pub fn listed_functions(&self) -> Vec<ListedFunction> {
        let typed = |all: &[TypedName]| -> Vec<(String, String)> {
            all.iter().map(|one| (one.name.value.clone(), one.data_type.to_string())).collect()
        };
        let listed = |(name, function): (&String, &Arc<DefinedFunction>)| {
            let StatementKind::CreateFunction(create) = &function.definition.kind else { return None };
            let (value, columns) = match &create.result {
                FunctionResult::Value((data_type, _)) => (Some(data_type.to_string()), Vec::new()),
                FunctionResult::Rows(columns) => (None, typed(columns)),
            };
            let (name, is_aggregate) = (name.clone(), create.is_aggregate);
            let parameters = typed(&create.parameters);
            Some(ListedFunction { name, parameters, is_aggregate, value, columns })
        };
        self.defined.iter().filter_map(listed).collect()
    }

    /// The newest definition of something of this name: its statement as it was written, with stars for passwords.
    ///
    /// ```
    /// use tidemill_sql::{Planner, parse};
    /// let mut planner = Planner::new();
    /// let text = "CREATE VIEW one AS SELECT 1 AS n";
    /// planner.execute(&parse(text, "example").unwrap()[0]).unwrap();
    /// assert_eq!(planner.catalog().definition_of("one").as_deref(), Some(text));
    /// assert_eq!(planner.catalog().definition_of("two"), None);
    /// ```
    pub fn definition_of(&self, name: &str) -> Option<String> {
        let defines = |statement: &Statement| match &statement.kind {
            StatementKind::InsertInto { .. } => false,
            _ => defined(statement).is_some_and(|(_, defined)| defined == name),
        };
        let texts = self.definitions().iter().rev().map(|definition| definition.statement.as_str());
        let texts = texts.filter(|text| text.to_lowercase().contains(&name.to_lowercase()));
        let mut added = Vec::new();
        for text in texts {
            let statements = parse(text, "a definition").unwrap_or_default();
            let Some(statement) = statements.into_iter().find(|statement| defines(statement)) else {
                continue;
            };
            if let StatementKind::AddColumns(_) = statement.kind {
                added.push(statement);
                continue;
            }
            let whole =
                added.iter().rev().try_fold(statement, |definition, added| with_columns(&definition, added));
            return Some(masked(&whole?.text).into_owned());
        }
        None
    }

    /// The queries of all views, by the name of the view.
    pub fn queries_of_views(&self) -> BTreeMap<String, String> {
        let mut queries = BTreeMap::new();
        for definition in self.definitions() {
            for statement in parse(&definition.statement, "a definition").unwrap_or_default() {
                let (name, query) = match &statement.kind {
                    StatementKind::CreateView(view) => (&view.name, &view.query),
                    StatementKind::CreateMaterializedView(view) => (&view.name, &view.query),
                    _ => continue,
                };
                queries.insert(name.value.clone(), query.to_string());
            }
        }
        queries
    }

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
