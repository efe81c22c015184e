//! What a store holds, and how much of it.

use std::sync::Arc;

use arrow_schema::{DataType, Fields, Schema, SchemaRef};
use tidemill_core::Cause;
use tidemill_core::changes::weight_field;

use crate::changes::RowEquality;
use crate::columns;
use crate::fragmentation::{FRAGMENTS_MAX, FragmentBy, Fragmentation};

/// Which rows a store shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// All rows of a stream, in the order in which they came.
    AllRows,
    /// The last row of each key, in the order in which the keys first came. Without key columns there is one row.
    LastOfKey,
    /// A relation whose rows come and go, as a changelog says: a multiset of rows, in the order in which they came. What is stored
    /// has one more column than what is shown, [`WEIGHT`](tidemill_core::changes::WEIGHT). A key need not be unique.
    Changes,
}

/// How much a store holds.
///
/// There is always a limit on the rows and on the bytes. What happens there is [`is_strict`](Retention::is_strict).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Rows whose time is more than this before the latest time of any row may be dropped, in units of the time column.
    pub time: Option<i64>,
    /// The most bytes: columns, indexes and what earlier versions hold. An eighth is for earlier versions.
    pub bytes_max: usize,
    /// The most rows of one version.
    pub rows_max: usize,
    /// How many earlier versions can be read. Fewer can be if they would need too much memory.
    pub versions_max: usize,
    /// Whether it is an error if there are too many rows or bytes. Otherwise the oldest rows are dropped.
    pub is_strict: bool,
}

impl Default for Retention {
    /// The last gibibyte, and a thousand versions.
    fn default() -> Self {
        Retention {
            time: None,
            bytes_max: 1 << 30,
            rows_max: usize::MAX,
            versions_max: 1000,
            is_strict: false,
        }
    }
}

/// What a store holds: the columns of its rows, what they mean, and how much.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_store::StoreConfig;
///
/// let field = |name: &str, data_type| Field::new(name, data_type, false);
/// let columns = [("vid", DataType::Int64), ("at", DataType::Int64), ("x", DataType::Float64), ("y", DataType::Float64)];
/// let schema = Arc::new(Schema::new(columns.map(|(name, data_type)| field(name, data_type)).to_vec()));
/// let config = StoreConfig { key: Some(vec![0]), time: Some(1), point: Some([2, 3]), ..StoreConfig::new(&schema) };
/// assert!(config.check().is_ok());
/// assert!(StoreConfig { time: Some(2), ..config }.check().is_err(), "a float is not a time");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The columns.
    pub schema: SchemaRef,
    /// Which rows it shows.
    pub contents: Contents,
    /// The columns that form the key, by which rows are found. `Some` without columns is the key of a table of one row.
    pub key: Option<Vec<usize>>,
    /// The column with the time of a row: an integer, a date or a timestamp.
    pub time: Option<usize>,
    /// The columns with the coordinates of a row: numbers.
    pub point: Option<[usize; 2]>,
    /// How much it holds.
    pub retention: Retention,
    /// How its rows are divided among fragments, each with a thread of its own that stores them; `None`: they are not. The
    /// fragments share the bytes that may be held equally.
    pub fragments: Option<Fragmentation>,
    /// Only of a fragment: the column with the number that a row has among the rows of all fragments. It orders the rows, and
    /// is not shown.
    pub numbers: Option<usize>,
}

impl StoreConfig {
    /// All rows of these columns, found by nothing.
    pub fn new(schema: &SchemaRef) -> StoreConfig {
        StoreConfig {
            schema: schema.clone(),
            contents: Contents::AllRows,
            key: None,
            time: None,
            point: None,
            retention: Retention::default(),
            fragments: None,
            numbers: None,
        }
    }

    /// Checks that the columns exist and have types that can be used.
    ///
    /// # Errors
    /// [`Cause::user`] if a column has a type that cannot be used; [`Cause::bug`] if it does not exist.
    pub fn check(&self) -> Result<(), Cause> {
        let key = self.key.iter().flatten().copied();
        for column in key.chain(self.time).chain(self.point.iter().flatten().copied()) {
            if column >= self.schema.fields().len() {
                return Err(Cause::bug(format!(
                    "a store has no column {column}: {:?}",
                    self.schema.fields()
                )));
            }
        }
        if self.contents == Contents::LastOfKey && self.key.is_none() {
            return Err(Cause::bug("a store of the last row of each key needs a key"));
        }
        if self.retention.time.is_some() && self.time.is_none() {
            return Err(Cause::user("rows can only be kept for a time if one of their columns is a time"));
        }
        if self.retention.time.is_some() {
            match self.contents {
                Contents::AllRows => {}
                Contents::LastOfKey => {
                    return Err(Cause::user(
                        "a table keeps the last row of each key, so it cannot drop rows by time",
                    ));
                }
                Contents::Changes => {
                    return Err(Cause::user(
                        "rows that are taken back later cannot be dropped by time before; filter them by their time \
                         instead: WHERE at > now() - INTERVAL '1 hour'",
                    ));
                }
            }
        }
        if self.contents == Contents::Changes {
            RowEquality::new(&self.shown())?;
        }
        self.check_fragments()?;
        let wrong = |column: usize, what: &str| {
            let field = self.schema.field(column);
            let (name, found) = (field.name(), field.data_type());
            Cause::user(format!("column '{name}' has the type {found}, so it cannot be {what}; cast it"))
        };
        let data_type = |column: usize| -> &DataType { self.schema.field(column).data_type() };
        if let Some(column) = self.time.filter(|column| !columns::is_time(data_type(*column))) {
            return Err(wrong(column, "a time"));
        }
        let coordinate =
            self.point.iter().flatten().find(|column| !columns::is_coordinate(data_type(**column)));
        match coordinate {
            Some(column) => Err(wrong(*column, "a coordinate")),
            None => Ok(()),
        }
    }

    /// Returns the columns of what is stored: those that are shown, and of [`Contents::Changes`] also the weights.
    ///
    /// ```
    /// use tidemill_core::arrow::schema::{DataType, Field, Schema};
    /// use tidemill_core::changes::weight_field;
    /// use tidemill_store::{Contents, StoreConfig};
    ///
    /// let name = Field::new("name", DataType::Utf8, false);
    /// let config = StoreConfig::new(&Schema::new(vec![name.clone()]).into());
    /// assert_eq!(config.input(), config.schema);
    /// let config = StoreConfig { contents: Contents::Changes, ..config };
    /// assert_eq!(config.input(), Schema::new(vec![name, weight_field()]).into());
    /// ```
    pub fn input(&self) -> SchemaRef {
        if self.contents != Contents::Changes {
            return self.schema.clone();
        }
        let fields = self.schema.fields().iter().cloned().chain([Arc::new(weight_field())]);
        Arc::new(Schema::new_with_metadata(fields.collect::<Fields>(), self.schema.metadata().clone()))
    }

    /// The columns that readers see: of a fragment, all but the numbers of its rows.
    pub(crate) fn shown(&self) -> Fields {
        let fields = self.schema.fields();
        fields.iter().take(self.numbers.unwrap_or(fields.len())).cloned().collect()
    }

    fn check_fragments(&self) -> Result<(), Cause> {
        let is_number = |column: usize| {
            self.schema.fields().get(column).is_some_and(|field| *field.data_type() == DataType::UInt64)
        };
        if self.numbers.is_some_and(|column| !is_number(column)) {
            return Err(Cause::bug("a fragment has no column with the numbers of its rows"));
        }
        let Some(Fragmentation { count, by }) = &self.fragments else { return Ok(()) };
        if !(1..=FRAGMENTS_MAX).contains(count) {
            return Err(Cause::user(format!("{count} fragments; choose 1 to {FRAGMENTS_MAX}")));
        }
        match (by, self.key.as_deref()) {
            (FragmentBy::Key, None | Some([])) => {
                Err(Cause::user("rows without a key cannot be divided among fragments by their key"))
            }
            _ => Ok(()),
        }
    }
}
