//! A connector for sources of the program's own, used in SQL, with a durable journal.
//!
//! `cargo run --example own_source`

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::arrow::array::{Int64Array, RecordBatch};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{Cause, Polled, Source, SourceOffset, SourceOffsets};
use tidemill_sql::{
    DefinedSource, Liveness, OptionDefault, OptionDefinition, OptionError, OptionKind, Planner, Projected,
    SourceConnector, SourceRequest, parse,
};

const BATCH_ROWS: u64 = 100;

/// The readings of a meter. A real one would ask a device for those after the last number that it has.
struct Meter {
    next: u64,
    end: u64,
}

impl Source for Meter {
    fn schema(&self) -> SchemaRef {
        columns()
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        let numbers = self.next..self.end.min(self.next + BATCH_ROWS);
        if numbers.is_empty() {
            return Ok(Polled::Ended);
        }
        self.next = numbers.end;
        let watts = numbers.clone().map(|number| (number * number % 1_000) as i64);
        let numbers = numbers.map(|number| number as i64);
        let columns: [Arc<Int64Array>; 2] = [Arc::new(numbers.collect()), Arc::new(watts.collect())];
        let rows = RecordBatch::try_new(self.schema(), columns.map(|column| column as _).to_vec());
        rows.map(Polled::Rows).map_err(|error| Cause::bug(error.to_string()))
    }

    /// How far the meter was read. The journal keeps it in one record with the rows, so a restart has both or neither.
    fn offsets(&mut self) -> Vec<SourceOffset> {
        vec![SourceOffset { part: 0, at: Some(self.next.to_le_bytes().to_vec()) }]
    }

    /// Continues where the last run stopped.
    fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        let Some(offset) = offsets.get(&0) else { return Ok(()) };
        let wrong = || Cause::operation("the journal's offset is not that of a meter; use another journal");
        self.next = u64::from_le_bytes(offset.as_slice().try_into().map_err(|_| wrong())?);
        Ok(())
    }

    fn is_finite(&self) -> bool {
        true
    }
}

fn columns() -> SchemaRef {
    let field = |name: &str| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![field("number"), field("watts")]))
}

/// `connector = 'meter', readings = 1000`
pub(crate) struct MeterConnector;

/// Checked before `define` is called; an option that is not declared is refused, with the one that was probably meant.
const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition::new(
        "readings",
        OptionKind::Integer { least: 0, most: 1_000_000_000 },
        OptionDefault::Required,
        "how many readings the meter has",
    ),
    OptionDefinition::new(
        "first",
        OptionKind::Integer { least: 0, most: i64::MAX },
        OptionDefault::Value("0"),
        "the number of the first one",
    ),
];

impl SourceConnector for MeterConnector {
    fn doc(&self) -> &str {
        "the readings of a meter"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        if request.columns.is_some() {
            return Err(OptionError::new("connector", "a meter defines its own columns: number, watts")
                .with_hint("remove the columns"));
        }
        let first = request.options.integer("first").unwrap_or(0) as u64;
        let end = first + request.options.integer("readings").unwrap_or(0) as u64;
        let open = move |columns: Option<&[usize]>| Projected::open(Meter { next: first, end }, columns);
        let source = DefinedSource::new(columns(), Arc::new(open));
        Ok(DefinedSource { is_finite: true, starts_over: true, liveness: Liveness::Stored, ..source })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (journal, results) = (folder.path().join("journal"), folder.path().join("watts.csv"));
    // The second run finds the journal of the first, and a meter that has continued.
    for readings in [250, 400] {
        let mut planner = Planner::new();
        planner.register_source("meter", Arc::new(MeterConnector));
        let script = format!(
            "SET journal = '{}';
             CREATE SOURCE meter WITH (connector = 'meter', readings = {readings}, durable = true);
             CREATE SINK high AS SELECT number, watts FROM meter WHERE watts > 990
             WITH (path = '{}');",
            journal.display(),
            results.display()
        );
        for statement in parse(&script, "meter.sql")? {
            planner.execute(&statement)?;
        }
        if let Some(pipeline) = planner.pipeline()? {
            let (status, _) = pipeline.open()?.start()?.wait()?;
            println!("with {readings} readings, {} of them new:", status.rows_in());
        }
        print!("{}", std::fs::read_to_string(&results)?);
    }
    Ok(())
}
