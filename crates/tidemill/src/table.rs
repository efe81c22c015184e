//! Tables that do not change, in which the rows of a stream are looked up.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use tidemill_engine::MemoryBudget;
use tidemill_operators::lookup::{Dimension, Lookup, LookupColumn, LookupKind, LookupSpec, output_schema};

use crate::build::duplicate;
use crate::names::Names;
use crate::row::Row;
use crate::stream::{Stream, describe};

/// A table that does not change while a query runs: [`Stream::lookup`].
///
/// ```
/// use tidemill::Table;
/// let campaigns = Table::of(["ad", "campaign"], [(1_u32, "spring".to_owned()), (2, "autumn".to_owned())]);
/// assert_eq!(campaigns.rows(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Table(Result<RecordBatch, String>);

impl Table {
    /// A table with these columns and rows. If there are not as many names as columns, the query that uses it is refused.
    pub fn of<R: Row>(columns: impl Names, rows: impl IntoIterator<Item = R>) -> Table {
        let rows: Vec<R> = rows.into_iter().collect();
        let count = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = R::fields(&columns.names()).and_then(|fields| {
            RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), R::arrays(rows), &count)
                .map_err(|error| error.to_string())
        });
        Table(batch)
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.0.as_ref().map_or(0, RecordBatch::num_rows)
    }

    /// The place of a column.
    fn column(&self, rows: &RecordBatch, name: &str) -> Result<usize, String> {
        let columns = describe(rows.schema_ref());
        rows.schema_ref()
            .index_of(name)
            .map_err(|_| format!("the table has no column '{name}'; its columns are {columns}"))
    }
}

impl From<RecordBatch> for Table {
    fn from(rows: RecordBatch) -> Table {
        Table(Ok(rows))
    }
}

impl Stream {
    /// Adds to each row the columns of the table's row with an equal key. A row without one is left out; if several have its
    /// key, it comes once with each. NULL equals nothing. The table's key columns are not repeated.
    ///
    /// ```
    /// use tidemill::{Engine, Query, Table, rows_of};
    /// let mut query = Query::new("named");
    /// let views = query.rows::<(u32,)>("views", "ad");
    /// let campaigns = Table::of(["id", "campaign"], [(1_u32, "spring".to_owned())]);
    /// let named = views.lookup("ad", &campaigns, "id").collect("named", 10);
    /// let run = Engine::new().start(query)?;
    /// run.input(&views)?.push([(1,), (7,)])?;
    /// run.finish()?;
    /// assert_eq!(rows_of::<(u32, String)>(&named.read()?, ["ad", "campaign"])?, [(1, "spring".to_owned())]);
    /// # Ok::<(), tidemill::Error>(())
    /// ```
    #[must_use]
    pub fn lookup(&self, columns: impl Names, table: &Table, key: impl Names) -> Stream {
        self.looked_up(LookupKind::Inner, &columns.names(), table, &key.names())
    }

    /// Like [`lookup`](Stream::lookup), but keeps a row without a partner, with NULLs in the table's columns.
    #[must_use]
    pub fn left_lookup(&self, columns: impl Names, table: &Table, key: impl Names) -> Stream {
        self.looked_up(LookupKind::Left, &columns.names(), table, &key.names())
    }

    fn looked_up(&self, kind: LookupKind, columns: &[String], table: &Table, key: &[String]) -> Stream {
        let place = format!("lookup by {}", columns.join(", "));
        let Some(keys) = self.columns(&place, columns.to_vec()) else { return self.clone() };
        let spec = match self.lookup_spec(kind, keys, table, key) {
            Ok(spec) => spec,
            Err(reason) => {
                self.fail(format!("{place}: {reason}"));
                return self.clone();
            }
        };
        let output = output_schema(&spec);
        let found = self.transformed(&place, &output, move || {
            Box::new(Lookup::new(spec.clone()).expect("checked when it was planned"))
        });
        // A row may come several times, so a row of a table is no longer known by its key alone.
        let table_key = self.table_key.as_ref().map(|_| Vec::new());
        Stream { table_key, ..found }
    }

    fn lookup_spec(
        &self,
        kind: LookupKind,
        keys: Vec<usize>,
        table: &Table,
        key: &[String],
    ) -> Result<LookupSpec, String> {
        let rows = table.0.as_ref().map_err(Clone::clone)?;
        let table_keys = key.iter().map(|name| table.column(rows, name)).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() || keys.len() != table_keys.len() {
            let (stream, table) = (keys.len(), table_keys.len());
            return Err(format!(
                "{stream} columns of the stream and {table} of the table are compared; name as many of \
                                both, and at least one"
            ));
        }
        for (column, table_column) in keys.iter().zip(&table_keys) {
            let (column, table_column) = (self.schema.field(*column), rows.schema_ref().field(*table_column));
            if column.data_type() != table_column.data_type() {
                return Err(format!(
                    "column '{}' is {}, and '{}' of the table is {}; they must have the same type",
                    column.name(),
                    column.data_type(),
                    table_column.name(),
                    table_column.data_type()
                ));
            }
        }
        let others = (0..rows.num_columns()).filter(|column| !table_keys.contains(column));
        let output = (0..self.schema.fields().len())
            .map(LookupColumn::Stream)
            .chain(others.map(LookupColumn::Dimension))
            .collect();
        let dimension =
            Dimension::new(rows.clone(), table_keys.clone()).map_err(|cause| cause.to_string())?;
        let spec = LookupSpec {
            stream: Arc::clone(&self.schema),
            dimension: Arc::new(dimension),
            keys,
            kind,
            residual: None,
            output,
            memory: MemoryBudget::unlimited(),
        };
        match duplicate(&output_schema(&spec)) {
            Some(twice) => Err(format!("the stream and the table both have a column '{twice}'; rename one")),
            None => Lookup::new(spec.clone()).map(|_| spec).map_err(|cause| cause.to_string()),
        }
    }
}
