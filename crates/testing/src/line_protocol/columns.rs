//! The columns that both readers fill.

use std::sync::Arc;

use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// The tags that become columns.
pub const TAGS: [&str; 3] = ["host", "a b", "x=,\\y"];

/// Returns the columns that both readers fill.
pub fn schema() -> SchemaRef {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        Field::new("measurement", DataType::Utf8, true),
        Field::new("host", dictionary, true),
        Field::new("a b", DataType::Utf8, true),
        Field::new("x=,\\y", DataType::Utf8, true),
        Field::new("integer", DataType::Int64, true),
        Field::new("unsigned", DataType::UInt64, true),
        Field::new("float", DataType::Float64, true),
        Field::new("boolean", DataType::Boolean, true),
        Field::new("text", DataType::Utf8, true),
    ]))
}
