//! The rows of a table as the next change finds them.
//!
//! A transaction that has the table's lock changes them at once, and notes its steps: they are what it gives to the table's source when it
//! is committed, and what is undone otherwise.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave_record_batch;
use tidemill_engine::arrow::array::{BooleanArray, Int64Array, RecordBatch};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{Cause, bytes_of_rows};
use tidemill_sql::{ROW, TableShape};

use super::key_index::{KeyIndex, of_arrow};
use crate::error::{Error, Refused};

/// The rows of a table.
pub(crate) struct TableRows {
    name: String,
    shape: TableShape,
    segments: Vec<Segment>,
    /// By key, if the table has one.
    keys: Option<KeyIndex>,
    /// What the transaction has done since it began.
    steps: Vec<Step>,
}

/// Rows that came together.
struct Segment {
    rows: RecordBatch,
    /// Those that are gone; empty if none is.
    is_gone: Vec<bool>,
    gone: usize,
    /// Those that are not gone, with their numbers, once somebody has read them.
    live: Option<RecordBatch>,
}

enum Step {
    /// The last segment came.
    Added,
    /// Rows with these numbers went.
    Removed(Vec<i64>),
}

/// The number of a row: its segment and its place there.
fn number(segment: usize, row: usize) -> i64 {
    ((segment as i64) << 32) | row as i64
}

fn place(number: i64) -> (usize, usize) {
    ((number >> 32) as usize, (number & 0xffff_ffff) as usize)
}

impl Segment {
    fn new(rows: RecordBatch) -> Segment {
        Segment { rows, is_gone: Vec::new(), gone: 0, live: None }
    }

    fn is_gone(&self, row: usize) -> bool {
        self.is_gone.get(row).copied().unwrap_or(false)
    }

    fn live_rows(&self) -> usize {
        self.rows.num_rows() - self.gone
    }
}

impl TableRows {
    /// The rows of a table.
    pub fn new(name: &str, shape: &TableShape, rows: RecordBatch) -> Result<TableRows, Error> {
        let keys = KeyIndex::new(&shape.columns, &shape.key)?;
        let mut table = TableRows {
            name: name.to_owned(),
            shape: shape.clone(),
            segments: Vec::new(),
            keys,
            steps: Vec::new(),
        };
        let rows =
            RecordBatch::try_new(Arc::clone(&shape.columns), rows.columns().to_vec()).map_err(of_arrow)?;
        table.add(rows)?;
        table.steps.clear();
        Ok(table)
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| bytes_of_rows(&segment.rows)).sum()
    }

    /// Adds rows. Their keys must be new, and the columns of the key and those that are `NOT NULL` have values.
    pub fn add(&mut self, rows: RecordBatch) -> Result<(), Error> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let segment = self.segments.len();
        if let Some(keys) = &mut self.keys {
            let of_rows = keys.keys(&rows)?;
            for row in 0..rows.num_rows() {
                let key = of_rows.row(row).owned();
                if keys.find(&key).is_some() {
                    // Those before it in the batch are not there, either.
                    for before in 0..row {
                        keys.remove(&of_rows.row(before).owned());
                    }
                    return Err(self.duplicate(&rows, row).into());
                }
                keys.set(key, number(segment, row));
            }
        }
        self.segments.push(Segment::new(rows));
        self.steps.push(Step::Added);
        Ok(())
    }

    fn duplicate(&self, rows: &RecordBatch, row: usize) -> Refused {
        let names: Vec<&str> =
            self.shape.key.iter().map(|column| self.shape.columns.field(*column).name().as_str()).collect();
        let values = self.shape.key.iter().map(|column| {
            arrow_cast::display::array_value_to_string(rows.column(*column), row).unwrap_or_default()
        });
        let values: Vec<String> = values.collect();
        let message = format!(
            "duplicate key value violates unique constraint \"{}_pkey\": key ({})=({}) already exists",
            self.name,
            names.join(", "),
            values.join(", ")
        );
        Refused::new("23505", message).with_hint("INSERT ... ON CONFLICT DO NOTHING, or DO UPDATE SET ...")
    }

    /// Removes rows with these numbers, each of which is there once.
    pub fn remove(&mut self, numbers: Vec<i64>) -> Result<(), Error> {
        if numbers.is_empty() {
            return Ok(());
        }
        let gone = self.gather(&numbers)?;
        if let Some(keys) = &mut self.keys {
            let of_rows = keys.keys(&gone)?;
            (0..gone.num_rows()).for_each(|row| keys.remove(&of_rows.row(row).owned()));
        }
        for number in &numbers {
            let (segment, row) = place(*number);
            let segment = &mut self.segments[segment];
            segment.is_gone.resize(segment.rows.num_rows(), false);
            segment.is_gone[row] = true;
            segment.gone += 1;
            segment.live = None;
        }
        self.steps.push(Step::Removed(numbers));
        Ok(())
    }

    /// The rows with these numbers, in this order, also those that are gone.
    pub fn gather(&self, numbers: &[i64]) -> Result<RecordBatch, Cause> {
        if numbers.is_empty() {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.shape.columns)));
        }
        let places: Vec<(usize, usize)> = numbers.iter().map(|number| place(*number)).collect();
        // Few segments have all of them, mostly.
        let mut used: Vec<usize> = places.iter().map(|(segment, _)| *segment).collect();
        used.sort_unstable();
        used.dedup();
        let batches: Vec<&RecordBatch> = used.iter().map(|segment| &self.segments[*segment].rows).collect();
        let places: Vec<(usize, usize)> = places
            .into_iter()
            .map(|(segment, row)| (used.partition_point(|known| *known < segment), row))
            .collect();
        interleave_record_batch(&batches, &places).map_err(of_arrow)
    }

    /// The numbers of the rows that have the keys of these rows, if there are any.
    pub fn with_keys_of(&self, rows: &RecordBatch) -> Result<Vec<Option<i64>>, Cause> {
        let Some(keys) = &self.keys else { return Ok(vec![None; rows.num_rows()]) };
        let of_rows = keys.keys(rows)?;
        Ok((0..rows.num_rows()).map(|row| keys.find(&of_rows.row(row).owned())).collect())
    }

    /// For each row whether its key is that of an earlier one of them.
    pub fn repeats_key(&self, rows: &RecordBatch) -> Result<Vec<bool>, Cause> {
        let Some(keys) = &self.keys else { return Ok(vec![false; rows.num_rows()]) };
        let of_rows = keys.keys(rows)?;
        let mut seen = HashSet::new();
        Ok((0..rows.num_rows()).map(|row| !seen.insert(of_rows.row(row).owned())).collect())
    }

    /// Whether two batches have rows of the same key.
    pub(crate) fn shares_key(&self, one: &RecordBatch, other: &RecordBatch) -> Result<bool, Cause> {
        let Some(keys) = &self.keys else { return Ok(false) };
        let of_one = keys.keys(one)?;
        let known: HashSet<_> = (0..one.num_rows()).map(|row| of_one.row(row).owned()).collect();
        let of_other = keys.keys(other)?;
        Ok((0..other.num_rows()).any(|row| known.contains(&of_other.row(row).owned())))
    }

    /// All rows that are there, each with its number behind its columns.
    pub fn numbered(&mut self) -> Result<Vec<RecordBatch>, Cause> {
        let schema = numbered_schema(&self.shape.columns);
        let mut batches = Vec::with_capacity(self.segments.len());
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if segment.live_rows() == 0 {
                continue;
            }
            let live = match &segment.live {
                Some(live) => live.clone(),
                None => {
                    let numbers = (0..segment.rows.num_rows()).map(|row| number(index, row));
                    let numbers = Arc::new(Int64Array::from_iter_values(numbers)) as _;
                    let columns = segment.rows.columns().iter().cloned().chain([numbers]).collect();
                    let all = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(of_arrow)?;
                    let live = if segment.gone == 0 {
                        all
                    } else {
                        let stays: Vec<bool> = segment.is_gone.iter().map(|is_gone| !is_gone).collect();
                        filter_record_batch(&all, &BooleanArray::from(stays)).map_err(of_arrow)?
                    };
                    segment.live.insert(live).clone()
                }
            };
            batches.push(live);
        }
        Ok(batches)
    }

    /// The numbers of all rows that are there.
    pub fn numbers(&self) -> Vec<i64> {
        let of_segment = |(index, segment): (usize, &Segment)| {
            let stays = (0..segment.rows.num_rows()).filter(|row| !segment.is_gone(*row));
            stays.map(|row| number(index, row)).collect::<Vec<_>>()
        };
        self.segments.iter().enumerate().flat_map(of_segment).collect()
    }

    /// How many steps the transaction has made.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Undoes all steps but the first ones.
    pub fn undo(&mut self, but: usize) -> Result<(), Error> {
        while self.steps.len() > but
            && let Some(step) = self.steps.pop()
        {
            match step {
                Step::Added => {
                    if let Some(segment) = self.segments.pop()
                        && let Some(keys) = &mut self.keys
                    {
                        let of_rows = keys.keys(&segment.rows)?;
                        let rows = (0..segment.rows.num_rows()).filter(|row| !segment.is_gone(*row));
                        rows.for_each(|row| keys.remove(&of_rows.row(row).owned()));
                    }
                }
                Step::Removed(numbers) => {
                    if let Some(keys) = &mut self.keys {
                        // Its rows are still in their segments.
                        let batches: Vec<_> = numbers.iter().map(|number| place(*number)).collect();
                        for ((segment, row), number) in batches.into_iter().zip(&numbers) {
                            let rows = self.segments[segment].rows.slice(row, 1);
                            keys.set(keys.keys(&rows)?.row(0).owned(), *number);
                        }
                    }
                    for number in &numbers {
                        let (segment, row) = place(*number);
                        let segment = &mut self.segments[segment];
                        segment.is_gone[row] = false;
                        segment.gone -= 1;
                        segment.live = None;
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows that the steps have added and removed, in order, each batch with its weight.
    pub fn changes(&self) -> Result<Vec<(RecordBatch, i64)>, Cause> {
        let mut added =
            self.segments.len() - self.steps.iter().filter(|step| matches!(step, Step::Added)).count();
        let mut changes = Vec::new();
        for step in &self.steps {
            match step {
                Step::Added => {
                    changes.push((self.segments[added].rows.clone(), 1));
                    added += 1;
                }
                Step::Removed(numbers) => changes.push((self.gather(numbers)?, -1)),
            }
        }
        Ok(changes)
    }

    /// The steps are committed. Small segments are merged, so that there are few: a row is copied as often as the number of rows
    /// has been doubled.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.steps.clear();
        while let [.., before, last] = self.segments.as_slice() {
            if before.live_rows() >= 2 * last.live_rows() && before.gone * 2 <= before.rows.num_rows() {
                break;
            }
            let first = self.segments.len() - 2;
            let mut batches = Vec::new();
            for segment in self.segments.drain(first..) {
                let stays: Vec<bool> =
                    (0..segment.rows.num_rows()).map(|row| !segment.is_gone(row)).collect();
                batches
                    .push(filter_record_batch(&segment.rows, &BooleanArray::from(stays)).map_err(of_arrow)?);
            }
            let rows = concat_batches(&self.shape.columns, &batches).map_err(of_arrow)?;
            if let Some(keys) = &mut self.keys {
                let of_rows = keys.keys(&rows)?;
                for row in 0..rows.num_rows() {
                    keys.set(of_rows.row(row).owned(), number(first, row));
                }
            }
            self.segments.push(Segment::new(rows));
        }
        Ok(())
    }
}

/// The columns of rows with their numbers.
pub(crate) fn numbered_schema(columns: &SchemaRef) -> SchemaRef {
    let number = Arc::new(Field::new(ROW, DataType::Int64, false));
    Arc::new(Schema::new(columns.fields().iter().cloned().chain([number]).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use tidemill_engine::arrow::array::Array;
    use tidemill_sql::{ClientTable, NewTable, NewTableColumn, Planner, parse};

    use super::*;

    /// The shape of `CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)`.
    fn shape() -> TableShape {
        let column =
            |name: &str| NewTableColumn { name: name.to_owned(), declaration: "BIGINT NOT NULL".to_owned() };
        let table = NewTable {
            name: "t".to_owned(),
            columns: vec![column("id"), column("n")],
            key: vec!["id".to_owned()],
        };
        let mut planner = Planner::new();
        for text in table.definitions(false) {
            planner.execute(&parse(&text, "test").unwrap()[0]).unwrap_or_else(|error| panic!("{error}"));
        }
        ClientTable::of(planner.catalog(), "t").expect("it is a table").shape
    }

    fn rows(shape: &TableShape, values: &[(i64, i64)]) -> RecordBatch {
        let ids = Int64Array::from_iter_values(values.iter().map(|(id, _)| *id));
        let numbers = Int64Array::from_iter_values(values.iter().map(|(_, n)| *n));
        RecordBatch::try_new(Arc::clone(&shape.columns), vec![Arc::new(ids), Arc::new(numbers)]).unwrap()
    }

    fn pairs(batch: &RecordBatch) -> Vec<(i64, i64)> {
        let values = |column: usize| {
            let array = batch.column(column).as_any().downcast_ref::<Int64Array>().unwrap();
            (0..array.len()).map(|row| array.value(row)).collect::<Vec<_>>()
        };
        values(0).into_iter().zip(values(1)).collect()
    }

    fn content(table: &mut TableRows) -> Vec<(i64, i64)> {
        let mut found: Vec<_> = table.numbered().unwrap().iter().flat_map(pairs).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn what_is_undone_was_never_there() {
        let shape = shape();
        let mut table = TableRows::new("t", &shape, rows(&shape, &[])).unwrap();
        let mut committed: Vec<(i64, i64)> = Vec::new();
        let mut seed = 7_u64;
        let mut below = |end: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % end
        };
        for _ in 0..200 {
            let mut now = committed.clone();
            for _ in 0..below(5) {
                let (id, n) = (below(20) as i64, below(100) as i64);
                let batch = rows(&shape, &[(id, n)]);
                let known = table.with_keys_of(&batch).unwrap()[0];
                assert_eq!(known.is_some(), now.iter().any(|(known, _)| *known == id));
                match known {
                    Some(number) => {
                        assert!(table.add(batch.clone()).is_err(), "the key is there");
                        table.remove(vec![number]).unwrap();
                        now.retain(|(known, _)| *known != id);
                    }
                    None => {
                        table.add(batch).unwrap();
                        now.push((id, n));
                    }
                }
            }
            now.sort_unstable();
            assert_eq!(content(&mut table), now);
            let sum: i64 =
                table.changes().unwrap().iter().map(|(rows, weight)| rows.num_rows() as i64 * weight).sum();
            assert_eq!(sum, now.len() as i64 - committed.len() as i64);
            if below(3) == 0 {
                table.undo(0).unwrap();
                assert_eq!(content(&mut table), committed);
            } else {
                table.commit().unwrap();
                committed = now;
            }
            assert_eq!(table.numbers().len(), committed.len());
        }
        assert!(table.segments.len() < 12, "small segments are merged");
    }
}
