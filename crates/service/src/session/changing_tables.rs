//! Executes statements that change tables.

use std::sync::Arc;

use arrow_select::concat::concat_batches;
use tidemill_engine::Cause;
use tidemill_engine::arrow::array::{
    Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt32Array, new_null_array,
};
use tidemill_engine::arrow::schema::{Field, Schema, SchemaRef};
use tidemill_sql::{
    AFFECTED, Assigned, ChangeKind, ClientTable, Conflict, Merged, MergedAction, ParameterType,
    Reply as Planned, Statement, TARGET, TableChange,
};

use super::Session;
use crate::error::{Error, Refused};
use crate::lifecycle::table_contents::wait_for_view;
use crate::runtime::readers::planning;
use crate::tables::{checked, first_of_each, fitted, numbered_schema, of_arrow, those};

/// What a statement has changed.
pub struct Changed {
    /// How many rows it was about.
    pub rows: usize,
    /// What it gives back of them (`RETURNING`).
    pub returned: Option<RecordBatch>,
}

/// Changes tables for a session.
pub(super) struct TableChanger<'a>(pub &'a mut Session);

/// The rows that a statement was about, as it gives them back.
type Affected = Vec<RecordBatch>;

impl TableChanger<'_> {
    /// Executes a statement that changes a table: at once, or as part of the session's transaction. A statement that fails changes nothing.
    ///
    /// # Errors
    /// Why it cannot be executed.
    pub fn change(mut self, change: &TableChange) -> Result<Changed, Error> {
        let table = self.changed_table(change)?;
        self.changing(&table, |own, place| own.changed(change, &table, place))
    }

    /// Adds rows to a table: those of a `COPY`, which have these columns of the table.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn add(
        mut self,
        table: &ClientTable,
        batches: &[RecordBatch],
        places: &[usize],
    ) -> Result<usize, Error> {
        self.changing(table, |own, place| {
            let defaults = match own.defaults_of(table)? {
                Some(defaults) => defaults,
                None => return Err(Cause::bug("a table has no columns").into()),
            };
            let mut count = 0;
            for batch in batches {
                let rows = own.whole_rows(batch, places, table, &defaults)?;
                count += rows.num_rows();
                own.0.tables.rows(place)?.add(rows)?;
            }
            Ok(count)
        })
    }

    /// The columns of what a change gives back; `None` if it gives nothing back.
    ///
    /// # Errors
    /// If it cannot be executed.
    pub fn columns(mut self, change: &TableChange) -> Result<Option<SchemaRef>, Error> {
        let table = self.changed_table(change)?;
        let Some(returning) = change.returning()? else { return Ok(None) };
        let columns = Arc::clone(&table.shape.columns);
        self.planner_with(&[(AFFECTED, columns, Vec::new())])?;
        Ok(self.0.planner.columns(&returning)?)
    }

    /// The types of a change's parameters: those that are given, otherwise those of the columns whose values they are, otherwise those that
    /// its queries imply, otherwise texts.
    pub fn parameters(mut self, change: &TableChange, given: &[Option<ParameterType>]) -> Vec<ParameterType> {
        let mut types: Vec<Option<ParameterType>> =
            (0..change.parameters()).map(|index| given.get(index).copied().flatten()).collect();
        if let Ok(table) = self.changed_table(change) {
            for (number, column) in change.assigned_parameters(&table.shape) {
                let kind = ParameterType::of_column(table.shape.columns.field(column).data_type());
                if let Some(known) = types.get_mut(number - 1) {
                    *known = known.or(kind);
                }
            }
            for query in queries_of(change, &table) {
                let columns = numbered_schema(&with_excluded(&table.shape.columns));
                let affected = (AFFECTED, Arc::clone(&table.shape.columns), Vec::new());
                if self.planner_with(&[(TARGET, columns, Vec::new()), affected]).is_err() {
                    continue;
                }
                let implied = self.0.planner.parameter_types(&query, &types);
                for number in query.parameter_numbers() {
                    if let (Some(known), Some(kind)) = (types.get_mut(number - 1), implied.get(number - 1)) {
                        known.get_or_insert(*kind);
                    }
                }
            }
        }
        types.into_iter().map(|kind| kind.unwrap_or(ParameterType::Text)).collect()
    }

    /// Waits until the views that a query reads have what this session has changed.
    pub fn wait(&mut self, statement: &Statement) -> Result<(), Error> {
        let Some(cycle) = self.0.tables.own_cycle else { return Ok(()) };
        let names = self.0.runtime().defined_catalog().read_by(statement);
        let (cancellation, cancelled) = (self.0.cancellation(), self.0.turns.cancelled_before());
        for name in names {
            wait_for_view(self.0.runtime(), &name, Some(cycle), &|| cancellation.requests() <= cancelled)?;
        }
        Ok(())
    }

    fn changed_table(&self, change: &TableChange) -> Result<ClientTable, Error> {
        self.0.client_table(&change.table).ok_or_else(|| {
            let is_there = self.0.names().contains(&change.table);
            let (code, message) = if is_there {
                (
                    "42809",
                    format!("'{}' is not a table that was created by CREATE TABLE name (...)", change.table),
                )
            } else {
                ("42P01", format!("there is no table '{}'", change.table))
            };
            let refused = Refused::new(code, message);
            let hint = if is_there {
                "the rows of sources come as they come; a view follows what it reads".to_owned()
            } else {
                format!("CREATE TABLE {} (...)", change.table)
            };
            refused.with_hint(hint).into()
        })
    }

    /// Changes a table, in a transaction of the statement's own if the session has none.
    fn changing<T>(
        &mut self,
        table: &ClientTable,
        change: impl FnOnce(&mut Self, usize) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let before = self.0.tables.savepoint();
        let changed = self.take_table(table).and_then(|place| change(self, place));
        let changed = match changed {
            Ok(changed) => changed,
            Err(error) => {
                if self.0.is_in_transaction() {
                    self.0.tables.return_to(&before)?;
                } else {
                    self.0.tables.roll_back();
                }
                return Err(error);
            }
        };
        if !self.0.is_in_transaction() {
            self.0.commit_changes()?;
        }
        Ok(changed)
    }

    /// Takes a table for the transaction.
    fn take_table(&mut self, table: &ClientTable) -> Result<usize, Error> {
        let (runtime, cancellation) = (self.0.runtime().clone(), self.0.cancellation());
        let cancelled = self.0.turns.cancelled_before();
        let is_first = !self.0.tables.has(table);
        let goes_on = || cancellation.requests() <= cancelled && !runtime.is_closing();
        let place = self.0.tables.take(&runtime, table, &goes_on)?;
        if is_first {
            // As READ COMMITTED has it: from here on, its queries read what others have committed by now.
            self.0.read_newest();
        }
        Ok(place)
    }

    fn changed(&mut self, change: &TableChange, table: &ClientTable, place: usize) -> Result<Changed, Error> {
        let affected = match change.kind {
            ChangeKind::Insert => self.inserted(change, table, place)?,
            ChangeKind::Update | ChangeKind::Delete => self.updated(change, table, place)?,
            ChangeKind::Merge => self.merged(change, table, place)?,
            ChangeKind::Truncate => {
                let rows = self.0.tables.rows(place)?;
                let numbers = rows.numbers();
                rows.remove(numbers)?;
                Vec::new()
            }
        };
        let rows = affected.iter().map(RecordBatch::num_rows).sum();
        let returned = match change.returning()? {
            None => None,
            Some(returning) => {
                let affected = (AFFECTED, Arc::clone(&table.shape.columns), affected);
                let (schema, batches) = self.queried(&returning, &[affected])?;
                Some(concat_batches(&schema, &batches).map_err(of_arrow)?)
            }
        };
        Ok(Changed { rows, returned })
    }

    fn updated(
        &mut self,
        change: &TableChange,
        table: &ClientTable,
        place: usize,
    ) -> Result<Affected, Error> {
        let Assigned { query, columns } = change.changed(&table.shape)?;
        let target = self.target(table, place)?;
        let (_, batches) = self.queried(&query, &[target])?;
        let mut numbers = Vec::new();
        let mut values = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for batch in &batches {
            let (of_batch, rows) = first_of_each(batch)?;
            let is_new: Vec<bool> = of_batch.iter().map(|number| seen.insert(*number)).collect();
            values.push(those(&rows, &is_new)?);
            numbers.extend(
                of_batch.into_iter().zip(&is_new).filter(|(_, is_new)| **is_new).map(|(number, _)| number),
            );
        }
        let rows = self.0.tables.rows(place)?;
        let old = rows.gather(&numbers)?;
        if change.kind == ChangeKind::Delete {
            rows.remove(numbers)?;
            return Ok(vec![old]);
        }
        let new = assigned(&old, &values, &columns, table)?;
        rows.remove(numbers)?;
        rows.add(new.clone())?;
        Ok(vec![new])
    }

    fn inserted(
        &mut self,
        change: &TableChange,
        table: &ClientTable,
        place: usize,
    ) -> Result<Affected, Error> {
        let conflict = Conflict::of(change, &table.shape)?;
        let defaults = self.defaults_by(&change.defaults(&table.shape)?, table)?;
        let mut given = Vec::new();
        match change.inserted(&table.shape)? {
            None => given.push(defaults.clone()),
            Some(Assigned { query, columns }) => {
                for batch in self.source_rows(&query)? {
                    let columns = self.given_columns(change, &batch, &columns)?;
                    given.push(self.whole_rows(&batch, &columns, table, &defaults)?);
                }
            }
        }
        match conflict {
            Conflict::Refused => {
                for rows in &given {
                    self.0.tables.rows(place)?.add(rows.clone())?;
                }
                Ok(given)
            }
            Conflict::Nothing => {
                let mut affected = Vec::new();
                for rows in given {
                    let own = self.0.tables.rows(place)?;
                    let repeats = own.repeats_key(&rows)?;
                    let is_new: Vec<bool> = own
                        .with_keys_of(&rows)?
                        .iter()
                        .zip(repeats)
                        .map(|(known, again)| known.is_none() && !again)
                        .collect();
                    let rows = those(&rows, &is_new)?;
                    own.add(rows.clone())?;
                    affected.push(rows);
                }
                Ok(affected)
            }
            Conflict::Update(update) => {
                let rows = concat_batches(&table.shape.columns, &given).map_err(of_arrow)?;
                self.upserted(rows, &update, table, place)
            }
        }
    }

    /// Inserts rows, and updates those whose keys are there already. Rows of one key come one after the other, and only one of them may
    /// change anything.
    fn upserted(
        &mut self,
        mut rows: RecordBatch,
        update: &Assigned,
        table: &ClientTable,
        place: usize,
    ) -> Result<Affected, Error> {
        let mut affected: Affected = Vec::new();
        while rows.num_rows() > 0 {
            let own = self.0.tables.rows(place)?;
            let before = concat_batches(&table.shape.columns, &affected).map_err(of_arrow)?;
            if own.shares_key(&before, &rows)? {
                let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
                let hint = "two of the rows to be inserted have the same key; leave one of them out";
                return Err(Refused::new("21000", message).with_hint(hint).into());
            }
            let repeats = own.repeats_key(&rows)?;
            let is_first: Vec<bool> = repeats.iter().map(|repeats| !repeats).collect();
            let first = those(&rows, &is_first)?;
            rows = those(&rows, &repeats)?;
            affected.extend(self.upserted_once(&first, update, table, place)?);
        }
        Ok(affected)
    }

    /// The same for rows of different keys.
    fn upserted_once(
        &mut self,
        rows: &RecordBatch,
        update: &Assigned,
        table: &ClientTable,
        place: usize,
    ) -> Result<Affected, Error> {
        let own = self.0.tables.rows(place)?;
        let known = own.with_keys_of(rows)?;
        let is_new: Vec<bool> = known.iter().map(Option::is_none).collect();
        let is_known: Vec<bool> = known.iter().map(Option::is_some).collect();
        let (new, excluded) = (those(rows, &is_new)?, those(rows, &is_known)?);
        let numbers: Vec<i64> = known.into_iter().flatten().collect();
        let old = own.gather(&numbers)?;
        own.add(new.clone())?;
        if numbers.is_empty() {
            return Ok(vec![new]);
        }
        let schema = numbered_schema(&with_excluded(&table.shape.columns));
        let of_rows = Arc::new(Int64Array::from(numbers)) as ArrayRef;
        let columns = old.columns().iter().chain(excluded.columns()).cloned().chain([of_rows]).collect();
        let target = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(of_arrow)?;
        let (_, batches) = self.queried(&update.query, &[(TARGET, schema, vec![target])])?;
        let mut affected = vec![new];
        for batch in &batches {
            let (numbers, values) = first_of_each(batch)?;
            let own = self.0.tables.rows(place)?;
            let old = own.gather(&numbers)?;
            let new = assigned(&old, &[values], &update.columns, table)?;
            own.remove(numbers)?;
            own.add(new.clone())?;
            affected.push(new);
        }
        Ok(affected)
    }

    fn merged(&mut self, change: &TableChange, table: &ClientTable, place: usize) -> Result<Affected, Error> {
        let merged = Merged::of(change, &table.shape)?;
        let target = self.target(table, place)?;
        let (schema, batches) = self.queried(&merged.query, &[target])?;
        let rows = concat_batches(&schema, &batches).map_err(of_arrow)?;
        let flag = |action: usize, row: usize| {
            let flags = rows.column(1 + action).as_any().downcast_ref::<BooleanArray>();
            flags.is_some_and(|flags| flags.is_valid(row) && flags.value(row))
        };
        let chosen: Vec<Option<usize>> = (0..rows.num_rows())
            .map(|row| (0..merged.actions.len()).find(|action| flag(*action, row)))
            .collect();
        let mut from = 1 + merged.actions.len();
        let mut affected = Vec::new();
        let mut seen = std::collections::HashSet::new();
        let defaults = self.defaults_by(&change.defaults(&table.shape)?, table)?;
        let mut inserted = Vec::new();
        for (number, action) in merged.actions.iter().enumerate() {
            let is_so: Vec<bool> = chosen.iter().map(|chosen| *chosen == Some(number)).collect();
            let count = match action {
                MergedAction::Delete => 0,
                MergedAction::Update(columns) | MergedAction::Insert(columns) => columns.len(),
            };
            let places: Vec<usize> = [0].into_iter().chain(from..from + count).collect();
            let of_action = those(&rows, &is_so)?.project(&places).map_err(of_arrow)?;
            from += count;
            if let MergedAction::Insert(columns) = action {
                let values: Vec<usize> = (1..=count).collect();
                let values = of_action.project(&values).map_err(of_arrow)?;
                inserted.push(self.whole_rows(&values, columns, table, &defaults)?);
                continue;
            }
            let (numbers, values) = first_of_each(&of_action)?;
            if numbers.len() < of_action.num_rows() || !numbers.iter().all(|number| seen.insert(*number)) {
                let refused = Refused::new("21000", "MERGE command cannot affect row a second time");
                return Err(refused
                    .with_hint("let each row of the table match one row of the source at most")
                    .into());
            }
            let own = self.0.tables.rows(place)?;
            let old = own.gather(&numbers)?;
            match action {
                MergedAction::Update(columns) => {
                    let new = assigned(&old, &[values], columns, table)?;
                    own.remove(numbers)?;
                    own.add(new.clone())?;
                    affected.push(new);
                }
                _ => {
                    own.remove(numbers)?;
                    affected.push(old);
                }
            }
        }
        for rows in inserted {
            self.0.tables.rows(place)?.add(rows.clone())?;
            affected.push(rows);
        }
        Ok(affected)
    }

    /// The rows of a table with their numbers, as the queries of a change read them.
    fn target(
        &mut self,
        table: &ClientTable,
        place: usize,
    ) -> Result<(&'static str, SchemaRef, Vec<RecordBatch>), Error> {
        let batches = self.0.tables.rows(place)?.numbered()?;
        Ok((TARGET, numbered_schema(&table.shape.columns), batches))
    }

    /// Plans with rows under names of their own, against what the session's next query would read.
    fn planner_with(&mut self, rows: &[(&str, SchemaRef, Vec<RecordBatch>)]) -> Result<(), Error> {
        let mut catalog = self.0.catalog();
        for (name, schema, batches) in rows {
            catalog.attach_batches(name, Arc::clone(schema), batches.clone());
        }
        self.0.planner.set_catalog(catalog);
        Ok(())
    }

    /// The rows of a query over these.
    fn queried(
        &mut self,
        query: &Statement,
        rows: &[(&str, SchemaRef, Vec<RecordBatch>)],
    ) -> Result<(SchemaRef, Vec<RecordBatch>), Error> {
        self.wait(query)?;
        let turns = Arc::clone(&self.0.turns);
        let _planning = planning(&turns, query)?;
        self.planner_with(rows)?;
        match self.0.planner.execute(query)? {
            Planned::Rows(rows) => Ok((rows.schema(), vec![rows])),
            Planned::Batches(batches) => {
                let schema = Arc::clone(batches.schema());
                Ok((schema, batches.collect::<Result<Vec<_>, _>>()?))
            }
            _ => {
                let message = "only values, and queries over views and tables, can change a table";
                let refused = Refused::new("42809", message);
                let hint =
                    "to keep what a query over streams gives, CREATE MATERIALIZED VIEW, or CREATE SINK";
                Err(refused.with_hint(hint).into())
            }
        }
    }

    /// The rows that are to be inserted.
    fn source_rows(&mut self, query: &Statement) -> Result<Vec<RecordBatch>, Error> {
        match self.queried(query, &[]) {
            Ok((_, batches)) => Ok(batches),
            Err(error) => {
                let rows = query.rows_of_values();
                if rows.len() < 2 {
                    return Err(error);
                }
                // The values of a column have types that do not go together, but each of them may become that of the column.
                let mut batches = Vec::new();
                for row in rows {
                    match self.queried(&row, &[]) {
                        Ok((_, row)) => batches.extend(row),
                        Err(_) => return Err(error),
                    }
                }
                Ok(batches)
            }
        }
    }

    fn given_columns(
        &self,
        change: &TableChange,
        rows: &RecordBatch,
        columns: &[usize],
    ) -> Result<Vec<usize>, Error> {
        let given = rows.num_columns();
        if given > columns.len() {
            let refused = Refused::new("42601", "INSERT has more expressions than target columns");
            return Err(refused.into());
        }
        if change.names_columns() && given < columns.len() {
            return Err(Refused::new("42601", "INSERT has more target columns than expressions").into());
        }
        Ok(columns[..given].to_vec())
    }

    /// Rows with all columns of a table: those that are given, and the defaults of the others.
    fn whole_rows(
        &self,
        given: &RecordBatch,
        places: &[usize],
        table: &ClientTable,
        defaults: &RecordBatch,
    ) -> Result<RecordBatch, Error> {
        let fitted = fitted(given, places, &table.shape)?;
        let mut columns = Vec::with_capacity(table.shape.columns.fields().len());
        for place in 0..table.shape.columns.fields().len() {
            columns.push(match places.iter().position(|given| *given == place) {
                Some(given) => Arc::clone(&fitted[given]),
                None if defaults.column(place).is_null(0) => {
                    new_null_array(table.shape.columns.field(place).data_type(), given.num_rows())
                }
                None => {
                    let first = UInt32Array::from_value(0, given.num_rows());
                    arrow_select::take::take(defaults.column(place), &first, None).map_err(of_arrow)?
                }
            });
        }
        checked(columns, &table.shape)
    }

    /// The defaults of a table's columns, as one row.
    fn defaults_of(&mut self, table: &ClientTable) -> Result<Option<RecordBatch>, Error> {
        let piece =
            tidemill_sql::divide(&format!("DELETE FROM \"{}\"", table.name.replace('"', "\"\"")), "table")?;
        let Some(Ok(change)) = piece.first().and_then(TableChange::read) else { return Ok(None) };
        self.defaults_by(&change.defaults(&table.shape)?, table).map(Some)
    }

    fn defaults_by(&mut self, defaults: &Statement, table: &ClientTable) -> Result<RecordBatch, Error> {
        let fields =
            table.shape.columns.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        if !table.shape.has_defaults() {
            let nulls = schema.fields().iter().map(|field| new_null_array(field.data_type(), 1)).collect();
            return Ok(RecordBatch::try_new(schema, nulls).map_err(of_arrow)?);
        }
        let (_, batches) = self.queried(defaults, &[])?;
        let row = batches.into_iter().find(|batch| batch.num_rows() > 0);
        let row = row.ok_or_else(|| Cause::bug("the defaults of a table have no row"))?;
        let all: Vec<usize> = (0..table.shape.columns.fields().len()).collect();
        let columns = fitted(&row, &all, &table.shape)?;
        Ok(RecordBatch::try_new(schema, columns).map_err(of_arrow)?)
    }
}

/// Rows with other values in some columns: those behind the first column of `values`.
fn assigned(
    old: &RecordBatch,
    values: &[RecordBatch],
    places: &[usize],
    table: &ClientTable,
) -> Result<RecordBatch, Error> {
    let mut columns = old.columns().to_vec();
    if let Some(first) = values.first() {
        let values = concat_batches(&first.schema(), values).map_err(of_arrow)?;
        let own: Vec<usize> = (1..values.num_columns()).collect();
        let values = values.project(&own).map_err(of_arrow)?;
        for (place, column) in places.iter().zip(fitted(&values, places, &table.shape)?) {
            columns[*place] = column;
        }
    }
    checked(columns, &table.shape)
}

/// The columns of rows that are there, and behind them those of the rows that were to be inserted.
fn with_excluded(columns: &SchemaRef) -> SchemaRef {
    let excluded = columns.fields().iter().map(|field| {
        Arc::new(field.as_ref().clone().with_name(Conflict::excluded(field.name())).with_nullable(true))
    });
    Arc::new(Schema::new(columns.fields().iter().cloned().chain(excluded).collect::<Vec<_>>()))
}

/// The queries of a change, for the types of its parameters.
fn queries_of(change: &TableChange, table: &ClientTable) -> Vec<Statement> {
    let mut queries = Vec::new();
    match change.kind {
        ChangeKind::Insert => {
            queries.extend(change.inserted(&table.shape).ok().flatten().map(|inserted| inserted.query));
            if let Ok(Conflict::Update(update)) = Conflict::of(change, &table.shape) {
                queries.push(update.query);
            }
        }
        ChangeKind::Update | ChangeKind::Delete => {
            queries.extend(change.changed(&table.shape).ok().map(|changed| changed.query));
        }
        ChangeKind::Merge => queries.extend(Merged::of(change, &table.shape).ok().map(|merged| merged.query)),
        ChangeKind::Truncate => {}
    }
    queries.extend(change.returning().ok().flatten());
    queries
}
