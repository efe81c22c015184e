//! `min` and `max` of strings and byte strings, in the order of their bytes.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, GenericByteBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;
use tidemill_core::Cause;

use super::selection::{for_each_row, selected};
use super::{Accumulator, wrong_type};

/// The extremes of groups. A group keeps its memory when its extreme is replaced.
pub(super) struct ExtremeBytes {
    name: &'static str,
    data_type: DataType,
    is_maximum: bool,
    extremes: Vec<Option<Vec<u8>>>,
    bytes: usize,
}

impl ExtremeBytes {
    /// An accumulator for values of this type; `None` if they are not strings.
    pub fn new(name: &'static str, data_type: &DataType, is_maximum: bool) -> Option<ExtremeBytes> {
        let is_bytes = data_type.is_string() || data_type.is_binary();
        let is_bytes = is_bytes && !matches!(data_type, DataType::FixedSizeBinary(_));
        let data_type = data_type.clone();
        is_bytes.then(|| ExtremeBytes { name, data_type, is_maximum, extremes: Vec::new(), bytes: 0 })
    }

    fn offer(&mut self, group: usize, value: &[u8]) {
        match &mut self.extremes[group] {
            Some(extreme)
                if (value > extreme.as_slice()) == self.is_maximum && value != extreme.as_slice() =>
            {
                let before = extreme.capacity();
                extreme.clear();
                extreme.extend_from_slice(value);
                self.bytes += extreme.capacity() - before;
            }
            Some(_) => {}
            empty => {
                self.bytes += value.len();
                *empty = Some(value.to_vec());
            }
        }
    }

    fn values<'a>(&'a self, groups: &'a [u32]) -> impl Iterator<Item = Option<&'a [u8]>> + 'a {
        groups.iter().map(|group| self.extremes[*group as usize].as_deref())
    }

    fn array_of<T: ByteArrayType>(
        &self,
        groups: &[u32],
        native: impl Fn(&[u8]) -> Result<&T::Native, Cause>,
    ) -> Result<ArrayRef, Cause> {
        let mut builder = GenericByteBuilder::<T>::with_capacity(groups.len(), 0);
        for value in self.values(groups) {
            builder.append_option(value.map(&native).transpose()?);
        }
        Ok(Arc::new(builder.finish()))
    }
}

impl Accumulator for ExtremeBytes {
    fn resize(&mut self, groups: usize) {
        self.extremes.resize(groups, None);
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(), Cause> {
        let column = arguments.first().filter(|column| *column.data_type() == self.data_type);
        let expected = || wrong_type(self.name, &self.data_type.to_string(), arguments.first());
        let column = column.ok_or_else(expected)?;
        let rows = selected(&[column], filter);
        macro_rules! offer_all {
            ($column:expr) => {{
                let column = $column;
                for_each_row(groups, rows.as_ref(), |group, row| {
                    self.offer(group, column.value(row).as_ref());
                });
            }};
        }
        match self.data_type {
            DataType::Utf8 => offer_all!(column.as_string::<i32>()),
            DataType::LargeUtf8 => offer_all!(column.as_string::<i64>()),
            DataType::Utf8View => offer_all!(column.as_string_view()),
            DataType::Binary => offer_all!(column.as_binary::<i32>()),
            DataType::LargeBinary => offer_all!(column.as_binary::<i64>()),
            _ => offer_all!(column.as_binary_view()),
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Cause> {
        self.update(groups, partials, None)
    }

    fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        match self.data_type {
            DataType::Utf8 => self.array_of::<Utf8Type>(groups, text),
            DataType::LargeUtf8 => self.array_of::<LargeUtf8Type>(groups, text),
            DataType::Binary => self.array_of::<BinaryType>(groups, |bytes| Ok(bytes)),
            DataType::LargeBinary => self.array_of::<LargeBinaryType>(groups, |bytes| Ok(bytes)),
            DataType::Utf8View => {
                let mut builder = StringViewBuilder::with_capacity(groups.len());
                for value in self.values(groups) {
                    builder.append_option(value.map(text).transpose()?);
                }
                Ok(Arc::new(builder.finish()))
            }
            _ => {
                let mut builder = BinaryViewBuilder::with_capacity(groups.len());
                self.values(groups).for_each(|value| builder.append_option(value));
                Ok(Arc::new(builder.finish()))
            }
        }
    }

    fn clear(&mut self) {
        self.extremes.clear();
        self.bytes = 0;
    }

    fn bytes(&self) -> usize {
        self.extremes.capacity() * size_of::<Option<Vec<u8>>>() + self.bytes
    }
}

fn text(bytes: &[u8]) -> Result<&str, Cause> {
    str::from_utf8(bytes)
        .map_err(|error| Cause::bug(format!("a string is no longer valid UTF-8: {error}")).with_source(error))
}
