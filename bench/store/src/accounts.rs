//! Tables with the last row of each key: the balance of each car, and what it has paid on each day.

use std::sync::Arc;

use tidemill_core::Cause;
use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tidemill_core::arrow::schema::{DataType, Field, Schema};
use tidemill_store::{Contents, StoreConfig, StoreReader, StoreWriter};

use crate::rows::mixed;

/// The days of which expenditures are kept.
pub const DAYS: u64 = 8;
const CARS_MAX: u64 = 200_000;

/// Balances and expenditures.
pub struct Accounts {
    pub balances: StoreReader,
    pub expenditures: StoreReader,
    pub cars: u64,
}

pub fn integers(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn table(names: &[&str], key: Vec<usize>, columns: Vec<ArrayRef>) -> Result<StoreReader, Cause> {
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Int64, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let config = StoreConfig { contents: Contents::LastOfKey, key: Some(key), ..StoreConfig::new(&schema) };
    let rows = RecordBatch::try_new(schema, columns).map_err(|error| Cause::bug(error.to_string()))?;
    let (mut writer, reader) = StoreWriter::new(config)?;
    writer.append(0, &[rows])?;
    Ok(reader)
}

impl Accounts {
    pub fn new(cars: u64) -> Result<Accounts, Cause> {
        let cars = cars.min(CARS_MAX);
        let vids = || 0..cars as i64;
        let balances =
            table(&["vid", "balance"], vec![0], vec![integers(vids()), integers(vids().map(balance_of))])?;
        let pairs = || vids().flat_map(|vid| (0..DAYS as i64).map(move |day| (vid, day)));
        let columns = vec![
            integers(pairs().map(|(vid, _)| vid)),
            integers(pairs().map(|(_, day)| day)),
            integers(pairs().map(|(vid, day)| paid_on(vid, day))),
        ];
        let expenditures = table(&["vid", "day", "paid"], vec![0, 1], columns)?;
        Ok(Accounts { balances, expenditures, cars })
    }
}

pub fn balance_of(vid: i64) -> i64 {
    (mixed(vid as u64) % 1000) as i64
}

pub fn paid_on(vid: i64, day: i64) -> i64 {
    (mixed((vid * 64 + day) as u64) % 100) as i64
}
