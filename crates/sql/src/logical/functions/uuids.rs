//! `x::uuid`: a text, if it is a UUID, as PostgreSQL writes it.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::ScalarUDF;
use tidemill_connect::formats::uuid_text;

use super::plain_function::plain_function;

/// Returns the function.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    std::iter::once(plain_function(&["uuid_of_text"], &[&[DataType::Utf8]], DataType::Utf8, |columns| {
        let row = |text: Option<&str>| {
            let uuid = |text| uuid_text(text).ok_or_else(|| exec_datafusion_err!("'{text}' is not a UUID"));
            text.map(uuid).transpose()
        };
        let uuids = columns[0].as_string::<i32>().iter().map(row).collect::<Result<StringArray>>()?;
        Ok(Arc::new(uuids) as ArrayRef)
    }))
}
