//! Sources whose rows a test feeds.
#![allow(dead_code, unused_imports)]

pub mod oracle;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

pub use crate::waiting::{PATIENCE, until};
use tidemill_engine::arrow::array::{Int64Array, RecordBatch};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{Cause, Polled, Source};
use tidemill_sql::{DurableStream, Generator, Planner, SourceDefinition};

/// A key and a value.
pub type Row = (i64, i64);

/// What a test feeds, and how often it was opened.
#[derive(Clone, Default)]
pub struct Fed {
    pub waiting: Arc<Mutex<VecDeque<Vec<Row>>>>,
    pub opened: Arc<AtomicUsize>,
    pub is_open: Arc<AtomicUsize>,
}

struct FedSource {
    fed: Fed,
    columns: Vec<usize>,
    schema: SchemaRef,
}

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![field("k"), field("v")]))
}

impl Source for FedSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        let Some(rows) = self.fed.waiting.lock().pop_front() else {
            thread::sleep(wait.min(Duration::from_millis(1)));
            return Ok(Polled::Nothing);
        };
        let column = |column: &usize| {
            let value = |row: &Row| if *column == 0 { row.0 } else { row.1 };
            Arc::new(rows.iter().map(value).collect::<Int64Array>()) as _
        };
        let columns = self.columns.iter().map(column).collect();
        Ok(Polled::Rows(RecordBatch::try_new(self.schema(), columns).unwrap()))
    }

    fn is_finite(&self) -> bool {
        false
    }
}

impl Drop for FedSource {
    fn drop(&mut self) {
        self.fed.is_open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Fed {
    pub fn feed(&self, rows: Vec<Row>) {
        self.waiting.lock().push_back(rows);
    }

    /// A runtime with the source `name` of these rows.
    pub fn register(&self, planner: &mut Planner, name: &str, waits_max: Duration) {
        self.register_with(planner, name, waits_max, None);
    }

    /// As `register`; the rows are journaled, if it is said how.
    pub fn register_with(
        &self,
        planner: &mut Planner,
        name: &str,
        waits_max: Duration,
        durable: Option<DurableStream>,
    ) {
        let fed = self.clone();
        let open = move |columns: Option<&[usize]>| -> Result<Box<dyn Source>, Cause> {
            let columns = columns.map_or(vec![0, 1], <[usize]>::to_vec);
            fed.opened.fetch_add(1, Ordering::SeqCst);
            assert_eq!(fed.is_open.fetch_add(1, Ordering::SeqCst), 0, "it is open already");
            let schema = Arc::new(schema().project(&columns).unwrap());
            Ok(Box::new(FedSource { fed: fed.clone(), columns, schema }))
        };
        let definition =
            SourceDefinition { waits_max, durable, ..SourceDefinition::new(name, schema(), Arc::new(open)) };
        planner.register_generator(
            &format!("{name}_rows"),
            Generator::new("rows of a test", &[], move |_| Ok(definition.clone())),
        );
    }
}
