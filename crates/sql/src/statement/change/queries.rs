//! The queries of a change: which rows it is about, and what becomes of them.

use datafusion::arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, ObjectName, SelectItem, SetExpr, Statement as Parsed,
    TableWithJoins, UpdateTableFromKind,
};

use super::conflict::conflict_assignments;
use super::made::{Made, is_default, made, named, null, query_of, relation, row_of};
use super::read::{alias, returned};
use super::{AFFECTED, Assigned, TARGET, TableChange, TableShape};
use crate::TextError;
use crate::statement::calls::normal;
use crate::statement::parameters::whole_values::parameter;
use crate::statement::written_numbers::cast_numbers;
use crate::statement::{Statement, StatementKind};
use crate::text::Problem;

impl TableChange {
    /// The rows that an `INSERT` brings, and the columns that they have; `None`: one row of defaults.
    ///
    /// # Errors
    /// If it names a column that the table does not have.
    pub fn inserted(&self, table: &TableShape) -> Result<Option<Assigned>, TextError> {
        let Parsed::Insert(insert) = &*self.change else { return Ok(None) };
        let columns = match insert.columns.as_slice() {
            [] => (0..table.columns.fields().len()).collect(),
            named => named.iter().map(|name| self.column(table, name)).collect::<Result<Vec<_>, _>>()?,
        };
        if let Some(place) = (1..columns.len()).find(|place| columns[..*place].contains(&columns[*place])) {
            let name = table.columns.field(columns[place]).name();
            let error = self.error(format!("column '{name}' is named more than once"));
            return Err(error.of(Problem::ColumnExists));
        }
        let Some(source) = &insert.source else { return Ok(None) };
        let mut source = source.clone();
        let mut count = None;
        if let SetExpr::Values(values) = &mut *source.body {
            count = values.rows.first().map(|row| row.len());
            for row in &mut values.rows {
                for (value, column) in row.iter_mut().zip(&columns) {
                    if is_default(value) {
                        *value = table.defaults[*column].clone().unwrap_or_else(null);
                    }
                }
            }
        }
        let types: Vec<&DataType> =
            columns.iter().map(|column| table.columns.field(*column).data_type()).collect();
        cast_numbers(&mut source.body, &types);
        let query = query_of(self, source)?;
        if let Some(count) = count
            .filter(|count| *count > columns.len() || (!insert.columns.is_empty() && *count < columns.len()))
        {
            let many = if count > columns.len() { "more" } else { "fewer" };
            return Err(self.error(format!("INSERT has {many} values than columns")).of(Problem::Syntax));
        }
        Ok(Some(Assigned { query, columns }))
    }

    /// Whether an `INSERT` names the columns that its values are for.
    pub fn names_columns(&self) -> bool {
        matches!(&*self.change, Parsed::Insert(insert) if !insert.columns.is_empty())
    }

    /// The defaults of a table's columns, as one row.
    ///
    /// # Errors
    /// If they are not expressions.
    pub fn defaults(&self, table: &TableShape) -> Result<Statement, TextError> {
        let default = |(column, default): (usize, &Option<Expr>)| {
            named(default.clone().unwrap_or_else(null), &column.to_string())
        };
        let columns = table.defaults.iter().enumerate().map(default).collect();
        made(self, Made { columns, from: Vec::new(), selection: None })
    }

    /// The rows that an `UPDATE` or `DELETE` is about: the number of each, and the values that it gets.
    ///
    /// # Errors
    /// If it names a column that the table does not have, or has clauses that no change of a table has.
    pub fn changed(&self, table: &TableShape) -> Result<Assigned, TextError> {
        let alias = alias(self);
        let mut from = vec![relation(TARGET, &alias)];
        let mut columns = vec![named(row_of(&alias), super::ROW)];
        let (mut places, mut selection) = (Vec::new(), None);
        match &*self.change {
            Parsed::Update(update) => {
                if update.limit.is_some() || !update.order_by.is_empty() {
                    let hint = "UPDATE ... WHERE key IN (SELECT key FROM ... ORDER BY ... LIMIT ...)";
                    return Err(self.not_supported("UPDATE has no ORDER BY and no LIMIT", hint));
                }
                for (place, value) in self.assignments(table, &update.assignments)? {
                    columns.push(named(value, &format!("$set {place}")));
                    places.push(place);
                }
                if let Some(UpdateTableFromKind::AfterSet(others) | UpdateTableFromKind::BeforeSet(others)) =
                    &update.from
                {
                    from.extend(others.iter().cloned());
                }
                selection = update.selection.clone();
            }
            Parsed::Delete(delete) => {
                if delete.limit.is_some() || !delete.order_by.is_empty() {
                    let hint = "DELETE FROM ... WHERE key IN (SELECT key FROM ... ORDER BY ... LIMIT ...)";
                    return Err(self.not_supported("DELETE has no ORDER BY and no LIMIT", hint));
                }
                from.extend(delete.using.iter().flatten().cloned());
                selection = delete.selection.clone();
            }
            _ => {}
        }
        let query = made(self, Made { columns, from, selection })?;
        Ok(Assigned { query, columns: places })
    }

    /// What it gives back of the rows that it has changed; `None`: nothing.
    ///
    /// # Errors
    /// If it cannot be a query.
    pub fn returning(&self) -> Result<Option<Statement>, TextError> {
        let Some(columns) = returned(&self.change) else { return Ok(None) };
        let has_others = match &*self.change {
            Parsed::Update(update) => update.from.is_some(),
            Parsed::Delete(delete) => delete.using.is_some(),
            _ => false,
        };
        if has_others && columns.iter().any(|column| matches!(column, SelectItem::Wildcard(_))) {
            let message = "RETURNING gives back columns of the table that is changed only";
            return Err(self.not_supported(message, &format!("RETURNING {}.*", self.table)));
        }
        let (columns, from): (Vec<SelectItem>, Vec<TableWithJoins>) =
            (columns.clone(), vec![relation(AFFECTED, &alias(self))]);
        made(self, Made { columns, from, selection: None }).map(Some)
    }

    /// The parameters that are values of columns, each with the number of the column.
    pub fn assigned_parameters(&self, table: &TableShape) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        if let Ok(Some(Assigned { query, columns })) = self.inserted(table) {
            let values = query.whole_values().into_iter();
            found.extend(values.filter_map(|(number, place)| Some((number, *columns.get(place)?))));
            if let StatementKind::Query(query, _) = &query.kind
                && let SetExpr::Select(select) = query.body.as_ref()
            {
                for (item, column) in select.projection.iter().zip(&columns) {
                    if let SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } =
                        item
                    {
                        found.extend(parameter(value).map(|number| (number, *column)));
                    }
                }
            }
        }
        let assignments = match &*self.change {
            Parsed::Update(update) => self.assignments(table, &update.assignments),
            Parsed::Insert(_) => conflict_assignments(self, table),
            _ => Ok(Vec::new()),
        };
        let assigned = assignments.unwrap_or_default().into_iter();
        found.extend(assigned.filter_map(|(column, value)| Some((parameter(&value)?, column))));
        found
    }

    /// The columns that assignments name, each with its value.
    pub(super) fn assignments(
        &self,
        table: &TableShape,
        assignments: &[Assignment],
    ) -> Result<Vec<(usize, Expr)>, TextError> {
        let mut assigned: Vec<(usize, Expr)> = Vec::new();
        for Assignment { target, value } in assignments {
            let pairs: Vec<(&ObjectName, Expr)> = match (target, value) {
                (AssignmentTarget::ColumnName(name), value) => vec![(name, value.clone())],
                (AssignmentTarget::Tuple(names), Expr::Tuple(values)) if names.len() == values.len() => {
                    names.iter().zip(values.iter().cloned()).collect()
                }
                (AssignmentTarget::Tuple(names), value) if names.len() == 1 => {
                    vec![(&names[0], value.clone())]
                }
                (AssignmentTarget::Tuple(_), _) => {
                    let message = "several columns get a list of as many values";
                    let hint =
                        "SET a = (SELECT ...), b = (SELECT ...), or UPDATE ... SET ... FROM (SELECT ...)";
                    return Err(self.not_supported(message, hint));
                }
            };
            for (name, value) in pairs {
                let column = self.column(table, name)?;
                if assigned.iter().any(|(known, _)| *known == column) {
                    let name = table.columns.field(column).name();
                    return Err(self
                        .error(format!("multiple assignments to same column '{name}'"))
                        .of(Problem::Syntax));
                }
                let value = if is_default(&value) {
                    table.defaults[column].clone().unwrap_or_else(null)
                } else {
                    value
                };
                assigned.push((column, value));
            }
        }
        Ok(assigned)
    }

    /// The number of the column that a name means.
    pub(super) fn column(&self, table: &TableShape, name: &ObjectName) -> Result<usize, TextError> {
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
        match parts.as_deref() {
            Some([name]) => {
                let name = normal(name);
                table.columns.index_of(&name).map_err(|_| self.unknown_column(&name))
            }
            _ => Err(self.unknown_column(&name.to_string())),
        }
    }
}
