//! Windows, joins and running aggregates answer what DataFusion answers in batch over the same finite input without its
//! late rows, at any number of workers, any size of cycles and any division into batches.
//!
//! `PROPTEST_CASES=1000 cargo test --release -p tidemill-sql --test against_batch` is the long form.

#[path = "against_batch/batch.rs"]
mod batch;
#[path = "against_batch/case.rs"]
mod case;
#[path = "against_batch/compare.rs"]
mod compare;
#[path = "against_batch/input.rs"]
mod input;
#[path = "against_batch/joins.rs"]
mod joins;
mod memory_source;
#[path = "against_batch/running.rs"]
mod running;
#[path = "against_batch/streaming.rs"]
mod streaming;
#[path = "against_batch/sub_streams.rs"]
mod sub_streams;
#[path = "against_batch/tables.rs"]
mod tables;
#[path = "against_batch/windows.rs"]
mod windows;
#[path = "against_batch/windows_by_count.rs"]
mod windows_by_count;

/// A test for each query: `name: "query"`, or `name: "query" => "query for batches"`.
macro_rules! cases {
    ($kind:ident: $($name:ident: $sql:literal $(=> $batch_sql:literal)?;)*) => {
        $(
            #[test]
            fn $name() {
                let batch_sql: &[&'static str] = &[$($batch_sql)?];
                let kind = crate::case::Kind::$kind;
                crate::case::Case { sql: $sql, batch_sql: batch_sql.first().copied(), kind }.check();
            }
        )*
    };
}
use cases;
