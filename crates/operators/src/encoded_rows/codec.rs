//! Rows as bytes: equal rows have equal bytes, and the order of the bytes is the order of the rows.

use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_row::{RowConverter, RowParser, Rows, SortField};
use arrow_schema::{DataType, Schema, SortOptions};
use tidemill_core::Cause;

use crate::arrow_bug::arrow_bug;
use crate::keys::value_type;
use crate::normal::{has_floats, normalise};

/// A row as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowBytes<'a> {
    /// The bytes that equal rows share.
    pub identity: &'a [u8],
    /// The bytes that the row is decoded from. They differ from the identity if the row has a -0.0 or an unusual NaN.
    pub spelling: &'a [u8],
}

impl RowBytes<'_> {
    /// The row of no columns.
    pub const EMPTY: RowBytes<'static> = RowBytes { identity: &[], spelling: &[] };

    /// Whether it is spelled otherwise than its identity.
    #[inline]
    pub fn is_respelled(&self) -> bool {
        !std::ptr::eq(self.identity, self.spelling) && self.identity != self.spelling
    }
}

/// Encodes and decodes rows of some columns.
#[derive(Debug)]
pub(crate) struct RowCodec {
    converter: RowConverter,
    parser: RowParser,
    /// The types of the columns, and the same without their dictionaries.
    types: Vec<DataType>,
    plain: Vec<DataType>,
    has_floats: bool,
}

/// The rows of a batch as bytes.
#[derive(Debug)]
pub(crate) struct Encoded {
    identities: Rows,
    spellings: Option<Rows>,
}

impl RowCodec {
    /// Makes the codec of rows with these columns.
    ///
    /// # Errors
    /// If a column's values cannot be compared.
    pub fn new(schema: &Schema) -> Result<RowCodec, Cause> {
        let types = schema.fields().iter().map(|field| (field.data_type().clone(), SortOptions::default()));
        RowCodec::ordered(types.collect())
    }

    /// Makes the codec of columns with these types, each with its own order.
    ///
    /// # Errors
    /// As for [`new`](RowCodec::new).
    pub fn ordered(columns: Vec<(DataType, SortOptions)>) -> Result<RowCodec, Cause> {
        let field = |(data_type, options): &(DataType, SortOptions)| {
            SortField::new_with_options(value_type(data_type), *options)
        };
        let converter = RowConverter::new(columns.iter().map(field).collect()).map_err(|error| {
            Cause::user(format!("rows that change cannot be compared: {error}")).with_source(error)
        })?;
        let types: Vec<DataType> = columns.into_iter().map(|(data_type, _)| data_type).collect();
        let plain: Vec<DataType> = types.iter().map(value_type).collect();
        let has_floats = plain.iter().any(has_floats);
        Ok(RowCodec { parser: converter.parser(), converter, types, plain, has_floats })
    }

    /// The types of the columns.
    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Encodes rows.
    ///
    /// # Errors
    /// If the columns have other types than declared, which is a bug.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Encoded, Cause> {
        if columns.len() != self.plain.len() {
            let (given, wanted) = (columns.len(), self.plain.len());
            return Err(Cause::bug(format!("rows of {wanted} columns came with {given}")));
        }
        let normal = columns.iter().zip(&self.plain).map(|(column, plain)| normalise(column, plain));
        let normal = normal.collect::<Result<Vec<_>, Cause>>()?;
        let identities = self.converter.convert_columns(&normal).map_err(arrow_bug("encoding rows"))?;
        let is_spelled_so = |(column, normal): (&ArrayRef, &ArrayRef)| {
            !has_floats(normal.data_type()) || column.to_data() == normal.to_data()
        };
        let mut spellings = None;
        if self.has_floats && !columns.iter().zip(&normal).all(is_spelled_so) {
            let plain = |(column, plain): (&ArrayRef, &DataType)| {
                arrow_cast::cast(column, plain).map_err(arrow_bug("encoding rows"))
            };
            let columns = columns.iter().zip(&self.plain).map(plain).collect::<Result<Vec<_>, Cause>>()?;
            spellings = Some(self.converter.convert_columns(&columns).map_err(arrow_bug("encoding rows"))?);
        }
        Ok(Encoded { identities, spellings })
    }

    /// Encodes the row of NULLs.
    ///
    /// # Errors
    /// If the type of a column has no NULL.
    pub fn encode_nulls(&self) -> Result<Encoded, Cause> {
        let nulls: Vec<ArrayRef> = self.types.iter().map(|data_type| new_null_array(data_type, 1)).collect();
        self.encode(&nulls)
    }

    /// Decodes rows from their spellings.
    ///
    /// # Errors
    /// If the bytes are not rows of these columns, which is a bug.
    pub fn decode<'a>(&self, rows: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>, Cause> {
        if self.types.is_empty() {
            return Ok(Vec::new());
        }
        // The parser lives as long as `self`, the rows may not.
        let parsed = rows.map(|bytes| self.parser.parse(bytes));
        let columns = self.converter.convert_rows(parsed).map_err(arrow_bug("decoding rows"))?;
        let typed = |(column, data_type): (ArrayRef, &DataType)| {
            if column.data_type() == data_type {
                Ok(column)
            } else {
                arrow_cast::cast(&column, data_type).map_err(arrow_bug("decoding rows"))
            }
        };
        columns.into_iter().zip(&self.types).map(typed).collect()
    }
}

impl Encoded {
    /// Returns a row.
    #[inline]
    pub fn row(&self, index: usize) -> RowBytes<'_> {
        if self.identities.num_rows() == 0 {
            // Rows without columns.
            return RowBytes::EMPTY;
        }
        let identity = self.identities.row(index).data();
        let spelling = self.spellings.as_ref().map_or(identity, |rows| rows.row(index).data());
        RowBytes { identity, spelling }
    }
}
