//! Windows, joins and running aggregates answer what DataFusion answers in batch over the same finite input without its
//! late rows, at any number of workers, any size of cycles and any division into batches.
//!
//! `PROPTEST_CASES=1000 cargo test --release -p tidemill-sql --test integration against_batch` is the long form.

mod batch;
mod case;
pub mod compare;
mod input;
mod joins;
mod running;
mod streaming;
mod sub_streams;
mod tables;
mod windows;
mod windows_by_count;

/// A test for each query: `name: "query"`, or `name: "query" => "query for batches"`.
macro_rules! cases {
    ($kind:ident: $($name:ident: $sql:literal $(=> $batch_sql:literal)?;)*) => {
        $(
            #[test]
            fn $name() {
                let batch_sql: &[&'static str] = &[$($batch_sql)?];
                let kind = crate::against_batch::case::Kind::$kind;
                crate::against_batch::case::Case { sql: $sql, batch_sql: batch_sql.first().copied(), kind }.check();
            }
        )*
    };
}
use cases;
