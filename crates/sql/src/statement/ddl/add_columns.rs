//! `ALTER SOURCE ... ADD COLUMN`.

use std::collections::BTreeMap;

use datafusion::sql::sqlparser::tokenizer::Token;

use super::columns::{self, Column, Columns};
use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::{CreateSource, Name, OptionEntry, Options, Statement, StatementKind};

/// `ALTER SOURCE name ADD [COLUMN] [IF NOT EXISTS] column type [FIRST | AFTER column], ADD ...`
#[derive(Clone, Debug, PartialEq)]
pub struct AddColumns {
    /// The source.
    pub name: Name,
    /// What it gets, in this order.
    pub added: Vec<AddedColumn>,
}

/// A column that a source gets.
#[derive(Clone, Debug, PartialEq)]
pub struct AddedColumn {
    /// The column.
    pub column: Column,
    /// Where it stands.
    pub place: ColumnPlace,
    /// It is not an error if the source has it: then nothing happens.
    pub if_not_exists: bool,
}

/// Where a column stands among those that are there.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnPlace {
    /// Before all others.
    First,
    /// Behind this one.
    After(Name),
    /// Behind all others.
    Last,
}

/// Reads what follows `ALTER SOURCE`.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<StatementKind, TextError> {
    let name = cursor.relation_name("the name of the source")?;
    let mut added = vec![one(cursor)?];
    while cursor.take_symbol(&Token::Comma) {
        added.push(one(cursor)?);
    }
    Ok(StatementKind::AddColumns(AddColumns { name, added }))
}

fn one(cursor: &mut Cursor<'_>) -> Result<AddedColumn, TextError> {
    if !cursor.take(&["ADD"]) {
        let error = cursor.expected_one_of(&["ADD COLUMN"]);
        return Err(
            error.with_hint("a source can get columns; for anything else, use CREATE OR REPLACE SOURCE")
        );
    }
    cursor.take(&["COLUMN"]);
    let if_not_exists = cursor.take(&["IF", "NOT", "EXISTS"]);
    let mut read = Columns::default();
    columns::column(cursor, &mut read)?;
    let (Some(column), true) = (read.columns.pop(), read.key.is_empty()) else {
        return Err(cursor.unexpected("a column without PRIMARY KEY"));
    };
    let place = if cursor.take(&["FIRST"]) {
        ColumnPlace::First
    } else if cursor.take(&["AFTER"]) {
        ColumnPlace::After(cursor.name("the name of a column")?)
    } else {
        ColumnPlace::Last
    };
    Ok(AddedColumn { column, place, if_not_exists })
}

impl AddColumns {
    /// The text of a definition of the source with these columns; `None`: the definition names no columns, or not those after
    /// which they are to stand.
    fn to_definition(&self, definition: &Statement, statement: &Statement) -> Option<String> {
        let StatementKind::CreateSource(create) = &definition.kind else { return None };
        let start = definition.span.start.byte as usize;
        let (first, last) = (create.columns.first()?, create.columns.last()?);
        let end_of = |column: &Column| column.span.bytes().end;
        // By the place in the text: what is added before it, or else behind it.
        let mut groups: BTreeMap<usize, Vec<(&Name, &str)>> = BTreeMap::new();
        for AddedColumn { column, place, if_not_exists } in &self.added {
            if *if_not_exists && create.columns.iter().any(|known| known.name == column.name) {
                continue;
            }
            let added = (&column.name, statement.script().slice(column.span));
            let known = |name: &Name| create.columns.iter().find(|column| column.name == *name);
            let (at, index) = match place {
                ColumnPlace::First => (first.span.bytes().start, 0),
                ColumnPlace::Last => (end_of(last), usize::MAX),
                ColumnPlace::After(name) => match known(name) {
                    Some(column) => (end_of(column), 0),
                    // It is one of these.
                    None => groups.iter().find_map(|(at, group)| {
                        Some((*at, 1 + group.iter().position(|(added, _)| *added == name)?))
                    })?,
                },
            };
            let group = groups.entry(at).or_default();
            group.insert(index.min(group.len()), added);
        }
        let mut text = definition.text.clone();
        // From the end on: places before stay where they are.
        for (at, group) in groups.iter().rev() {
            let is_before = *at == first.span.bytes().start;
            let new = group
                .iter()
                .map(|(_, added)| if is_before { format!("{added}, ") } else { format!(", {added}") });
            text.insert_str(at - start, &new.collect::<String>());
        }
        Some(text)
    }
}

/// The text of the definition of a source with the columns that another statement adds; `None`: it cannot have them.
pub(crate) fn text_with_columns(definition: &Statement, added: &Statement) -> Option<String> {
    match &added.kind {
        StatementKind::AddColumns(add) => add.to_definition(definition, added),
        _ => None,
    }
}

/// What is to be added to the source of a definition so that it becomes what another one says; `None`: they differ in
/// more than columns. Nothing: they say the same.
pub(crate) fn additions(
    (old, old_create): (&Statement, &CreateSource),
    (new, new_create): (&Statement, &CreateSource),
) -> Option<Vec<String>> {
    let text = |of: &Statement, column: &Column| of.script().slice(column.span).to_owned();
    let mut before = old_create.columns.iter();
    let (mut added, mut place) = (Vec::new(), "FIRST".to_owned());
    let mut next = before.next();
    for column in &new_create.columns {
        if next.is_some_and(|known| known.name == column.name) {
            if !next.is_some_and(|known| is_same_column(known, column)) {
                return None;
            }
            next = before.next();
        } else {
            added.push(format!("ADD COLUMN {} {place}", text(new, column)));
        }
        place = format!("AFTER \"{}\"", column.name.as_str().replace('"', "\"\""));
    }
    let watermark = |of: &Statement, create: &CreateSource| {
        create.watermark.as_ref().map(|watermark| words(of.script().slice(watermark.span)))
    };
    let is_same = next.is_none()
        && !old_create.columns.is_empty()
        && watermark(old, old_create) == watermark(new, new_create)
        && old_create.key == new_create.key
        && entries(old, &old_create.options) == entries(new, &new_create.options);
    is_same.then_some(added)
}

fn is_same_column(one: &Column, other: &Column) -> bool {
    let computed = |column: &Column| column.computed.as_ref().map(ToString::to_string);
    one.data_type == other.data_type && one.not_null == other.not_null && computed(one) == computed(other)
}

/// Options with their values as they were written, in any order.
fn entries(of: &Statement, options: &Options) -> Vec<(String, String)> {
    let entry = |entry: &OptionEntry| {
        (entry.name.value.clone(), of.script().slice(entry.value_span).trim().to_owned())
    };
    let mut entries: Vec<_> = options.iter().map(entry).collect();
    entries.sort();
    entries
}

/// A text without the differences of spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
