//! What it costs to keep rows that change: a table that replaces the last row of each key, and a changelog that takes the old row
//! back and adds the new one. Both end with the same rows, which is checked.

use std::sync::Arc;
use std::time::Instant;

use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::Int64Type;
use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tidemill_core::arrow::schema::Schema;
use tidemill_core::changes::weight_field;
use tidemill_core::{Cause, Clock, ThreadTime};
use tidemill_store::{Contents, Retention, Selection, StoreConfig, StoreReader, StoreWriter};

use crate::rows::{Traffic, mixed};

/// A store of rows that change.
struct Changing {
    writer: StoreWriter,
    reader: StoreReader,
    contents: Contents,
    cars: u64,
    /// The number of the newest report of each car.
    newest: Vec<u64>,
    cycle: u64,
}

/// What some changes took, in nanoseconds: processor time, and the longest cycle by the clock.
#[derive(Clone, Copy, Default)]
struct Took {
    all: u64,
    longest: u64,
    changed: u64,
}

impl Changing {
    fn new(contents: Contents, has_key: bool, cars: u64) -> Result<Changing, Cause> {
        let retention = Retention { bytes_max: 64 << 30, versions_max: 100, ..Retention::default() };
        let key = has_key.then(|| vec![0]);
        let schema = Traffic::new(1).rows(0).schema();
        let config = StoreConfig { contents, key, retention, ..StoreConfig::new(&schema) };
        let (writer, reader) = StoreWriter::new(config)?;
        Ok(Changing { writer, reader, contents, cars, newest: Vec::new(), cycle: 0 })
    }

    /// Changes the reports of some cars: each has this report now, or had it.
    fn change(&mut self, gone: &[u64], come: &[u64], took: &mut Took) -> Result<(), Cause> {
        let numbers = match self.contents {
            Contents::Changes => [gone, come].concat(),
            _ => come.to_vec(),
        };
        let rows = Traffic::reports(self.cars, &numbers);
        // Each car has one row, which not all of the traffic's have.
        let cars = numbers.iter().map(|number| (number % self.cars) as i64);
        let mut columns = rows.columns().to_vec();
        columns[0] = Arc::new(Int64Array::from_iter_values(cars));
        let mut fields = rows.schema().fields().to_vec();
        if self.contents == Contents::Changes {
            let weights = (0..numbers.len()).map(|at| if at < gone.len() { -1 } else { 1 });
            let weights: ArrayRef = Arc::new(Int64Array::from_iter_values(weights));
            fields.push(Arc::new(weight_field()));
            columns.push(weights);
        }
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        let rows = rows.map_err(|error| Cause::bug(error.to_string()))?;
        let (start, used) = (Instant::now(), ThreadTime.now_ns());
        self.writer.append(self.cycle, &[rows])?;
        took.all += ThreadTime.now_ns() - used;
        took.longest = took.longest.max(start.elapsed().as_nanos() as u64);
        self.cycle += 1;
        took.changed += gone.len().max(come.len()) as u64;
        Ok(())
    }

    fn fill(&mut self, cycle_rows: usize) -> Result<Took, Cause> {
        let mut took = Took::default();
        self.newest = (0..self.cars).collect();
        let all = self.newest.clone();
        all.chunks(cycle_rows).try_for_each(|come| self.change(&[], come, &mut took))?;
        Ok(took)
    }

    /// Some cars at random, each once.
    fn some(&self, count: u64, step: u64) -> Vec<u64> {
        // An odd number has no factor in common with a power of two; those beyond the cars are left out.
        let all = self.cars.next_power_of_two();
        let cars = (0..all).map(|at| (mixed(step) | 1).wrapping_mul(at) & (all - 1));
        cars.filter(|car| *car < self.cars).take(count as usize).collect()
    }

    fn replace(&mut self, count: u64, cycle_rows: usize, step: u64) -> Result<Took, Cause> {
        let mut took = Took::default();
        for cars in self.some(count, step).chunks(cycle_rows) {
            let gone: Vec<u64> = cars.iter().map(|car| self.newest[*car as usize]).collect();
            let come: Vec<u64> = gone.iter().map(|number| number + self.cars).collect();
            cars.iter().zip(&come).for_each(|(car, number)| self.newest[*car as usize] = *number);
            self.change(&gone, &come, &mut took)?;
        }
        Ok(took)
    }

    /// Takes reports back, and adds them again; how long each took.
    fn take_back(&mut self, count: u64, cycle_rows: usize, step: u64) -> Result<[Took; 2], Cause> {
        let mut took = [Took::default(); 2];
        let cars = self.some(count, step);
        for (is_back, took) in took.iter_mut().enumerate() {
            for cars in cars.chunks(cycle_rows) {
                let numbers: Vec<u64> = cars.iter().map(|car| self.newest[*car as usize]).collect();
                let (gone, come) =
                    if is_back == 0 { (&numbers[..], &[][..]) } else { (&[][..], &numbers[..]) };
                self.change(gone, come, took)?;
            }
        }
        Ok(took)
    }

    /// Checks the rows, and says how long reading them took.
    fn check(&self) -> Result<u64, Cause> {
        let used = ThreadTime.now_ns();
        let found = self.reader.latest().select(&Selection::default())?.batches;
        let nanoseconds = ThreadTime.now_ns() - used;
        let numbers = found.iter().flat_map(|rows| rows.column(1).as_primitive::<Int64Type>().values());
        let sum = numbers.fold((0_u64, 0_u64), |(count, sum), number| {
            (count + 1, sum.wrapping_add(mixed(*number as u64)))
        });
        let expected = self
            .newest
            .iter()
            .fold((0, 0_u64), |(count, sum), number| (count + 1, sum.wrapping_add(mixed(*number))));
        if sum != expected {
            return Err(Cause::bug(format!("the {:?} has other rows than it was given", self.contents)));
        }
        Ok(nanoseconds)
    }
}

/// Measures stores that show this many rows.
pub fn measure(cars: u64, cycle_rows: usize) -> Result<(), Cause> {
    println!("\n{cars} rows that change, in cycles of {cycle_rows}; ns per row, and the longest cycle in ms");
    println!(
        "                          add             replace      replace again           take back       add again    \
         read     bytes per row"
    );
    for (name, contents, has_key) in [
        ("table by key", Contents::LastOfKey, true),
        ("changelog", Contents::Changes, false),
        ("changelog with a key", Contents::Changes, true),
    ] {
        let mut store = Changing::new(contents, has_key, cars)?;
        let count = cars.min(2_000_000);
        let mut took = vec![store.fill(cycle_rows)?];
        took.push(store.replace(count, cycle_rows, 1)?);
        took.push(store.replace(count, cycle_rows, 2)?);
        if contents == Contents::Changes {
            took.extend(store.take_back(count, cycle_rows, 3)?);
        }
        let read = store.check()?;
        let shown = |took: &Took| {
            format!("{:10.0} {:8.2}", took.all as f64 / took.changed.max(1) as f64, took.longest as f64 / 1e6)
        };
        let mut took: Vec<String> = took.iter().map(shown).collect();
        took.resize(5, format!("{:10} {:8}", "", ""));
        let held = store.reader.statistics();
        let per_row = |all: usize| all as f64 / cars as f64;
        println!(
            "{name:20}{} {:7.0} {:8.0} + {:.0} for indexes",
            took.join(""),
            read as f64 / cars as f64,
            per_row(held.bytes),
            per_row(held.index_bytes)
        );
    }
    Ok(())
}
