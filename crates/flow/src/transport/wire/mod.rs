//! Parcels as bytes, between processes. Nothing of a parcel is copied to make a message of it, or to read one.
//!
//! A message is the number of its parcels, and the parcels. A parcel is eight numbers:
//!
//! ```text
//! target, chunk, window, held bytes, whether rows are shared (0 or 1),
//! the lengths in bytes of: plan, runs, numbers of preceding shared rows
//! ```
//!
//! followed by these three parts, the batch of its partitions' own rows, and that of the shared rows if there are any. A
//! batch is five numbers:
//!
//! ```text
//! rows, the lengths in bytes of: positions, origins, fields, other columns
//! ```
//!
//! followed by these four parts and the buffers of its plain columns. These numbers have 64 bits; each part and each
//! buffer is padded with zeros to a multiple of 8 bytes. The plan is as [`SplitPlan`] writes it, empty if there is
//! none; a run is partition, start, end; these, positions and origins are 32-bit numbers. For columns see [`columns`].
//! All numbers are little-endian.
//!
//! So everything keeps its form in memory: in a long message a column's buffer goes directly to the socket, and stays
//! where it has arrived.
//!
//! A ticket that announces a message on a channel ([`bulk`](crate::transport::bulk_channels)) has three numbers: the largest 64-bit
//! number, process, number.

mod columns;
#[cfg(test)]
pub(crate) mod samples;

use std::sync::Arc;

use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use tidemill_core::{Batch, PartitionedBatch, Run, SharedRows};
use tidemill_split::SplitPlan;

use crate::transport::bulk_channels::BulkTicket;
use crate::transport::parcel::Parcel;

/// The alignment of the parts of a message. The message itself is aligned too, like everything that Timely sends.
const ALIGNMENT: usize = 8;
/// Takes the place of the number of parcels in other messages.
const NOTE: u64 = u64::MAX;

// The parts of a message are numbers as they lie in memory.
const _: () = assert!(cfg!(target_endian = "little"));

/// The message for these parcels, in consecutive pieces. The buffers of columns are not copied.
pub(crate) fn encode(parcels: &[Parcel]) -> Vec<Buffer> {
    let mut pieces = vec![numbers([parcels.len() as u64])];
    parcels.iter().for_each(|parcel| encode_parcel(parcel, &mut pieces));
    pieces
}

fn encode_parcel(parcel: &Parcel, pieces: &mut Vec<Buffer>) {
    let PartitionedBatch { batch, runs, shared } = &parcel.rows;
    let runs = runs.iter().flat_map(|run| [run.partition, run.start, run.end]);
    let parts = [
        Buffer::from_vec(parcel.plan.as_ref().map(|plan| plan.to_bytes()).unwrap_or_default()),
        Buffer::from_vec(runs.collect::<Vec<u32>>()),
        shared.as_ref().map_or_else(|| Buffer::from(&[]), |shared| shared.preceding.inner().clone()),
    ];
    let [plan, runs, preceding] = parts.each_ref().map(|part| part.len() as u64);
    pieces.push(numbers([
        parcel.target.into(),
        parcel.chunk.into(),
        parcel.window.into(),
        parcel.held_bytes,
        shared.is_some().into(),
        plan,
        runs,
        preceding,
    ]));
    parts.into_iter().for_each(|part| push(part, pieces));
    encode_batch(batch, pieces);
    shared.iter().for_each(|shared| encode_batch(&shared.batch, pieces));
}

fn encode_batch(batch: &Batch, pieces: &mut Vec<Buffer>) {
    let Batch { rows, positions, origins } = batch;
    let columns = columns::encode(rows);
    let parts = [positions.inner().clone(), origins.inner().clone(), columns.fields];
    let others: usize = columns.others.iter().map(Buffer::len).sum();
    let [positions, origins, fields] = parts.each_ref().map(|part| part.len() as u64);
    pieces.push(numbers([rows.num_rows() as u64, positions, origins, fields, others as u64]));
    parts.into_iter().for_each(|part| push(part, pieces));
    pieces.extend(columns.others);
    fill_up(others, pieces);
    columns.plain.into_iter().for_each(|buffer| push(buffer, pieces));
}

fn numbers<const N: usize>(numbers: [u64; N]) -> Buffer {
    Buffer::from_vec(numbers.to_vec())
}

/// `None`: the number does not match.
fn numbers_of<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (numbers, []) = bytes.as_chunks() else { return None };
    let numbers: &[[u8; 8]; N] = numbers.try_into().ok()?;
    Some(numbers.map(u64::from_le_bytes))
}

fn push(piece: Buffer, pieces: &mut Vec<Buffer>) {
    let length = piece.len();
    pieces.push(piece);
    fill_up(length, pieces);
}

/// After this many bytes.
fn fill_up(length: usize, pieces: &mut Vec<Buffer>) {
    if padding(length) > 0 {
        pieces.push(Buffer::from(&[0; ALIGNMENT][..padding(length)]));
    }
}

/// The padding to a multiple of the alignment.
fn padding(length: usize) -> usize {
    length.wrapping_neg() % ALIGNMENT
}

/// Announces that a parcel comes over its bulk channel.
pub(crate) fn encode_ticket(ticket: BulkTicket) -> Vec<Buffer> {
    vec![numbers([NOTE, ticket.process.into(), ticket.number])]
}

/// `None`: these bytes are not a ticket.
pub(crate) fn decode_ticket(bytes: &[u8]) -> Option<BulkTicket> {
    let numbers: [u64; 3] = numbers_of(bytes)?;
    let [NOTE, process, number] = numbers else { return None };
    Some(BulkTicket { process: u32::try_from(process).ok()?, number })
}

/// The parcels of a message, which is aligned; they share its memory. `None`: the bytes are not from us, or are
/// damaged.
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
    let [target, chunk, window, held_bytes, is_shared, lengths @ ..] = rest.numbers::<8>()?;
    let (target, chunk, window) = (small(target)?, small(chunk)?, small(window)?);
    let [plan, runs, preceding] = lengths;
    let plan = match rest.part(plan)? {
        none if none.is_empty() => None,
        plan => Some(Arc::new(SplitPlan::from_bytes(&plan).ok()?)),
    };
    let (runs, preceding) = (values(rest.part(runs)?)?, values(rest.part(preceding)?)?);
    let batch = decode_batch(rest)?;
    let runs = decode_runs(&runs, batch.len() as u32)?;
    let shared = match is_shared {
        0 => None,
        1 => Some(SharedRows { batch: decode_batch(rest)?, preceding }),
        _ => return None,
    };
    let rows = PartitionedBatch { batch, runs, shared };
    is_mergeable(&rows).then_some(Parcel { target, chunk, window, plan, placement: None, held_bytes, rows })
}

/// Whether each own row says how many of the shared rows come before it, ascending in each run.
fn is_mergeable(rows: &PartitionedBatch) -> bool {
    let Some(SharedRows { batch, preceding }) = &rows.shared else { return true };
    let is_ascending = |run: &Run| preceding[run.start as usize..run.end as usize].is_sorted();
    preceding.len() == rows.batch.len()
        && preceding.iter().all(|rows| *rows as usize <= batch.len())
        && rows.runs.iter().all(is_ascending)
}

fn decode_batch(rest: &mut Rest) -> Option<Batch> {
    let [row_count, positions, origins, fields, others] = rest.numbers()?;
    let row_count = small(row_count)?;
    let (positions, origins) = (values(rest.part(positions)?)?, values(rest.part(origins)?)?);
    let (fields, others) = (rest.part(fields)?, rest.part(others)?);
    let rows = columns::decode(&fields, others, row_count as usize, rest)?;
    let origin_count = if origins.is_empty() { positions.len() } else { origins.len() };
    let counts = [rows.num_rows(), positions.len(), origin_count];
    (counts == [row_count as usize; 3]).then_some(Batch { rows, positions, origins })
}

fn small(number: u64) -> Option<u32> {
    u32::try_from(number).ok()
}

/// Runs within this many rows, which either are consecutive or each cover all rows.
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

/// A part as values of at most 8 bytes: like all parts, it is aligned for them.
fn values<T: ArrowNativeType>(part: Buffer) -> Option<ScalarBuffer<T>> {
    let length = part.len() / size_of::<T>();
    part.len().is_multiple_of(size_of::<T>()).then(|| ScalarBuffer::new(part, 0, length))
}

/// The unread rest of a message.
struct Rest(Buffer);

impl Rest {
    fn numbers<const N: usize>(&mut self) -> Option<[u64; N]> {
        numbers_of(&self.part((N * size_of::<u64>()) as u64)?)
    }

    /// This many bytes, followed by their padding.
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
    use arrow_array::RecordBatch;
    use arrow_schema::{Field, Schema};
    use proptest::prelude::*;

    use super::samples::{KINDS, assert_same, columns, full_parcel, message, parcel, shared_parcel};
    use super::*;

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
            let bytes = message(&[full_parcel(), parcel(columns(5, &[kind], 3)), shared_parcel()]);
            let mut damaged = bytes.to_vec();
            for (place, byte) in damage {
                damaged[(place * bytes.len() as f64) as usize] = byte;
            }
            for parcel in decode(Buffer::from_vec(damaged)).into_iter().flatten() {
                let batch = &parcel.rows.batch;
                prop_assert_eq!(batch.rows.num_rows(), batch.positions.len());
                prop_assert!(parcel.rows.runs.iter().all(|run| run.end as usize <= batch.positions.len()));
                for run in &parcel.rows.runs {
                    let merged = parcel.rows.merged(run.start as usize, run.end as usize);
                    let own = (run.end - run.start) as usize;
                    let rows = own + parcel.rows.shared_rows();
                    prop_assert!(merged.is_none_or(|merged| merged.positions().len() == rows));
                }
                batch.rows.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
            }
        }
    }

    #[test]
    fn parcels_survive_the_wire() {
        let mut for_all = full_parcel();
        for_all.rows.runs = (3..7).map(|partition| Run { partition, start: 0, end: 3 }).collect();
        let sent = [full_parcel(), shared_parcel(), for_all, parcel(columns(0, &[6], 0))];
        let found = decode(message(&sent)).unwrap();
        assert_eq!(found.len(), 4);
        found.iter().zip(&sent).for_each(|(found, sent)| assert_same(found, sent));
        assert!(decode(message(&[])).unwrap().is_empty());
    }

    #[test]
    fn what_is_said_about_fields_and_schemas_survives_the_wire() {
        let ticket = |text: &str| [("note".to_string(), text.to_string())].into();
        let rows = columns(3, &[2, 6, 1], 4);
        let [first, second, third] = [0, 1, 2].map(|index| rows.schema().field(index).clone());
        let long = Field::new("x".repeat(70_000), third.data_type().clone(), true);
        let ticketed = Schema::new(vec![first.clone().with_metadata(ticket("one")), second.clone(), long]);
        let schemas = [
            ticketed.clone(),
            ticketed.with_metadata(ticket("all")),
            Schema::new(vec![first, second, third]).with_metadata(ticket("other")),
        ];
        for schema in schemas {
            let sent = parcel(RecordBatch::try_new(Arc::new(schema), rows.columns().to_vec()).unwrap());
            assert_same(&decode(message(std::slice::from_ref(&sent))).unwrap()[0], &sent);
        }
        let none = RecordBatch::new_empty(Arc::new(Schema::empty().with_metadata(ticket("none"))));
        assert_same(&decode(message(&[parcel(none.clone())])).unwrap()[0], &parcel(none));
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_none() {
        let bytes = message(&[full_parcel(), shared_parcel()]);
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
        let rejected = |preceding: &[u32]| {
            let mut parcel = shared_parcel();
            parcel.rows.shared.as_mut().unwrap().preceding = preceding.to_vec().into();
            decode(message(&[parcel])).is_none()
        };
        // Rows 0 and 1 are of one partition, row 2 of another.
        assert!(!rejected(&[0, 2, 1]) && rejected(&[2, 0, 1]), "ascending in each partition");
        assert!(rejected(&[0, 1, 3]) && rejected(&[0, 1]), "as many as there are");
    }

    #[test]
    fn columns_are_aligned_wherever_they_arrive() {
        let sent = parcel(columns(20_000, &[4, 3, 6], 5));
        let bytes = message(std::slice::from_ref(&sent));
        for offset in [0, 8, 16, 24] {
            let arrived = Buffer::from_vec([&vec![0; offset], &bytes[..]].concat()).slice(offset);
            assert_same(&decode(arrived).unwrap()[0], &sent);
        }
    }

    #[test]
    fn a_parcel_stays_where_it_has_arrived() {
        let sent = parcel(columns(100, &[1, 2], 5));
        let arrived = message(std::slice::from_ref(&sent));
        let memory = arrived.as_ptr_range();
        let found = decode(arrived).unwrap();
        let batch = &found[0].rows.batch;
        let columns = batch.rows.columns().iter().map(|column| column.to_data().buffers()[0].as_ptr());
        assert!(columns.chain([batch.positions.inner().as_ptr()]).all(|place| memory.contains(&place)));
    }

    #[test]
    fn a_note_is_not_taken_for_parcels_nor_parcels_for_one() {
        let ticket = BulkTicket { process: 63, number: 1 << 40 };
        let bytes: Vec<u8> = encode_ticket(ticket).iter().flat_map(|piece| piece.to_vec()).collect();
        assert_eq!(decode_ticket(&bytes), Some(ticket));
        assert!(decode(Buffer::from(&bytes[..])).is_none());
        for length in 0..bytes.len() {
            assert!(decode_ticket(&bytes[..length]).is_none());
        }
        assert!(decode_ticket(&[&bytes[..], &[0; 8]].concat()).is_none());
        assert!(
            decode_ticket(&message(&[])).is_none() && decode_ticket(&message(&[full_parcel()])).is_none()
        );
        assert!(decode_ticket(&[&bytes[..8], &[0xff; 16]].concat()).is_none(), "there is no such process");
    }
}
