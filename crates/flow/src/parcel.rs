//! What travels between workers: gathered batches, by reference within a process, as Arrow IPC between
//! processes.

use std::cell::OnceCell;
use std::io::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use tidemill_core::{Batch, PartitionedBatch, Run};
use tidemill_split::SplitPlan;
use timely::Accountable;
use timely::bytes::arc::Bytes;
use timely::dataflow::channels::ContainerBytes;

/// A gathered batch on its way to one worker.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// The worker that it is for.
    pub target: u32,
    /// Its place among all parcels of its edge and cycle.
    pub chunk: u32,
    /// Its place among the windows of its chunk, if that was divided on the way to splitters.
    pub window: u32,
    /// The plan by which it is split; `None` on the way to a sink.
    pub plan: Option<Arc<SplitPlan>>,
    /// What is counted as held for it until it is processed: the bytes of copies.
    pub held_bytes: u64,
    /// The rows; without runs on the way to a sink.
    pub rows: PartitionedBatch,
}

impl Parcel {
    /// Rows of a chunk for a worker.
    pub fn new(target: u32, chunk: u32, rows: PartitionedBatch) -> Self {
        Parcel { target, chunk, window: 0, plan: None, held_bytes: 0, rows }
    }

    /// The same, split by this plan.
    pub fn by(self, plan: &Arc<SplitPlan>) -> Self {
        Parcel { plan: Some(Arc::clone(plan)), ..self }
    }
}

/// The container that Timely moves. Timely counts parcels, not rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parcels(pub Vec<Parcel>, Encoded);

/// The bytes of parcels that are sent to another process: Timely asks for their length first.
type Encoded = OnceCell<Vec<u8>>;

impl Parcels {
    pub fn new(parcels: Vec<Parcel>) -> Self {
        Parcels(parcels, Encoded::new())
    }

    fn encoded(&self) -> &[u8] {
        self.1.get_or_init(|| encode(&self.0))
    }

    /// All rows that all parcels bring, as often as partitions are given them.
    pub fn rows(&self) -> u64 {
        let rows = |rows: &PartitionedBatch| match rows.runs.is_empty() {
            true => rows.batch.len() as u64,
            false => rows.rows_given(),
        };
        self.0.iter().map(|parcel| rows(&parcel.rows)).sum()
    }
}

impl Accountable for Parcels {
    fn record_count(&self) -> i64 {
        self.0.len() as i64
    }
}

impl ContainerBytes for Parcels {
    fn from_bytes(bytes: Bytes) -> Self {
        decode(&bytes).expect("parcels come from this same program, whole")
    }

    fn length_in_bytes(&self) -> usize {
        self.encoded().len()
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        writer.write_all(self.encoded()).expect("the transport's buffer has the announced length");
    }
}

fn encode(parcels: &[Parcel]) -> Vec<u8> {
    let rows: usize = parcels.iter().map(|parcel| parcel.rows.batch.bytes()).sum();
    let mut bytes = Vec::with_capacity(rows + 4096);
    put(&mut bytes, parcels.len());
    for parcel in parcels {
        put(&mut bytes, parcel.target as usize);
        put(&mut bytes, parcel.chunk as usize);
        put(&mut bytes, parcel.window as usize);
        put(&mut bytes, parcel.held_bytes as usize);
        put_bytes(&mut bytes, &parcel.plan.as_ref().map(|plan| plan.to_bytes()).unwrap_or_default());
        put(&mut bytes, parcel.rows.runs.len());
        for run in &parcel.rows.runs {
            put(&mut bytes, run.partition as usize);
            put(&mut bytes, run.start as usize);
            put(&mut bytes, run.end as usize);
        }
        put_integers(&mut bytes, &parcel.rows.batch.positions);
        put_integers(&mut bytes, &parcel.rows.batch.origins);
        put_columns(&mut bytes, &parcel.rows.batch.rows);
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn put(bytes: &mut Vec<u8>, value: usize) {
    bytes.extend_from_slice(&(value as u64).to_le_bytes());
}

fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    put(bytes, value.len());
    bytes.extend_from_slice(value);
}

fn put_integers(bytes: &mut Vec<u8>, values: &[u32]) {
    put(bytes, values.len());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// Columns as a stream of Arrow IPC, behind its length.
fn put_columns(bytes: &mut Vec<u8>, rows: &RecordBatch) {
    let at = bytes.len();
    put(bytes, 0);
    let mut writer = StreamWriter::try_new(&mut *bytes, &rows.schema()).expect("writing to memory");
    writer.write(rows).expect("writing to memory");
    writer.finish().expect("writing to memory");
    drop(writer);
    let length = bytes.len() - at - 8;
    bytes[at..at + 8].copy_from_slice(&(length as u64).to_le_bytes());
}

/// The columns share one copy of the bytes, which is aligned as they need.
fn decode_columns(bytes: &[u8]) -> Option<RecordBatch> {
    let mut buffer = Buffer::from(bytes);
    let mut decoder = StreamDecoder::new();
    while !buffer.is_empty() {
        if let Some(rows) = decoder.decode(&mut buffer).ok()? {
            return Some(rows);
        }
    }
    None
}

fn decode(mut bytes: &[u8]) -> Option<Parcels> {
    let count = take(&mut bytes)?;
    (0..count).map(|_| decode_parcel(&mut bytes)).collect::<Option<Vec<_>>>().map(Parcels::new)
}

fn decode_parcel(bytes: &mut &[u8]) -> Option<Parcel> {
    let target = take(bytes)? as u32;
    let chunk = take(bytes)? as u32;
    let window = take(bytes)? as u32;
    let held_bytes = take(bytes)? as u64;
    let plan = match take_bytes(bytes)? {
        [] => None,
        plan => Some(Arc::new(SplitPlan::from_bytes(plan).ok()?)),
    };
    let run_count = take(bytes)?;
    let mut run =
        || Some(Run { partition: take(bytes)? as u32, start: take(bytes)? as u32, end: take(bytes)? as u32 });
    let runs = (0..run_count).map(|_| run()).collect::<Option<Vec<_>>>()?;
    let positions = take_integers(bytes)?;
    let origins = take_integers(bytes)?;
    let rows = decode_columns(take_bytes(bytes)?)?;
    let batch = Batch { rows, positions: positions.into(), origins: origins.into() };
    Some(Parcel { target, chunk, window, plan, held_bytes, rows: PartitionedBatch { batch, runs } })
}

fn take(bytes: &mut &[u8]) -> Option<usize> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    usize::try_from(u64::from_le_bytes(*head)).ok()
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take(bytes)?;
    let (value, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(value)
}

fn take_integers(bytes: &mut &[u8]) -> Option<Vec<u32>> {
    let length = take(bytes)?;
    let (values, rest) = bytes.split_at_checked(length.checked_mul(4)?)?;
    *bytes = rest;
    Some(values.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{
        ArrayRef, BooleanArray, DictionaryArray, ListArray, NullArray, RecordBatchOptions, StringArray,
        StringViewArray, UInt16Array,
    };
    use arrow_buffer::ScalarBuffer;
    use arrow_schema::Schema;

    use super::*;

    #[test]
    fn parcels_survive_the_wire() {
        let column = Arc::new(UInt16Array::from(vec![5, 6, 7])) as _;
        let rows = RecordBatch::try_from_iter([("seg", column)]).unwrap();
        let batch = Batch { rows, positions: vec![0, 2, 9].into(), origins: vec![1, 1, 3].into() };
        let runs = vec![Run { partition: 1, start: 0, end: 2 }, Run { partition: 4, start: 2, end: 3 }];
        let parcel = Parcel::new(1, 3, PartitionedBatch { batch, runs }).by(&Arc::new(SplitPlan::exptree(9)));
        let parcel = Parcel { window: 2, held_bytes: 77, ..parcel };
        let parcels = [parcel.clone(), parcel.clone()];

        let bytes = encode(&parcels);
        assert_eq!(bytes.len() % 8, 0);
        let back = decode(&bytes).unwrap();
        assert_eq!(back.0.len(), 2);
        assert_eq!((back.0[1].target, back.0[1].chunk, back.0[1].window), (1, 3, 2));
        assert_eq!((&back.0[1].plan, back.0[1].held_bytes), (&parcel.plan, 77));
        assert_eq!(back.0[1].rows.batch.rows, parcel.rows.batch.rows);
        assert_eq!(back.0[1].rows.batch.positions, parcel.rows.batch.positions);
        assert_eq!(back.0[1].rows.batch.origins, parcel.rows.batch.origins);
        assert_eq!(back.0[1].rows.runs, parcel.rows.runs);
        for length in 0..bytes.len() - 8 {
            assert!(
                decode(&bytes[..length])
                    .is_none_or(|parcels| parcels.0.len() < 2 || length > bytes.len() - 16)
            );
        }
    }

    #[test]
    fn columns_of_all_kinds_survive_the_wire() {
        let kinds: DictionaryArray<Int32Type> = ["a", "b", "a", "c"].into_iter().collect();
        let list = [Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(4)])];
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("text", Arc::new(StringArray::from(vec![Some("one"), None, Some(""), Some("four")]))),
            ("view", Arc::new(StringViewArray::from(vec!["short", "longer than twelve bytes", "", "x"]))),
            ("kind", Arc::new(kinds)),
            ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]))),
            ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(list))),
            ("nothing", Arc::new(NullArray::new(4))),
        ];
        let whole = RecordBatch::try_from_iter(columns).unwrap();
        let no_columns = RecordBatchOptions::new().with_row_count(Some(3));
        let no_columns =
            RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &no_columns).unwrap();
        for rows in [whole.clone(), whole.slice(1, 3), whole.slice(2, 0), no_columns] {
            let positions = (0..rows.num_rows() as u32).collect();
            let batch = Batch { rows: rows.clone(), positions, origins: ScalarBuffer::default() };
            let parcel = Parcel::new(0, 0, PartitionedBatch { batch, runs: Vec::new() });
            let back = decode(&encode(&[parcel])).unwrap();
            assert_eq!(back.0[0].rows.batch.rows, rows);
        }
    }
}
