//! Parcels as bytes, between processes: one copy on the way out, none on the way in.
//!
//! A message is the number of its parcels, and the parcels. A parcel is eleven numbers:
//!
//! ```text
//! target, chunk, window, held bytes, rows,
//! the lengths in bytes of: plan, runs, positions, origins, fields, other columns
//! ```
//!
//! and these six parts, and the buffers of its plain columns. These numbers have 64 bits; each part and each buffer is
//! filled up with zeros to a multiple of 8 bytes. The plan is as [`SplitPlan`] writes it, empty if there is none; a run is
//! partition, start, end; these, positions and origins are numbers of 32 bits. Columns: see [`columns`]. All numbers are
//! little-endian.
//!
//! So everything lies as it lies in memory, and a buffer of a column goes from where it is straight into the transport's
//! memory, and stays there when it has arrived.

mod columns;

use std::sync::Arc;

use arrow_buffer::{ArrowNativeType, Buffer, MutableBuffer, ScalarBuffer};
use tidemill_core::{Batch, PartitionedBatch, Run};
use tidemill_split::SplitPlan;
use timely::bytes::arc::Bytes;

use crate::parcel::Parcel;

/// What the parts of a message are aligned to. The message itself is, too, as everything that Timely sends.
const ALIGNMENT: usize = 8;
/// A message that is shorter is copied when it has arrived: whoever keeps one of its rows for long keeps its memory, and
/// that would be all of the transport's, 1 MiB.
const SHARED_BYTES_MIN: usize = 128 << 10;

// The parts of a message are numbers as they lie in memory.
const _: () = assert!(cfg!(target_endian = "little"));

/// The message of these parcels, in pieces that follow each other. Buffers of columns are not copied for it.
pub(crate) fn encode(parcels: &[Parcel]) -> Vec<Buffer> {
    let mut pieces = vec![numbers([parcels.len() as u64])];
    parcels.iter().for_each(|parcel| encode_parcel(parcel, &mut pieces));
    pieces
}

fn encode_parcel(parcel: &Parcel, pieces: &mut Vec<Buffer>) {
    let Batch { rows, positions, origins } = &parcel.rows.batch;
    let runs = parcel.rows.runs.iter().flat_map(|run| [run.partition, run.start, run.end]);
    let columns = columns::encode(rows);
    let parts = [
        Buffer::from_vec(parcel.plan.as_ref().map(|plan| plan.to_bytes()).unwrap_or_default()),
        Buffer::from_vec(runs.collect::<Vec<u32>>()),
        positions.inner().clone(),
        origins.inner().clone(),
        columns.fields,
    ];
    let others: usize = columns.others.iter().map(Buffer::len).sum();
    let [plan, runs, positions, origins, fields] = parts.each_ref().map(|part| part.len() as u64);
    pieces.push(numbers([
        parcel.target.into(),
        parcel.chunk.into(),
        parcel.window.into(),
        parcel.held_bytes,
        rows.num_rows() as u64,
        plan,
        runs,
        positions,
        origins,
        fields,
        others as u64,
    ]));
    parts.into_iter().for_each(|part| push(part, pieces));
    pieces.extend(columns.others);
    fill_up(others, pieces);
    columns.plain.into_iter().for_each(|buffer| push(buffer, pieces));
}

fn numbers<const N: usize>(numbers: [u64; N]) -> Buffer {
    Buffer::from_vec(numbers.to_vec())
}

fn push(piece: Buffer, pieces: &mut Vec<Buffer>) {
    let length = piece.len();
    pieces.push(piece);
    fill_up(length, pieces);
}

/// Behind so many bytes.
fn fill_up(length: usize, pieces: &mut Vec<Buffer>) {
    if padding(length) > 0 {
        pieces.push(Buffer::from(&[0; ALIGNMENT][..padding(length)]));
    }
}

/// What is missing to a multiple of the alignment.
fn padding(length: usize) -> usize {
    length.wrapping_neg() % ALIGNMENT
}

/// Memory for the transport: aligned, so that columns can stay in it.
pub(crate) fn memory(bytes: usize) -> MutableBuffer {
    MutableBuffer::from_len_zeroed(bytes)
}

/// The transport's memory as a buffer: shared if that is worth it and possible, or else a copy.
pub(crate) fn shared(bytes: Bytes) -> Buffer {
    let is_aligned = bytes.as_ptr().align_offset(ALIGNMENT) == 0;
    match is_aligned && bytes.len() >= SHARED_BYTES_MIN {
        true => Buffer::from(bytes::Bytes::from_owner(Slab(bytes))),
        false => Buffer::from(&bytes[..]),
    }
}

/// A part of the transport's memory, which is used again when nobody holds it any more.
struct Slab(Bytes);

impl AsRef<[u8]> for Slab {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The parcels of a message, which is aligned; they share its memory. `None`: the bytes are none of ours, or damaged.
pub(crate) fn decode(message: Buffer) -> Option<Vec<Parcel>> {
    let mut rest = Rest(message);
    let [count] = rest.numbers()?;
    let mut parcels = Vec::new();
    for _ in 0..count {
        parcels.push(decode_parcel(&mut rest)?);
    }
    rest.0.is_empty().then_some(parcels)
}

fn decode_parcel(rest: &mut Rest) -> Option<Parcel> {
    let [target, chunk, window, held_bytes, row_count, lengths @ ..] = rest.numbers::<11>()?;
    let small = |number: u64| u32::try_from(number).ok();
    let (target, chunk, window, row_count) =
        (small(target)?, small(chunk)?, small(window)?, small(row_count)?);
    let [plan, runs, positions, origins, fields, others] = lengths;
    let plan = match rest.part(plan)? {
        none if none.is_empty() => None,
        plan => Some(Arc::new(SplitPlan::from_bytes(&plan).ok()?)),
    };
    let runs = decode_runs(&values(rest.part(runs)?)?, row_count)?;
    let (positions, origins) = (values(rest.part(positions)?)?, values(rest.part(origins)?)?);
    let (fields, others) = (rest.part(fields)?, rest.part(others)?);
    let rows = columns::decode(&fields, others, row_count as usize, rest)?;
    let origin_count = if origins.is_empty() { positions.len() } else { origins.len() };
    if [rows.num_rows(), positions.len(), origin_count] != [row_count as usize; 3] {
        return None;
    }
    let rows = PartitionedBatch { batch: Batch { rows, positions, origins }, runs };
    Some(Parcel { target, chunk, window, plan, held_bytes, rows })
}

/// Runs within so many rows that follow each other, or are all of them each.
fn decode_runs(numbers: &[u32], row_count: u32) -> Option<Vec<Run>> {
    let (runs, []) = numbers.as_chunks() else { return None };
    let run = |[partition, start, end]: &[u32; 3]| Run { partition: *partition, start: *start, end: *end };
    let runs: Vec<Run> = runs.iter().map(run).collect();
    let mut end = 0;
    let follow = runs.iter().all(|run| {
        let follows = end <= run.start && run.start <= run.end && run.end <= row_count;
        end = run.end;
        follows
    });
    let is_whole = |run: &Run| (run.start, run.end) == (0, row_count);
    (follow || runs.iter().all(is_whole)).then_some(runs)
}

/// A part as values, of 8 bytes at most: it is aligned for them, as all parts are.
fn values<T: ArrowNativeType>(part: Buffer) -> Option<ScalarBuffer<T>> {
    let length = part.len() / size_of::<T>();
    part.len().is_multiple_of(size_of::<T>()).then(|| ScalarBuffer::new(part, 0, length))
}

/// What is not read yet of a message.
struct Rest(Buffer);

impl Rest {
    fn numbers<const N: usize>(&mut self) -> Option<[u64; N]> {
        let bytes = self.part((N * size_of::<u64>()) as u64)?;
        let mut numbers = [0; N];
        for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *number = u64::from_le_bytes(*bytes);
        }
        Some(numbers)
    }

    /// So many bytes, and behind them what fills them up.
    fn part(&mut self, length: u64) -> Option<Buffer> {
        let length = usize::try_from(length).ok().filter(|length| *length <= self.0.len())?;
        let whole = length + padding(length);
        let part = (whole <= self.0.len()).then(|| self.0.slice_with_length(0, length))?;
        self.0.advance(whole);
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::{Int8Type, Int32Type};
    use arrow_array::*;
    use arrow_schema::{Field, Schema};
    use proptest::prelude::*;
    use timely::bytes::arc::BytesMut;

    use super::*;

    /// The bytes that go to another process.
    fn message(parcels: &[Parcel]) -> Buffer {
        let bytes = encode(parcels).iter().flat_map(|piece| piece.to_vec()).collect::<Vec<u8>>();
        assert_eq!(bytes.len() % ALIGNMENT, 0, "so that the next message is aligned, too");
        Buffer::from(&bytes[..])
    }

    fn parcel(rows: RecordBatch) -> Parcel {
        let positions = (0..rows.num_rows() as u32).map(|row| 7 * row).collect();
        let batch = Batch { rows, positions, origins: ScalarBuffer::default() };
        Parcel::new(0, 0, PartitionedBatch { batch, runs: Vec::new() })
    }

    /// Everything that a parcel can have.
    fn full_parcel() -> Parcel {
        let rows = columns(3, &[0, 4, 6, 8], 1);
        let batch = Batch { rows, positions: vec![0, 2, 9].into(), origins: vec![1, 1, 3].into() };
        let runs = vec![Run { partition: 1, start: 0, end: 2 }, Run { partition: 4, start: 2, end: 3 }];
        let parcel = Parcel::new(1, 3, PartitionedBatch { batch, runs }).by(&Arc::new(SplitPlan::exptree(9)));
        Parcel { window: 2, held_bytes: 77, ..parcel }
    }

    fn assert_same(found: &Parcel, sent: &Parcel) {
        let header = |parcel: &Parcel| (parcel.target, parcel.chunk, parcel.window, parcel.held_bytes);
        assert_eq!(header(found), header(sent));
        assert_eq!(found.plan, sent.plan);
        assert_eq!(found.rows.runs, sent.rows.runs);
        assert_eq!(found.rows.batch.positions, sent.rows.batch.positions);
        assert_eq!(found.rows.batch.origins, sent.rows.batch.origins);
        assert_eq!(found.rows.batch.rows, sent.rows.batch.rows);
    }

    const KINDS: u64 = 16;

    /// A column of so many rows; one value in four is null, in the kinds that have any.
    fn column(rows: usize, kind: u64, seed: u64) -> ArrayRef {
        let number = move |row: usize| (row as u64 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let some = |row: usize| (!number(row).is_multiple_of(4)).then(|| number(row) as i32);
        let long =
            |row: usize| some(row).map(|n| format!("more than twelve bytes {}", "x".repeat(n as usize % 9)));
        let short = |row: usize| some(row).map(|n| format!("{}", n % 100));
        let list =
            |row: usize| some(row).map(|n| (0..n % 4).map(|n| (n != 2).then_some(n)).collect::<Vec<_>>());
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

    fn columns(rows: usize, kinds: &[u64], seed: u64) -> RecordBatch {
        let column =
            |(index, kind): (usize, &u64)| (format!("column {index}"), column(rows, *kind, seed), true);
        let columns: Vec<_> = kinds.iter().enumerate().map(column).collect();
        match columns.is_empty() {
            false => RecordBatch::try_from_iter_with_nullable(columns).unwrap(),
            true => {
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap()
            }
        }
    }

    proptest! {
        #[test]
        fn columns_of_all_types_survive_the_wire(
            kinds in proptest::collection::vec(0..KINDS, 0..6),
            rows in 0..100_usize,
            seed in 0..1000_u64,
            slice in (0.0..1.0, 0.0..1.0),
        ) {
            let start = (slice.0 * rows as f64) as usize;
            let length = (slice.1 * (rows - start) as f64) as usize;
            let whole = columns(rows, &kinds, seed);
            let parcels = [parcel(whole.slice(start, length)), parcel(whole)];
            let found = decode(message(&parcels)).unwrap();
            prop_assert_eq!(found.len(), 2);
            found.iter().zip(&parcels).for_each(|(found, sent)| assert_same(found, sent));
        }

        #[test]
        fn damaged_bytes_are_none_or_valid_rows(
            kind in 0..KINDS,
            damage in proptest::collection::vec((0.0..1.0, any::<u8>()), 1..4),
        ) {
            let bytes = message(&[full_parcel(), parcel(columns(5, &[kind], 3))]);
            let mut damaged = bytes.to_vec();
            for (place, byte) in damage {
                damaged[(place * bytes.len() as f64) as usize] = byte;
            }
            for parcel in decode(Buffer::from_vec(damaged)).into_iter().flatten() {
                let batch = &parcel.rows.batch;
                prop_assert_eq!(batch.rows.num_rows(), batch.positions.len());
                prop_assert!(parcel.rows.runs.iter().all(|run| run.end as usize <= batch.positions.len()));
                batch.rows.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
            }
        }
    }

    #[test]
    fn parcels_survive_the_wire() {
        let mut for_all = full_parcel();
        for_all.rows.runs = (3..7).map(|partition| Run { partition, start: 0, end: 3 }).collect();
        let sent = [full_parcel(), parcel(columns(0, &[6], 0)), for_all, full_parcel()];
        let found = decode(message(&sent)).unwrap();
        assert_eq!(found.len(), 4);
        found.iter().zip(&sent).for_each(|(found, sent)| assert_same(found, sent));
        assert!(decode(message(&[])).unwrap().is_empty());
    }

    #[test]
    fn what_is_said_about_fields_and_schemas_survives_the_wire() {
        let note = |text: &str| [("note".to_string(), text.to_string())].into();
        let rows = columns(3, &[2, 6, 1], 4);
        let [first, second, third] = [0, 1, 2].map(|index| rows.schema().field(index).clone());
        let long = Field::new("x".repeat(70_000), third.data_type().clone(), true);
        let noted = Schema::new(vec![first.clone().with_metadata(note("one")), second.clone(), long]);
        let schemas = [
            noted.clone(),
            noted.with_metadata(note("all")),
            Schema::new(vec![first, second, third]).with_metadata(note("other")),
        ];
        for schema in schemas {
            let sent = parcel(RecordBatch::try_new(Arc::new(schema), rows.columns().to_vec()).unwrap());
            assert_same(&decode(message(std::slice::from_ref(&sent))).unwrap()[0], &sent);
        }
        let none = RecordBatch::new_empty(Arc::new(Schema::empty().with_metadata(note("none"))));
        assert_same(&decode(message(&[parcel(none.clone())])).unwrap()[0], &parcel(none));
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_none() {
        let bytes = message(&[full_parcel(), full_parcel()]);
        for length in 0..bytes.len() {
            assert!(
                decode(bytes.slice_with_length(0, length)).is_none(),
                "{length} of {} bytes",
                bytes.len()
            );
        }
        assert!(decode(Buffer::from_vec([&bytes[..], &[0; 8]].concat())).is_none());
    }

    #[test]
    fn numbers_that_contradict_each_other_are_none() {
        let rejected = |change: fn(&mut Parcel)| {
            let mut parcel = full_parcel();
            change(&mut parcel);
            decode(message(&[parcel])).is_none()
        };
        assert!(!rejected(|_| ()));
        assert!(rejected(|parcel| parcel.rows.batch.positions = vec![0, 2].into()));
        assert!(rejected(|parcel| parcel.rows.batch.origins = vec![0, 2].into()));
        assert!(rejected(|parcel| parcel.rows.runs[1].end = 4));
        assert!(rejected(|parcel| parcel.rows.runs[1].start = 1));
        assert!(rejected(|parcel| parcel.rows.runs[0].start = 3));
        assert!(!rejected(|parcel| (parcel.rows.runs[0].end, parcel.rows.runs[1].start) = (3, 0)));
        assert!(rejected(|parcel| (parcel.rows.runs[0].end, parcel.rows.runs[1].start) = (3, 1)));
    }

    /// A message as it lies in the transport's memory, at an offset.
    fn arrived(message: &[u8], offset: usize) -> Bytes {
        let mut slab = memory(offset + message.len());
        slab[offset..].copy_from_slice(message);
        let mut slab = BytesMut::from(slab);
        slab.extract_to(offset);
        slab.freeze()
    }

    #[test]
    fn long_messages_stay_where_they_are_short_ones_do_not() {
        for (rows, is_shared) in [(100, false), (20_000, true)] {
            let sent = parcel(columns(rows, &[1, 2], 5));
            let arrived = arrived(&message(std::slice::from_ref(&sent)), 8);
            let memory = arrived.as_ptr_range();
            let found = decode(shared(arrived)).unwrap();
            assert_same(&found[0], &sent);
            let batch = &found[0].rows.batch;
            let columns = batch.rows.columns().iter().map(|column| column.to_data().buffers()[0].as_ptr());
            for place in columns.chain([batch.positions.inner().as_ptr()]) {
                assert_eq!(memory.contains(&place), is_shared, "{rows} rows");
            }
        }
    }

    #[test]
    fn columns_are_aligned_wherever_they_arrive() {
        let sent = parcel(columns(20_000, &[4, 3, 6], 5));
        for offset in [0, 8, 16, 24, 1, 4] {
            let found = decode(shared(arrived(&message(std::slice::from_ref(&sent)), offset))).unwrap();
            assert_same(&found[0], &sent);
        }
    }
}
