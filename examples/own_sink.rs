//! A connector for sinks of the program's own, used in SQL. It has each row exactly once, whatever dies when.
//!
//! `cargo run --example own_sink`

use std::collections::VecDeque;
use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::arrow::schema::DataType;
use tidemill_engine::{Cause, CycleOutput, Guarantee, Sink};
use tidemill_sql::{
    OpenSink, OptionDefault, OptionDefinition, OptionError, OptionKind, Planner, SinkConnector, SinkRequest,
    parse,
};

/// The sum of a column, kept in a file together with the number of the last cycle that is in it. Both are replaced in
/// one step, so the file never has one without the other. That is what makes "exactly once".
struct Total {
    path: PathBuf,
    cycle: Option<u64>,
    sum: i64,
    /// The sums of cycles that are prepared and not committed.
    prepared: VecDeque<(u64, i64)>,
}

impl Total {
    /// Continues from the file, if the query resumes.
    fn open(path: &Path, resume: bool) -> Result<Total, Cause> {
        let mut total = Total { path: path.to_owned(), cycle: None, sum: 0, prepared: VecDeque::new() };
        match fs::read_to_string(path) {
            Ok(text) if resume => {
                let wrong =
                    || Cause::user(format!("'{}' is not a total's file; name another", path.display()));
                let (cycle, sum) = text.trim().split_once(' ').ok_or_else(wrong)?;
                total.cycle = Some(cycle.parse().map_err(|_| wrong())?);
                total.sum = sum.parse().map_err(|_| wrong())?;
                Ok(total)
            }
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(total),
        }
    }
}

impl Sink for Total {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut sum = 0;
        for batch in output.streams.into_iter().flatten() {
            sum += batch.rows.column(0).as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        }
        self.prepared.push_back((output.cut.cycle, sum));
        Ok(())
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        while let Some((_, sum)) = self.prepared.pop_front_if(|(cycle, _)| cycles.contains(cycle)) {
            self.sum += sum;
        }
        self.cycle = Some(*cycles.end());
        let partial = self.path.with_extension("partial");
        fs::write(&partial, format!("{} {}\n", cycles.end(), self.sum))?;
        fs::File::open(&partial)?.sync_all()?;
        Ok(fs::rename(&partial, &self.path)?)
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    /// Cycles up to this one are not given to the sink again.
    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.cycle)
    }
}

/// `connector = 'total', path = 'sum.txt'`
pub(crate) struct TotalConnector;

const OPTIONS: &[OptionDefinition] =
    &[OptionDefinition::new("path", OptionKind::Text, OptionDefault::Required, "the file of the sum")];

impl SinkConnector for TotalConnector {
    fn doc(&self) -> &str {
        "the sum of a column"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn define(&self, request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        let path = PathBuf::from(request.options.required_text("path"));
        // Only when the query starts are the columns known, and whether it resumes.
        Ok(Arc::new(move |of| match of.schema.fields().first().map(|field| field.data_type()) {
            Some(DataType::Int64) => Ok(Box::new(Total::open(&path, of.resume)?)),
            _ => Err(Cause::user(format!("sink '{}': a total needs one column of type BIGINT", of.name))),
        }))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let place = |name: &str| folder.path().join(name).display().to_string();
    let mut clicks = String::from("n\n");
    // The second run finds the journal of the first, and more rows in the file.
    for first in [0, 1_000] {
        (first..first + 1_000).for_each(|n| clicks += &format!("{n}\n"));
        fs::write(place("clicks.csv"), &clicks)?;
        let mut planner = Planner::new();
        planner.register_sink("total", Arc::new(TotalConnector));
        let script = format!(
            "SET journal = '{}';
             CREATE SOURCE clicks (n BIGINT) WITH (path = '{}', durable = true);
             CREATE SINK sum FROM clicks WITH (connector = 'total', path = '{}');",
            place("journal"),
            place("clicks.csv"),
            place("sum.txt")
        );
        for statement in parse(&script, "total.sql")? {
            planner.execute(&statement)?;
        }
        if let Some(pipeline) = planner.pipeline()? {
            pipeline.open()?.start()?.wait()?;
        }
        let text = fs::read_to_string(place("sum.txt"))?;
        println!("up to {}: {}", first + 999, text.split_whitespace().last().unwrap_or_default());
    }
    Ok(())
}
