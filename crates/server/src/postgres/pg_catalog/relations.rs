//! The relations of PostgreSQL's catalogue.

use std::collections::BTreeMap;

use tidemill_engine::arrow::schema::Field;
use tidemill_service::{Role, User};
use tidemill_sql::{Catalog, ClientTable, ListedFunction, ListedKey, ListedRelation, RelationKind};

use super::indexes::{self, Index, PG_CONSTRAINT, PG_INDEX, PG_OPCLASS};
use super::information_schema;
use super::numbers::{DEFAULT_TABLESPACE, GLOBAL_TABLESPACE, OWNER, PUBLIC, SCHEMAS, oid};
use super::procedures::{self, PG_LANGUAGE, PG_PROC};
use super::settings::{self, PG_SETTINGS};
use super::table::Cell;
use super::table::CellKind::{Flag, Number, Text, Texts};
use super::table::{CellKind, Table};
use super::types::{self, PG_TYPE};
use super::words::{self, PG_GET_KEYWORDS};
use super::zones::{self, PG_TIMEZONE_NAMES};
use crate::postgres::session_settings::SessionSettings;
use crate::postgres::values::{Kind, type_modifier};

/// The catalogue, as PostgreSQL has it.
pub(super) struct Relations {
    pub relations: Vec<ListedRelation>,
    /// Those that are defined in SQL.
    pub functions: Vec<ListedFunction>,
    settings: Vec<(&'static str, String)>,
    pub user: String,
    /// Those of the database; none if nobody is asked who he is.
    users: Vec<User>,
    /// The queries of views, by name; empty unless the statement shows them.
    pub queries: BTreeMap<String, String>,
    /// Whether `information_schema.columns` has those of materialized views. In PostgreSQL it has not, so that clients which want
    /// them put those of `pg_attribute` beside it; others would miss them.
    pub lists_materialized: bool,
}

fn relkind(kind: RelationKind) -> &'static str {
    match kind {
        RelationKind::MaterializedView => "m",
        RelationKind::View | RelationKind::Process => "v",
        _ => "r",
    }
}

impl Relations {
    pub fn new(catalog: &Catalog, users: Vec<User>, settings: &SessionSettings) -> Relations {
        let user = settings.get("session_authorization").unwrap_or_default().to_owned();
        let settings = settings.all().map(|(name, value)| (name, value.to_owned())).collect();
        let (mut relations, functions) = (catalog.listed(), catalog.listed_functions());
        for relation in &mut relations {
            if let Some(table) = ClientTable::of(catalog, &relation.name) {
                relation.kind = RelationKind::Table;
                let columns = table.shape.key;
                relation.key = (!columns.is_empty()).then_some(ListedKey { columns, is_unique: true });
            }
        }
        Relations {
            relations,
            functions,
            settings,
            user,
            users,
            queries: BTreeMap::new(),
            lists_materialized: true,
        }
    }

    /// A relation by its name.
    pub fn table(&self, name: &str) -> Option<Table> {
        let (columns, values): (&'static [(&'static str, CellKind)], _) = match name {
            "pg_class" => (PG_CLASS, self.classes()),
            "pg_namespace" => (
                &[("oid", Number), ("nspname", Text), ("nspowner", Number)],
                SCHEMAS.map(|(oid, name)| vec![oid.into(), name.into(), OWNER.into()]).to_vec(),
            ),
            "pg_attribute" => (PG_ATTRIBUTE, self.attributes()),
            "pg_type" => (PG_TYPE, types::rows()),
            "pg_am" => (&[("oid", Number), ("amname", Text), ("amtype", Text)], indexes::methods()),
            "pg_index" => (PG_INDEX, self.indexes().map(|index| index.row()).collect()),
            "pg_constraint" => {
                (PG_CONSTRAINT, self.indexes().filter_map(|index| index.constraint_row()).collect())
            }
            "pg_proc" => (PG_PROC, procedures::rows(&self.functions)),
            "pg_opclass" => (PG_OPCLASS, indexes::operator_classes()),
            "pg_roles" | "pg_authid" => (PG_ROLES, self.roles()),
            "pg_user" => (
                &[("usename", Text), ("usesysid", Number), ("usesuper", Flag)],
                self.known()
                    .map(|(oid, name, role)| vec![name.into(), oid.into(), (role == Role::Owner).into()])
                    .collect(),
            ),
            "pg_database" => (
                PG_DATABASE,
                vec![vec![
                    1_i64.into(),
                    "tidemill".into(),
                    OWNER.into(),
                    6_i64.into(),
                    "c".into(),
                    false.into(),
                    true.into(),
                    "C".into(),
                    "C".into(),
                    (-1_i64).into(),
                    DEFAULT_TABLESPACE.into(),
                ]],
            ),
            "pg_settings" => (PG_SETTINGS, settings::rows(&self.settings)),
            "pg_get_keywords" => (PG_GET_KEYWORDS, words::rows()),
            "pg_timezone_names" => (PG_TIMEZONE_NAMES, zones::rows()),
            "pg_tablespace" => (
                &[("oid", Number), ("spcname", Text), ("spcowner", Number)],
                [(DEFAULT_TABLESPACE, "pg_default"), (GLOBAL_TABLESPACE, "pg_global")]
                    .map(|(oid, name)| vec![oid.into(), name.into(), OWNER.into()])
                    .to_vec(),
            ),
            "pg_language" => (PG_LANGUAGE, procedures::languages()),
            "pg_tables" => (
                &[("schemaname", Text), ("tablename", Text), ("tableowner", Text)],
                self.of_kind("r").map(|relation| self.owned(relation)).collect(),
            ),
            "pg_views" => (
                &[("schemaname", Text), ("viewname", Text), ("viewowner", Text), ("definition", Text)],
                self.of_kind("v").map(|relation| self.with_query(self.owned(relation), relation)).collect(),
            ),
            "pg_matviews" => (
                &[
                    ("schemaname", Text),
                    ("matviewname", Text),
                    ("matviewowner", Text),
                    ("definition", Text),
                    ("hasindexes", Flag),
                    ("ispopulated", Flag),
                ],
                self.of_kind("m")
                    .map(|relation| {
                        let mut row = self.with_query(self.owned(relation), relation);
                        row.extend([relation.key.is_some(), true].map(Cell::from));
                        row
                    })
                    .collect(),
            ),
            "pg_stat_user_tables" => (
                &[("relid", Number), ("schemaname", Text), ("relname", Text), ("n_live_tup", Number)],
                self.of_kind("r")
                    .map(|relation| {
                        let name = relation.name.as_str();
                        vec![oid(name).into(), "public".into(), name.into(), Cell::Null]
                    })
                    .collect(),
            ),
            "information_schema_tables" => (
                &[
                    ("table_catalog", Text),
                    ("table_schema", Text),
                    ("table_name", Text),
                    ("table_type", Text),
                ],
                self.relations
                    .iter()
                    .map(|relation| {
                        let kind = if relkind(relation.kind) == "r" { "BASE TABLE" } else { "VIEW" };
                        named(relation, &[kind.into()])
                    })
                    .collect(),
            ),
            "information_schema_views" => (
                &[
                    ("table_catalog", Text),
                    ("table_schema", Text),
                    ("table_name", Text),
                    ("view_definition", Text),
                ],
                self.of_kind("v").map(|relation| self.with_query(named(relation, &[]), relation)).collect(),
            ),
            "information_schema_schemata" => (
                &[("catalog_name", Text), ("schema_name", Text), ("schema_owner", Text)],
                ["pg_catalog", "public", "information_schema"]
                    .map(|name| vec!["tidemill".into(), name.into(), self.user.as_str().into()])
                    .to_vec(),
            ),
            "information_schema_columns" => (information_schema::COLUMNS, self.columns()),
            "information_schema_table_constraints" => (
                &[
                    ("constraint_catalog", Text),
                    ("constraint_schema", Text),
                    ("constraint_name", Text),
                    ("table_catalog", Text),
                    ("table_schema", Text),
                    ("table_name", Text),
                    ("constraint_type", Text),
                ],
                self.indexes().filter_map(|index| index.constraint_of_table()).collect(),
            ),
            "information_schema_key_column_usage" => (
                &[
                    ("constraint_catalog", Text),
                    ("constraint_schema", Text),
                    ("constraint_name", Text),
                    ("table_catalog", Text),
                    ("table_schema", Text),
                    ("table_name", Text),
                    ("column_name", Text),
                    ("ordinal_position", Number),
                    ("position_in_unique_constraint", Number),
                ],
                self.indexes().flat_map(|index| index.columns_of_key()).collect(),
            ),
            _ => return None,
        };
        Some(Table { columns, values })
    }

    pub fn indexes(&self) -> impl Iterator<Item = Index<'_>> {
        self.relations.iter().filter_map(Index::of)
    }

    fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = &ListedRelation> {
        self.relations.iter().filter(move |relation| relkind(relation.kind) == kind)
    }

    fn owned(&self, relation: &ListedRelation) -> Vec<Cell> {
        vec!["public".into(), relation.name.as_str().into(), self.user.as_str().into()]
    }

    /// A row, and the query of its view.
    fn with_query(&self, mut row: Vec<Cell>, relation: &ListedRelation) -> Vec<Cell> {
        row.push(self.queries.get(&relation.name).map_or(Cell::Null, |query| query.as_str().into()));
        row
    }

    /// The number of a user. The one who asks has that of the owner of everything, as there is only one; and so has everybody, if
    /// nobody is asked who he is.
    pub fn number_of(&self, user: &str) -> i64 {
        if self.users.is_empty() || user == self.user { OWNER } else { oid(&format!("user {user}")) }
    }

    /// The users, each with its number.
    fn known(&self) -> impl Iterator<Item = (i64, &str, Role)> {
        let own = self.users.is_empty().then_some((OWNER, self.user.as_str(), Role::Owner));
        let users = self.users.iter().map(|user| (self.number_of(&user.name), user.name.as_str(), user.role));
        own.into_iter().chain(users)
    }

    fn roles(&self) -> Vec<Vec<Cell>> {
        let row = |(oid, name, role): (i64, &str, Role)| {
            let is_owner = role == Role::Owner;
            let mut row: Vec<Cell> = vec![oid.into(), name.into()];
            row.extend([is_owner, true, is_owner, is_owner, true, false, is_owner].map(Cell::from));
            row.extend([(-1_i64).into(), Cell::Null]);
            row
        };
        self.known().map(row).collect()
    }

    fn classes(&self) -> Vec<Vec<Cell>> {
        let of_relation = |relation: &ListedRelation| {
            let kind = relkind(relation.kind);
            let columns = relation.columns.fields().len();
            let method = if kind == "v" { 0 } else { 2 };
            class(oid(&relation.name), &relation.name, kind, method, columns, relation.key.is_some())
        };
        let of_index = |index: Index<'_>| {
            class(index.oid(), &index.name(), "i", index.method(), index.column_names().count(), false)
        };
        self.relations.iter().map(of_relation).chain(self.indexes().map(of_index)).collect()
    }

    fn attributes(&self) -> Vec<Vec<Cell>> {
        let of_relation = |relation: &ListedRelation| {
            let number = oid(&relation.name);
            let fields = relation.columns.fields().iter().zip(1_i64..);
            fields.map(|(field, at)| attribute(number, field, at)).collect::<Vec<_>>()
        };
        let of_index = |relation: &ListedRelation| {
            let index = Index::of(relation);
            let attributes = index.into_iter().flat_map(|index| {
                let number = index.oid();
                let fields =
                    index.column_names().filter_map(|name| relation.columns.field_with_name(name).ok());
                fields.zip(1_i64..).map(move |(field, at)| attribute(number, field, at)).collect::<Vec<_>>()
            });
            attributes.collect::<Vec<_>>()
        };
        let relations = self.relations.iter();
        relations.clone().flat_map(of_relation).chain(relations.flat_map(of_index)).collect()
    }

    fn columns(&self) -> Vec<Vec<Cell>> {
        let of_relation = |relation: &ListedRelation| {
            let fields = relation.columns.fields().iter().zip(1_i64..);
            let column = |(field, at): (&tidemill_engine::arrow::schema::FieldRef, i64)| {
                let kind = Kind::of(field.data_type());
                let is_nullable = if field.is_nullable() { "YES" } else { "NO" };
                let mut rest: Vec<Cell> = vec![field.name().as_str().into(), at.into(), is_nullable.into()];
                rest.extend([kind.name(), kind.short_name(), "pg_catalog", "tidemill"].map(Cell::from));
                rest.extend(["NO", "NO", "NEVER", "NO"].map(Cell::from));
                rest.extend(information_schema::measures(field.data_type()));
                rest.push(at.to_string().as_str().into());
                named(relation, &rest)
            };
            fields.map(column).collect::<Vec<_>>()
        };
        let is_listed = |relation: &&ListedRelation| self.lists_materialized || relkind(relation.kind) != "m";
        self.relations.iter().filter(is_listed).flat_map(of_relation).collect()
    }
}

/// A row of `pg_class`.
fn class(number: i64, name: &str, kind: &str, method: i64, columns: usize, has_index: bool) -> Vec<Cell> {
    let mut row: Vec<Cell> = vec![number.into(), name.into(), PUBLIC.into(), 0_i64.into(), 0_i64.into()];
    row.extend([OWNER, method, 0, 0, 0, -1, 0].map(Cell::from));
    row.extend([has_index.into(), false.into(), "p".into(), kind.into()]);
    row.extend([(columns as i64).into(), 0_i64.into()]);
    row.extend([false, false, false, false, false, true].map(Cell::from));
    row.extend(["n".into(), false.into(), Cell::Null, Cell::Null, Cell::Null]);
    row
}

/// A row of `pg_attribute`.
fn attribute(relation: i64, field: &Field, at: i64) -> Vec<Cell> {
    let kind = Kind::of(field.data_type());
    let dimensions = i64::from(matches!(kind, Kind::Array(_)));
    let mut row: Vec<Cell> = vec![relation.into(), field.name().as_str().into()];
    let modifier = i64::from(type_modifier(field.data_type()));
    row.extend([i64::from(kind.oid()), i64::from(kind.size()), at, modifier].map(Cell::from));
    row.extend([(!field.is_nullable()).into(), false.into(), "".into(), "".into()]);
    row.extend([false.into(), true.into(), 0_i64.into(), dimensions.into(), Cell::Null, Cell::Null]);
    // Of PostgreSQL, values of a fixed size are plain, and others extended.
    row.extend([if kind.size() < 0 { "x" } else { "p" }.into(), "".into(), (-1_i64).into()]);
    row
}

/// Database, schema and name of a relation, and what follows.
fn named(relation: &ListedRelation, rest: &[Cell]) -> Vec<Cell> {
    let name = ["tidemill".into(), "public".into(), relation.name.as_str().into()];
    name.iter().chain(rest).cloned().collect()
}

const PG_CLASS: &[(&str, CellKind)] = &[
    ("oid", Number),
    ("relname", Text),
    ("relnamespace", Number),
    ("reltype", Number),
    ("reloftype", Number),
    ("relowner", Number),
    ("relam", Number),
    ("relfilenode", Number),
    ("reltablespace", Number),
    ("relpages", Number),
    ("reltuples", Number),
    ("reltoastrelid", Number),
    ("relhasindex", Flag),
    ("relisshared", Flag),
    ("relpersistence", Text),
    ("relkind", Text),
    ("relnatts", Number),
    ("relchecks", Number),
    ("relhasrules", Flag),
    ("relhastriggers", Flag),
    ("relhassubclass", Flag),
    ("relrowsecurity", Flag),
    ("relforcerowsecurity", Flag),
    ("relispopulated", Flag),
    ("relreplident", Text),
    ("relispartition", Flag),
    ("relacl", Texts),
    ("reloptions", Texts),
    ("relpartbound", Text),
];

const PG_ATTRIBUTE: &[(&str, CellKind)] = &[
    ("attrelid", Number),
    ("attname", Text),
    ("atttypid", Number),
    ("attlen", Number),
    ("attnum", Number),
    ("atttypmod", Number),
    ("attnotnull", Flag),
    ("atthasdef", Flag),
    ("attidentity", Text),
    ("attgenerated", Text),
    ("attisdropped", Flag),
    ("attislocal", Flag),
    ("attcollation", Number),
    ("attndims", Number),
    ("attacl", Texts),
    ("attoptions", Texts),
    ("attstorage", Text),
    ("attcompression", Text),
    ("attstattarget", Number),
];

const PG_ROLES: &[(&str, CellKind)] = &[
    ("oid", Number),
    ("rolname", Text),
    ("rolsuper", Flag),
    ("rolinherit", Flag),
    ("rolcreaterole", Flag),
    ("rolcreatedb", Flag),
    ("rolcanlogin", Flag),
    ("rolreplication", Flag),
    ("rolbypassrls", Flag),
    ("rolconnlimit", Number),
    ("rolvaliduntil", Text),
];

const PG_DATABASE: &[(&str, CellKind)] = &[
    ("oid", Number),
    ("datname", Text),
    ("datdba", Number),
    ("encoding", Number),
    ("datlocprovider", Text),
    ("datistemplate", Flag),
    ("datallowconn", Flag),
    ("datcollate", Text),
    ("datctype", Text),
    ("datconnlimit", Number),
    ("dattablespace", Number),
];
