//! Keys of tables and views as PostgreSQL's catalogue has them: indexes, constraints, and classes of operators.

use tidemill_sql::ListedRelation;

use super::numbers::{OWNER, PG_CATALOG, PUBLIC, oid};
use super::table::Cell;
use super::table::CellKind::{self, Flag, Number, Numbers, Text, Vector};
use crate::postgres::values::{Kind, TYPES};

/// The methods of access: how rows are found.
const HEAP: i64 = 2;
const BTREE: i64 = 403;
const HASH: i64 = 405;

/// The first numbers of the operators by which values of a type are ordered, and found.
const BTREE_OPERATORS: i64 = 10_000;
const HASH_OPERATORS: i64 = 11_000;

/// What a key promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    /// One row for each value, and no value is NULL.
    Primary,
    /// One row for each value, and NULL is a value.
    Unique,
    /// Rows are found by it.
    None,
}

/// The index of a relation by its key.
pub(super) struct Index<'a> {
    relation: &'a ListedRelation,
    columns: &'a [usize],
    promise: Promise,
}

impl<'a> Index<'a> {
    /// The index of a relation, if it has a key.
    pub fn of(relation: &'a ListedRelation) -> Option<Index<'a>> {
        let key = relation.key.as_ref()?;
        let fields = relation.columns.fields();
        let known = key.columns.iter().all(|column| *column < fields.len());
        let is_nullable = key.columns.iter().any(|column| fields[*column].is_nullable());
        let promise = match (key.is_unique, is_nullable) {
            (false, _) => Promise::None,
            (true, true) => Promise::Unique,
            (true, false) => Promise::Primary,
        };
        known.then_some(Index { relation, columns: &key.columns, promise })
    }

    pub fn name(&self) -> String {
        let columns: Vec<&str> = self.column_names().collect();
        match self.promise {
            Promise::Primary => format!("{}_pkey", self.relation.name),
            Promise::Unique => format!("{}_{}_key", self.relation.name, columns.join("_")),
            Promise::None => format!("{}_{}_idx", self.relation.name, columns.join("_")),
        }
    }

    pub fn oid(&self) -> i64 {
        oid(&format!("index {}", self.relation.name))
    }

    fn constraint_oid(&self) -> i64 {
        oid(&format!("constraint {}", self.relation.name))
    }

    /// How rows are found by it.
    pub fn method(&self) -> i64 {
        if self.promise == Promise::None { HASH } else { BTREE }
    }

    pub fn column_names(&self) -> impl Iterator<Item = &'a str> {
        self.columns.iter().map(|column| self.relation.columns.field(*column).name().as_str())
    }

    fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.columns.iter().map(|column| Kind::of(self.relation.columns.field(*column).data_type()))
    }

    /// The numbers of its columns, which count from 1.
    fn numbers(&self) -> Vec<i64> {
        self.columns.iter().map(|column| *column as i64 + 1).collect()
    }

    /// The constraint that it stands for, as it would be written.
    pub fn constraint(&self, quoted: impl Fn(&str) -> String) -> Option<(i64, String)> {
        let columns = self.column_names().map(quoted).collect::<Vec<_>>().join(", ");
        let text = match self.promise {
            Promise::Primary => format!("PRIMARY KEY ({columns})"),
            Promise::Unique => format!("UNIQUE NULLS NOT DISTINCT ({columns})"),
            Promise::None => return None,
        };
        Some((self.constraint_oid(), text))
    }

    /// How it would be created.
    pub fn definition(&self, quoted: impl Fn(&str) -> String) -> String {
        let columns = self.column_names().map(&quoted).collect::<Vec<_>>().join(", ");
        let (unique, nulls) = match self.promise {
            Promise::Primary => ("UNIQUE ", ""),
            Promise::Unique => ("UNIQUE ", " NULLS NOT DISTINCT"),
            Promise::None => ("", ""),
        };
        let method = if self.method() == HASH { "hash" } else { "btree" };
        let (index, relation) = (quoted(&self.name()), quoted(&self.relation.name));
        format!("CREATE {unique}INDEX {index} ON public.{relation} USING {method} ({columns}){nulls}")
    }

    /// As a row of `pg_index`.
    pub fn row(&self) -> Vec<Cell> {
        let count = self.columns.len() as i64;
        let zeros = vec![0; self.columns.len()];
        let first = if self.method() == HASH { HASH_OPERATORS } else { BTREE_OPERATORS };
        let operators = self.kinds().map(|kind| first + place(kind)).collect();
        let mut row: Vec<Cell> =
            vec![self.oid().into(), oid(&self.relation.name).into(), count.into(), count.into()];
        let is_unique = self.promise != Promise::None;
        row.extend(
            [is_unique, self.promise == Promise::Unique, self.promise == Promise::Primary].map(Cell::from),
        );
        row.extend([false, true, false, true, false, true, true, false].map(Cell::from));
        row.extend([Cell::Numbers(self.numbers()), Cell::Numbers(zeros.clone()), Cell::Numbers(operators)]);
        row.extend([Cell::Numbers(zeros), Cell::Null, Cell::Null]);
        row
    }

    /// As a row of `pg_constraint`.
    pub fn constraint_row(&self) -> Option<Vec<Cell>> {
        let kind = match self.promise {
            Promise::Primary => "p",
            Promise::Unique => "u",
            Promise::None => return None,
        };
        let name = self.name();
        let mut row: Vec<Cell> =
            vec![self.constraint_oid().into(), name.as_str().into(), PUBLIC.into(), kind.into()];
        row.extend([false, false, true].map(Cell::from));
        row.extend([oid(&self.relation.name), 0, self.oid(), 0, 0].map(Cell::from));
        row.extend([" ", " ", " "].map(Cell::from));
        row.extend([true.into(), 0_i64.into(), true.into()]);
        row.extend([Cell::Numbers(self.numbers()), Cell::Null, Cell::Null]);
        Some(row)
    }
}

impl Index<'_> {
    fn named(&self) -> Vec<Cell> {
        let name = self.name();
        let names = ["tidemill", "public", name.as_str(), "tidemill", "public", self.relation.name.as_str()];
        names.map(Cell::from).to_vec()
    }

    /// As a row of `information_schema.table_constraints`.
    pub fn constraint_of_table(&self) -> Option<Vec<Cell>> {
        let kind = match self.promise {
            Promise::Primary => "PRIMARY KEY",
            Promise::Unique => "UNIQUE",
            Promise::None => return None,
        };
        let mut row = self.named();
        row.push(kind.into());
        Some(row)
    }

    /// As rows of `information_schema.key_column_usage`.
    pub fn columns_of_key(&self) -> Vec<Vec<Cell>> {
        let names = self.column_names().filter(|_| self.promise != Promise::None).zip(1_i64..);
        let row = |(name, at): (&str, i64)| {
            let mut row = self.named();
            row.extend([name.into(), at.into(), Cell::Null]);
            row
        };
        names.map(row).collect()
    }
}

/// Where the type of a column stands among the types.
fn place(kind: Kind) -> i64 {
    TYPES.iter().position(|row| row.kind == kind).map_or(0, |place| place as i64)
}

/// The rows of `pg_am`.
pub(super) fn methods() -> Vec<Vec<Cell>> {
    let methods = [(HEAP, "heap", "t"), (BTREE, "btree", "i"), (HASH, "hash", "i")];
    methods.map(|(oid, name, kind)| vec![oid.into(), name.into(), kind.into()]).to_vec()
}

/// The rows of `pg_opclass`.
pub(super) fn operator_classes() -> Vec<Vec<Cell>> {
    let row = |(method, first): (i64, i64)| {
        TYPES.iter().zip(first..).map(move |(row, oid)| -> Vec<Cell> {
            let name = format!("{}_ops", row.short_name);
            let kind = i64::from(row.oid);
            vec![
                oid.into(),
                method.into(),
                name.as_str().into(),
                PG_CATALOG.into(),
                OWNER.into(),
                0_i64.into(),
                kind.into(),
                true.into(),
                0_i64.into(),
            ]
        })
    };
    [(BTREE, BTREE_OPERATORS), (HASH, HASH_OPERATORS)].into_iter().flat_map(row).collect()
}

pub(super) const PG_INDEX: &[(&str, CellKind)] = &[
    ("indexrelid", Number),
    ("indrelid", Number),
    ("indnatts", Number),
    ("indnkeyatts", Number),
    ("indisunique", Flag),
    ("indnullsnotdistinct", Flag),
    ("indisprimary", Flag),
    ("indisexclusion", Flag),
    ("indimmediate", Flag),
    ("indisclustered", Flag),
    ("indisvalid", Flag),
    ("indcheckxmin", Flag),
    ("indisready", Flag),
    ("indislive", Flag),
    ("indisreplident", Flag),
    ("indkey", Vector),
    ("indcollation", Vector),
    ("indclass", Vector),
    ("indoption", Vector),
    ("indexprs", Text),
    ("indpred", Text),
];

pub(super) const PG_CONSTRAINT: &[(&str, CellKind)] = &[
    ("oid", Number),
    ("conname", Text),
    ("connamespace", Number),
    ("contype", Text),
    ("condeferrable", Flag),
    ("condeferred", Flag),
    ("convalidated", Flag),
    ("conrelid", Number),
    ("contypid", Number),
    ("conindid", Number),
    ("conparentid", Number),
    ("confrelid", Number),
    ("confupdtype", Text),
    ("confdeltype", Text),
    ("confmatchtype", Text),
    ("conislocal", Flag),
    ("coninhcount", Number),
    ("connoinherit", Flag),
    ("conkey", Numbers),
    ("confkey", Numbers),
    ("conbin", Text),
];

pub(super) const PG_OPCLASS: &[(&str, CellKind)] = &[
    ("oid", Number),
    ("opcmethod", Number),
    ("opcname", Text),
    ("opcnamespace", Number),
    ("opcowner", Number),
    ("opcfamily", Number),
    ("opcintype", Number),
    ("opcdefault", Flag),
    ("opckeytype", Number),
];
