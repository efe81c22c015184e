//! The streams of the query: what its source delivers, and what its operators write.

use std::sync::Arc;

use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};

fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), false);
    Arc::new(Schema::new(fields.iter().map(field).collect::<Vec<_>>()))
}

/// Position reports (input type 0).
pub fn reports() -> SchemaRef {
    schema(&[
        ("time", DataType::UInt16),
        ("vid", DataType::UInt32),
        ("speed", DataType::UInt8),
        ("xway", DataType::UInt16),
        ("lane", DataType::UInt8),
        ("dir", DataType::UInt8),
        ("seg", DataType::UInt8),
        ("pos", DataType::UInt32),
    ])
}

/// Balance queries (input type 2).
pub fn balance_queries() -> SchemaRef {
    schema(&[("time", DataType::UInt16), ("vid", DataType::UInt32), ("qid", DataType::UInt64)])
}

/// Expenditure queries (input type 3).
pub fn expenditure_queries() -> SchemaRef {
    schema(&[
        ("time", DataType::UInt16),
        ("vid", DataType::UInt32),
        ("xway", DataType::UInt16),
        ("qid", DataType::UInt64),
        ("day", DataType::UInt8),
    ])
}

/// Toll notifications (output type 0).
pub fn toll_notifications() -> SchemaRef {
    schema(&[
        ("vid", DataType::UInt32),
        ("time", DataType::UInt16),
        ("lav", DataType::Int8),
        ("toll", DataType::UInt64),
    ])
}

/// Accident notifications (output type 1).
pub fn accident_notifications() -> SchemaRef {
    schema(&[("time", DataType::UInt16), ("vid", DataType::UInt32), ("seg", DataType::UInt8)])
}

/// Tolls charged to accounts: internal, not an output.
pub fn charges() -> SchemaRef {
    schema(&[("vid", DataType::UInt32), ("toll", DataType::UInt64)])
}

/// Account balances (output type 2) as of the query's own second.
pub fn balances() -> SchemaRef {
    schema(&[("time", DataType::UInt16), ("qid", DataType::UInt64), ("balance", DataType::UInt64)])
}

/// Daily expenditures (output type 3).
pub fn expenditures() -> SchemaRef {
    schema(&[("time", DataType::UInt16), ("qid", DataType::UInt64), ("toll", DataType::UInt64)])
}
