//! Selects columns of a source that always makes all of them.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_engine::{Cause, Faults, Heard, Place, Places, Polled, Progress, Request, Source};

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

impl Source for Projected {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        match self.source.poll(wait)? {
            Polled::Rows(rows) => {
                let rows = rows
                    .project(&self.columns)
                    .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
                Ok(Polled::Rows(rows))
            }
            other => Ok(other),
        }
    }

    fn request(&mut self) -> Option<Request> {
        self.source.request()
    }

    fn places(&mut self) -> Vec<Place> {
        self.source.places()
    }

    fn go_on(&mut self, places: &Places) -> Result<(), Cause> {
        self.source.go_on(places)
    }

    fn watch_connections(&mut self, silent_after: Option<Duration>) {
        self.source.watch_connections(silent_after);
    }

    fn connections(&mut self) -> Vec<Heard> {
        self.source.connections()
    }

    fn acknowledge(&mut self, rows: u64) {
        self.source.acknowledge(rows);
    }

    fn is_repeatable(&self) -> bool {
        self.source.is_repeatable()
    }

    fn faults(&mut self) -> Faults {
        self.source.faults()
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }

    fn is_finite(&self) -> bool {
        self.source.is_finite()
    }
}
