//! The relations of PostgreSQL's catalogue.

use tidemill_service::{Role, User};
use tidemill_sql::{Catalog, ListedRelation, RelationKind};

use super::table::Cell;
use super::table::CellKind::{Flag, Number, Text, Texts};
use super::table::{CellKind, Table};
use crate::session_settings::SessionSettings;
use crate::values::{Kind, TYPES};

/// The relations that there are. Those of `information_schema` have its name before theirs.
pub(super) const NAMES: [&str; 20] = [
    "information_schema_columns",
    "information_schema_schemata",
    "information_schema_tables",
    "information_schema_views",
    "pg_am",
    "pg_attrdef",
    "pg_attribute",
    "pg_authid",
    "pg_class",
    "pg_database",
    "pg_description",
    "pg_matviews",
    "pg_namespace",
    "pg_roles",
    "pg_settings",
    "pg_stat_user_tables",
    "pg_tables",
    "pg_type",
    "pg_user",
    "pg_views",
];

const PG_CATALOG: i64 = 11;
const PUBLIC: i64 = 2200;
const INFORMATION_SCHEMA: i64 = 13_000;
/// The number of the one role.
const OWNER: i64 = 10;
/// The first number of what users define.
const FIRST_OID: i64 = 16_384;

/// The catalogue, as PostgreSQL has it.
pub(super) struct Relations {
    pub relations: Vec<ListedRelation>,
    settings: Vec<(&'static str, String)>,
    pub user: String,
    /// Those of the database; none if nobody is asked who he is.
    users: Vec<User>,
}

/// The number of a relation: a hash of its name, so that it stays the same whatever else is defined.
pub(super) fn oid(name: &str) -> i64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    FIRST_OID + (hash % (1 << 30)) as i64
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
        Relations { relations: catalog.listed(), settings, user, users }
    }

    /// A relation by its name.
    pub fn table(&self, name: &str) -> Option<Table> {
        let (columns, values): (&'static [(&'static str, CellKind)], _) = match name {
            "pg_class" => (PG_CLASS, self.classes()),
            "pg_namespace" => (
                &[("oid", Number), ("nspname", Text), ("nspowner", Number), ("nspacl", Texts)],
                [(PG_CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION_SCHEMA, "information_schema")]
                    .map(|(oid, name)| vec![oid.into(), name.into(), OWNER.into(), Cell::Null])
                    .to_vec(),
            ),
            "pg_attribute" => (PG_ATTRIBUTE, self.attributes()),
            "pg_type" => (PG_TYPE, types()),
            "pg_am" => (
                &[("oid", Number), ("amname", Text), ("amtype", Text)],
                vec![vec![2_i64.into(), "heap".into(), "t".into()]],
            ),
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
                    Cell::Null,
                    Cell::Null,
                    Cell::Null,
                ]],
            ),
            // Without rows, for queries that join them to what may have none.
            "pg_attrdef" => {
                (&[("oid", Number), ("adrelid", Number), ("adnum", Number), ("adbin", Text)], Vec::new())
            }
            "pg_description" => (
                &[("objoid", Number), ("classoid", Number), ("objsubid", Number), ("description", Text)],
                Vec::new(),
            ),
            "pg_settings" => (
                &[("name", Text), ("setting", Text)],
                self.settings
                    .iter()
                    .map(|(name, value)| vec![(*name).into(), value.as_str().into()])
                    .collect(),
            ),
            "pg_tables" => (
                &[("schemaname", Text), ("tablename", Text), ("tableowner", Text)],
                self.of_kind("r").map(|relation| self.owned(relation)).collect(),
            ),
            "pg_views" => (
                &[("schemaname", Text), ("viewname", Text), ("viewowner", Text)],
                self.of_kind("v").map(|relation| self.owned(relation)).collect(),
            ),
            "pg_matviews" => (
                &[("schemaname", Text), ("matviewname", Text), ("matviewowner", Text)],
                self.of_kind("m").map(|relation| self.owned(relation)).collect(),
            ),
            "pg_stat_user_tables" => (
                &[("relid", Number), ("schemaname", Text), ("relname", Text)],
                self.of_kind("r")
                    .map(|relation| {
                        vec![oid(&relation.name).into(), "public".into(), relation.name.as_str().into()]
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
                &[("table_catalog", Text), ("table_schema", Text), ("table_name", Text)],
                self.of_kind("v").map(|relation| named(relation, &[])).collect(),
            ),
            "information_schema_schemata" => (
                &[("catalog_name", Text), ("schema_name", Text), ("schema_owner", Text)],
                ["pg_catalog", "public", "information_schema"]
                    .map(|name| vec!["tidemill".into(), name.into(), self.user.as_str().into()])
                    .to_vec(),
            ),
            "information_schema_columns" => (INFORMATION_SCHEMA_COLUMNS, self.columns()),
            _ => return None,
        };
        Some(Table { columns, values })
    }

    fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = &ListedRelation> {
        self.relations.iter().filter(move |relation| relkind(relation.kind) == kind)
    }

    fn owned(&self, relation: &ListedRelation) -> Vec<Cell> {
        vec!["public".into(), relation.name.as_str().into(), self.user.as_str().into()]
    }

    /// The users, each with its number. The one who asks has that of the owner of everything, as there is only one.
    fn known(&self) -> impl Iterator<Item = (i64, &str, Role)> {
        let own = self.users.is_empty().then_some((OWNER, self.user.as_str(), Role::Owner));
        let number = |name: &str| if name == self.user { OWNER } else { oid(&format!("user {name}")) };
        let users = self.users.iter().map(move |user| (number(&user.name), user.name.as_str(), user.role));
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
        let class = |relation: &ListedRelation| -> Vec<Cell> {
            let kind = relkind(relation.kind);
            let am = if kind == "v" { 0_i64 } else { 2 };
            vec![
                oid(&relation.name).into(),
                relation.name.as_str().into(),
                PUBLIC.into(),
                0_i64.into(),
                0_i64.into(),
                OWNER.into(),
                am.into(),
                0_i64.into(),
                0_i64.into(),
                0_i64.into(),
                (-1_i64).into(),
                0_i64.into(),
                false.into(),
                false.into(),
                "p".into(),
                kind.into(),
                (relation.columns.fields().len() as i64).into(),
                0_i64.into(),
                false.into(),
                false.into(),
                false.into(),
                false.into(),
                false.into(),
                true.into(),
                "n".into(),
                false.into(),
                Cell::Null,
                Cell::Null,
                Cell::Null,
            ]
        };
        self.relations.iter().map(class).collect()
    }

    fn attributes(&self) -> Vec<Vec<Cell>> {
        let of_relation = |relation: &ListedRelation| {
            let number = oid(&relation.name);
            let fields = relation.columns.fields().iter().zip(1_i64..);
            let attribute =
                move |(field, at): (&tidemill_engine::arrow::schema::FieldRef, i64)| -> Vec<Cell> {
                    let kind = Kind::of(field.data_type());
                    vec![
                        number.into(),
                        field.name().as_str().into(),
                        i64::from(kind.oid()).into(),
                        i64::from(kind.size()).into(),
                        at.into(),
                        (-1_i64).into(),
                        (!field.is_nullable()).into(),
                        false.into(),
                        "".into(),
                        "".into(),
                        false.into(),
                        true.into(),
                        0_i64.into(),
                        0_i64.into(),
                        Cell::Null,
                        Cell::Null,
                    ]
                };
            fields.map(attribute).collect::<Vec<_>>()
        };
        self.relations.iter().flat_map(of_relation).collect()
    }

    fn columns(&self) -> Vec<Vec<Cell>> {
        let of_relation = |relation: &ListedRelation| {
            let fields = relation.columns.fields().iter().zip(1_i64..);
            let column = |(field, at): (&tidemill_engine::arrow::schema::FieldRef, i64)| {
                let kind = Kind::of(field.data_type());
                let is_nullable = if field.is_nullable() { "YES" } else { "NO" };
                let rest = [
                    field.name().as_str().into(),
                    at.into(),
                    Cell::Null,
                    is_nullable.into(),
                    kind.name().into(),
                    kind.short_name().into(),
                ];
                named(relation, &rest)
            };
            fields.map(column).collect::<Vec<_>>()
        };
        self.relations.iter().flat_map(of_relation).collect()
    }
}

/// Database, schema and name of a relation, and what follows.
fn named(relation: &ListedRelation, rest: &[Cell]) -> Vec<Cell> {
    let name = ["tidemill".into(), "public".into(), relation.name.as_str().into()];
    name.iter().chain(rest).cloned().collect()
}

fn types() -> Vec<Vec<Cell>> {
    let row = |&(kind, oid, size, _): &(Kind, u32, i16, &str)| -> Vec<Cell> {
        vec![
            i64::from(oid).into(),
            kind.short_name().into(),
            PG_CATALOG.into(),
            i64::from(size).into(),
            "b".into(),
            0_i64.into(),
            0_i64.into(),
            0_i64.into(),
            0_i64.into(),
            (-1_i64).into(),
            0_i64.into(),
            false.into(),
            ",".into(),
            OWNER.into(),
            true.into(),
        ]
    };
    TYPES.iter().map(row).collect()
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
];

const PG_TYPE: &[(&str, CellKind)] = &[
    ("oid", Number),
    ("typname", Text),
    ("typnamespace", Number),
    ("typlen", Number),
    ("typtype", Text),
    ("typrelid", Number),
    ("typelem", Number),
    ("typarray", Number),
    ("typbasetype", Number),
    ("typtypmod", Number),
    ("typcollation", Number),
    ("typnotnull", Flag),
    ("typdelim", Text),
    ("typowner", Number),
    ("typisdefined", Flag),
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
    ("daticulocale", Text),
    ("datcollversion", Text),
    ("datacl", Texts),
];

const INFORMATION_SCHEMA_COLUMNS: &[(&str, CellKind)] = &[
    ("table_catalog", Text),
    ("table_schema", Text),
    ("table_name", Text),
    ("column_name", Text),
    ("ordinal_position", Number),
    ("column_default", Text),
    ("is_nullable", Text),
    ("data_type", Text),
    ("udt_name", Text),
];
