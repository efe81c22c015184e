//! Parcels with columns of all types, for tests.

use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::*;
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::Schema;
use tidemill_core::{Batch, PartitionedBatch, Run, SharedRows};
use tidemill_split::SplitPlan;

use super::{ALIGNMENT, encode};
use crate::transport::parcel::Parcel;

/// The bytes that are sent to another process.
pub fn message(parcels: &[Parcel]) -> Buffer {
    let bytes = encode(parcels).iter().flat_map(|piece| piece.to_vec()).collect::<Vec<u8>>();
    assert_eq!(bytes.len() % ALIGNMENT, 0, "so that the next message is aligned, too");
    Buffer::from(&bytes[..])
}

pub fn parcel(rows: RecordBatch) -> Parcel {
    let positions = (0..rows.num_rows() as u32).map(|row| 7 * row).collect();
    let batch = Batch { rows, positions, origins: ScalarBuffer::default() };
    Parcel::new(0, 0, PartitionedBatch::new(batch, Vec::new()))
}

/// A parcel with everything that a parcel can have.
pub fn full_parcel() -> Parcel {
    let rows = columns(3, &[0, 4, 6, 8], 1);
    let batch = Batch { rows, positions: vec![0, 2, 9].into(), origins: vec![1, 1, 3].into() };
    let runs = vec![Run { partition: 1, start: 0, end: 2 }, Run { partition: 4, start: 2, end: 3 }];
    let plan = Some(Arc::new(SplitPlan::exptree(9)));
    Parcel { window: 2, held_bytes: 77, plan, ..Parcel::new(1, 3, PartitionedBatch::new(batch, runs)) }
}

/// The same, with rows that both partitions share.
pub fn shared_parcel() -> Parcel {
    let rows = columns(2, &[0, 4, 6, 8], 7);
    let batch = Batch { rows, positions: vec![1, 8].into(), origins: vec![0, 5].into() };
    let shared = SharedRows { batch, preceding: vec![0, 1, 2].into() };
    let parcel = full_parcel();
    Parcel { rows: PartitionedBatch { shared: Some(shared), ..parcel.rows }, ..parcel }
}

pub fn assert_same(found: &Parcel, sent: &Parcel) {
    let header = |parcel: &Parcel| (parcel.target, parcel.chunk, parcel.window, parcel.held_bytes);
    assert_eq!(header(found), header(sent));
    assert_eq!(found.plan, sent.plan);
    assert_eq!(found.rows.runs, sent.rows.runs);
    assert_same_rows(&found.rows.batch, &sent.rows.batch);
    let (found, sent) = (&found.rows.shared, &sent.rows.shared);
    assert_eq!(found.is_some(), sent.is_some());
    for (found, sent) in found.iter().zip(sent) {
        assert_eq!(found.preceding, sent.preceding);
        assert_same_rows(&found.batch, &sent.batch);
    }
}

fn assert_same_rows(found: &Batch, sent: &Batch) {
    assert_eq!(found.positions, sent.positions);
    assert_eq!(found.origins, sent.origins);
    assert_eq!(found.rows, sent.rows);
}

/// The number of kinds of columns.
pub const KINDS: u64 = 16;

/// A column with this many rows; in kinds with nulls, one value in four is null.
fn column(rows: usize, kind: u64, seed: u64) -> ArrayRef {
    let number = move |row: usize| (row as u64 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let some = |row: usize| (!number(row).is_multiple_of(4)).then(|| number(row) as i32);
    let long =
        |row: usize| some(row).map(|n| format!("more than twelve bytes {}", "x".repeat(n as usize % 9)));
    let short = |row: usize| some(row).map(|n| format!("{}", n % 100));
    let list = |row: usize| some(row).map(|n| (0..n % 4).map(|n| (n != 2).then_some(n)).collect::<Vec<_>>());
    let all = 0..rows;
    match kind % KINDS {
        0 => Arc::new(all.map(|row| Some(number(row) as i8)).collect::<Int8Array>()),
        1 => Arc::new(all.map(|row| number(row) as f64).collect::<Float64Array>()),
        2 => Arc::new(all.map(some).collect::<Int32Array>()),
        3 => Arc::new(
            TimestampNanosecondArray::from_iter_values(all.map(|row| number(row) as i64))
                .with_timezone("UTC"),
        ),
        4 => Arc::new(all.map(|row| i128::from(number(row))).collect::<Decimal128Array>()),
        5 => Arc::new(all.map(|row| some(row).map(|n| n > 4)).collect::<BooleanArray>()),
        6 => Arc::new(all.map(long).collect::<StringArray>()),
        7 => Arc::new(all.map(short).collect::<LargeStringArray>()),
        8 => Arc::new(all.map(long).collect::<StringViewArray>()),
        9 => Arc::new(all.map(short).collect::<StringViewArray>()),
        10 => Arc::new(all.map(|row| long(row).map(String::into_bytes)).collect::<BinaryArray>()),
        11 => Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(all.map(list))),
        12 => {
            let words: Vec<_> = all.map(short).collect();
            Arc::new(words.iter().map(Option::as_deref).collect::<DictionaryArray<Int8Type>>())
        }
        13 => Arc::new(NullArray::new(rows)),
        14 => {
            let inner = columns(rows, &[2, 6, 11], seed + 1);
            Arc::new(StructArray::from(inner))
        }
        _ => {
            let lists = all.map(|row| some(row).map(|n| [Some(n), None, Some(1)]));
            Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(lists, 3))
        }
    }
}

pub fn columns(rows: usize, kinds: &[u64], seed: u64) -> RecordBatch {
    let column = |(index, kind): (usize, &u64)| (format!("column {index}"), column(rows, *kind, seed), true);
    let columns: Vec<_> = kinds.iter().enumerate().map(column).collect();
    if columns.is_empty() {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap()
    } else {
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }
}
