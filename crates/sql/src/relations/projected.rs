//! Selects columns of a source that always makes all of them.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use tidemill_engine::{Admission, Cause, DelegatingSource, Polled, Source};

/// A source reduced to some of its columns, for sources that cannot omit columns while they make rows.
///
/// ```
/// use tidemill_connect::generator::{Sequence, SequenceConfig};
/// use tidemill_sql::Projected;
///
/// let times = Projected::open(Sequence::new(SequenceConfig::default())?, Some(&[1]))?;
/// assert_eq!(times.schema().field(0).name(), "event_time");
/// # Ok::<(), tidemill_engine::Cause>(())
/// ```
pub struct Projected {
    source: Box<dyn Source>,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl Projected {
    /// The source with these columns; `None`: with all.
    ///
    /// # Errors
    /// [`Cause::bug`] if such a column does not exist.
    pub fn open(source: impl Source + 'static, columns: Option<&[usize]>) -> Result<Box<dyn Source>, Cause> {
        let Some(columns) = columns else { return Ok(Box::new(source)) };
        let schema = source
            .schema()
            .project(columns)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        Ok(Box::new(Projected {
            source: Box::new(source),
            columns: columns.to_vec(),
            schema: Arc::new(schema),
        }))
    }
}

impl Projected {
    fn project(&self, rows: &RecordBatch) -> Result<RecordBatch, Cause> {
        rows.project(&self.columns).map_err(|error| Cause::bug(error.to_string()).with_source(error))
    }
}

impl DelegatingSource for Projected {
    fn inner(&self) -> &dyn Source {
        self.source.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Source {
        self.source.as_mut()
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        Ok(match self.source.poll(wait)? {
            Polled::Rows(rows) => Polled::Rows(self.project(&rows)?),
            Polled::Request { rows, request } => Polled::Request { rows: self.project(&rows)?, request },
            Polled::Nothing => Polled::Nothing,
            Polled::Idle => Polled::Idle,
            Polled::Ended => Polled::Ended,
            Polled::Left => Polled::Left,
        })
    }

    /// Whoever reads this source asks itself, because the other source has other columns.
    fn admit_by(&mut self, admission: Box<dyn Admission>) -> Option<Box<dyn Admission>> {
        Some(admission)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use parking_lot::Mutex;
    use tidemill_engine::Request;

    use super::*;

    /// One request with two columns. Notes what it is told.
    struct OneRequest(Arc<Mutex<Vec<String>>>);

    impl Source for OneRequest {
        fn schema(&self) -> SchemaRef {
            let field = |name: &str| Field::new(name, DataType::Int64, false);
            Arc::new(Schema::new(vec![field("a"), field("b")]))
        }
        fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
            let column = |value| Arc::new(Int64Array::from(vec![value])) as _;
            let rows = RecordBatch::try_new(self.schema(), vec![column(1), column(2)]).unwrap();
            Ok(Polled::Request { rows, request: Request { client: "agent".into(), sequence: 7 } })
        }
        fn acknowledge(&mut self, rows: u64) {
            self.0.lock().push(format!("acknowledged {rows}"));
        }
        fn refuse(&mut self, last: u64) {
            self.0.lock().push(format!("refused for {last}"));
        }
        fn is_finite(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_request_stays_one_and_its_sender_hears_everything() {
        let told = Arc::default();
        let mut source = Projected::open(OneRequest(Arc::clone(&told)), Some(&[1])).unwrap();
        let Polled::Request { rows, request } = source.poll(Duration::ZERO).unwrap() else {
            panic!("a request")
        };
        assert_eq!(
            (rows.num_columns(), rows.schema().field(0).name().as_str(), request.sequence),
            (1, "b", 7)
        );
        source.refuse(9);
        source.acknowledge(1);
        assert_eq!(*told.lock(), ["refused for 9", "acknowledged 1"]);
    }
}
