//! A source of batches that are in memory already, returned repeatedly.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::{Cause, EventTime, Polled, Source};
use tidemill_sql::{Generator, Planner, SourceDefinition};

/// Batches by reference.
struct Memory {
    batches: Arc<Vec<RecordBatch>>,
    columns: Vec<usize>,
    next: usize,
}

impl Source for Memory {
    fn schema(&self) -> SchemaRef {
        Arc::new(self.batches[0].schema().project(&self.columns).expect("the columns exist"))
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        let Some(batch) = self.batches.get(self.next) else { return Ok(Polled::Ended) };
        self.next += 1;
        batch.project(&self.columns).map(Polled::Rows).map_err(|error| Cause::bug(error.to_string()))
    }

    fn is_finite(&self) -> bool {
        true
    }
}

/// Registers `memory()` as a source of these batches.
pub(crate) fn register(planner: &mut Planner, batches: &Arc<Vec<RecordBatch>>, event_time: Option<usize>) {
    let batches = Arc::clone(batches);
    let define = move |_: &_| {
        let schema = batches[0].schema();
        let batches = Arc::clone(&batches);
        let open = move |columns: Option<&[usize]>| -> Result<Box<dyn Source>, Cause> {
            let all: Vec<usize> = (0..batches[0].num_columns()).collect();
            let columns = columns.map_or(all, <[usize]>::to_vec);
            Ok(Box::new(Memory { batches: Arc::clone(&batches), columns, next: 0 }))
        };
        Ok(SourceDefinition {
            event_time: event_time.map(|column| EventTime { column, delay_ns: 0 }),
            ordered: true,
            // It has no end, so that a table over it emits its upserts continuously; the feed's end is known anyway.
            is_repeatable: true,
            ..SourceDefinition::new("memory", schema, Arc::new(open))
        })
    };
    planner.register_generator("memory", Generator::new("batches that are in memory", &[], define));
}

/// How long it takes one thread to read some columns of all batches, the best of three times.
pub(crate) fn reading_time(batches: &[RecordBatch], columns: &[usize]) -> Duration {
    (0..3).map(|_| read_once(batches, columns)).min().unwrap_or_default()
}

fn read_once(batches: &[RecordBatch], columns: &[usize]) -> Duration {
    let start = Instant::now();
    let mut sum = 0_u64;
    for batch in batches {
        for column in columns {
            let data = batch.column(*column).to_data();
            for buffer in data.buffers() {
                let (words, _) = buffer.as_chunks::<8>();
                sum = words.iter().fold(sum, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
            }
        }
    }
    std::hint::black_box(sum);
    start.elapsed()
}
