//! The content of a connection: frames with Timely's bytes, and frames with one message from the bulk channel each. Messages
//! are written directly from their buffers, and read into their own memory.
//!
//! A frame consists of two little-endian 64-bit numbers, its length and the number of the message (0 for Timely's
//! bytes), followed by that many bytes.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::{Buffer, MutableBuffer};

use super::buffer_pool::BufferPool;
use crate::transport::bulk_channels::{BulkChannel, OutgoingMessage};

const HEADER_BYTES: usize = 16;
/// The number of frames with Timely's bytes.
const TIMELY: u64 = 0;
/// How much is read beyond what is needed: enough for a few short frames in one system call, and so little that copying
/// it does not matter.
const READ_AHEAD_BYTES: usize = 4096;

/// Writes the messages, then Timely's bytes, with as few system calls as possible.
pub(super) fn write(writer: &mut impl Write, messages: &[OutgoingMessage], bytes: &[u8]) -> io::Result<()> {
    let length = |message: &OutgoingMessage| message.pieces.iter().map(Buffer::len).sum();
    let headers = messages.iter().map(|message| header(length(message), message.number));
    let headers: Vec<_> = headers.chain([header(bytes.len(), TIMELY)]).collect();
    let mut slices = Vec::new();
    for (header, message) in headers.iter().zip(messages) {
        slices.push(IoSlice::new(header));
        slices.extend(message.pieces.iter().map(|piece| IoSlice::new(piece)));
    }
    slices.extend([IoSlice::new(&headers[messages.len()]), IoSlice::new(bytes)]);
    write_all(writer, &mut slices)
}

fn header(length: usize, number: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&(length as u64).to_le_bytes());
    header[8..].copy_from_slice(&number.to_le_bytes());
    header
}

fn write_all(writer: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    // The first one is a header, and those without bytes are skipped with what is before them.
    while !slices.is_empty() {
        // It takes as many of them as the system takes at once.
        match writer.write_vectored(slices) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Parses what arrives.
pub(super) struct FrameReader {
    ahead: ReadAhead,
    frame: Frame,
    pool: Arc<BufferPool>,
}

/// The frame that is being read.
enum Frame {
    Header { bytes: [u8; HEADER_BYTES], filled: usize },
    Timely { missing: usize },
    Message(Message),
}

struct Message {
    number: u64,
    length: usize,
    /// Memory for all of it, or for its beginning.
    memory: MutableBuffer,
    filled: usize,
}

impl FrameReader {
    pub fn new() -> FrameReader {
        let ahead = ReadAhead { bytes: Box::new([0; READ_AHEAD_BYTES]), unread: 0..0 };
        FrameReader { ahead, frame: Frame::next(), pool: Arc::default() }
    }

    /// Reads some of Timely's bytes, and puts the messages that precede them into the bulk channel. 0: the connection has
    /// ended, or there is no room.
    pub fn read(
        &mut self,
        reader: &mut impl Read,
        channel: &BulkChannel,
        room: &mut [u8],
    ) -> io::Result<usize> {
        loop {
            let target = match &mut self.frame {
                Frame::Header { bytes, filled } => &mut bytes[*filled..],
                Frame::Timely { missing } => {
                    let length = room.len().min(*missing);
                    &mut room[..length]
                }
                Frame::Message(message) => message.room(),
            };
            let read = self.ahead.read(reader, target)?;
            let is_timely = matches!(self.frame, Frame::Timely { .. });
            self.pass(read, channel);
            if is_timely || read == 0 {
                return Ok(read);
            }
        }
    }

    /// This many more bytes of the frame have arrived.
    fn pass(&mut self, read: usize, channel: &BulkChannel) {
        match &mut self.frame {
            Frame::Header { bytes, filled } => {
                *filled += read;
                if *filled == HEADER_BYTES {
                    self.frame = Frame::behind(bytes, &self.pool);
                }
            }
            Frame::Timely { missing } => {
                *missing -= read;
                if *missing == 0 {
                    self.frame = Frame::next();
                }
            }
            Frame::Message(message) => {
                message.filled += read;
                if message.filled == message.length
                    && let Frame::Message(message) = std::mem::replace(&mut self.frame, Frame::next())
                {
                    channel.deliver(message.number, self.pool.share(message.memory, message.length));
                }
            }
        }
    }
}

impl Frame {
    fn next() -> Frame {
        Frame::Header { bytes: [0; HEADER_BYTES], filled: 0 }
    }

    /// The frame that a header announces.
    fn behind(header: &[u8; HEADER_BYTES], pool: &BufferPool) -> Frame {
        let [length, number] = [0, 8].map(|place| {
            u64::from_le_bytes(header[place..place + 8].try_into().expect("these are eight bytes"))
        });
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        match (number, length) {
            // Without bytes, there is nothing behind the header.
            (_, 0) => Frame::next(),
            (TIMELY, missing) => Frame::Timely { missing },
            _ => Frame::Message(Message { number, length, memory: pool.take(length), filled: 0 }),
        }
    }
}

impl Message {
    /// Where its next bytes go.
    fn room(&mut self) -> &mut [u8] {
        if self.filled == self.memory.len() {
            self.memory.resize(self.length.min(2 * self.filled), 0);
        }
        let end = self.length.min(self.memory.len());
        &mut self.memory[self.filled..end]
    }
}

/// Bytes that were read but are not needed yet.
struct ReadAhead {
    bytes: Box<[u8; READ_AHEAD_BYTES]>,
    unread: Range<usize>,
}

impl ReadAhead {
    /// Fills the target in part, and stores the rest of what the system returned here.
    fn read(&mut self, reader: &mut impl Read, target: &mut [u8]) -> io::Result<usize> {
        if self.unread.is_empty() {
            let wanted = target.len();
            let slices = &mut [IoSliceMut::new(target), IoSliceMut::new(&mut self.bytes[..])];
            let read = reader.read_vectored(slices)?;
            self.unread = 0..read.saturating_sub(wanted);
            return Ok(read.min(wanted));
        }
        let length = self.unread.len().min(target.len());
        let start = self.unread.start;
        target[..length].copy_from_slice(&self.bytes[start..start + length]);
        self.unread.start += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::super::buffer_pool::BYTES_AT_ONCE;
    use super::*;
    use crate::topology::Layout;
    use crate::transport::bulk_channels::{BulkChannels, BulkTicket};
    use crate::transport::parcel::Parcel;
    use crate::transport::wire;
    use crate::transport::wire::samples::{KINDS, assert_same, columns, full_parcel, parcel};

    /// Bytes that come and go in pieces as a system gives and takes them, now and then interrupted.
    struct Pieces {
        bytes: Vec<u8>,
        place: usize,
        steps: Vec<usize>,
        calls: usize,
    }

    impl Pieces {
        fn new(bytes: Vec<u8>, steps: &[usize]) -> Pieces {
            Pieces { bytes, place: 0, steps: steps.to_vec(), calls: 0 }
        }

        fn step(&mut self) -> io::Result<usize> {
            self.calls += 1;
            match self.steps[self.calls % self.steps.len()] {
                0 => Err(ErrorKind::Interrupted.into()),
                step => Ok(step),
            }
        }
    }

    impl Write for Pieces {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            unreachable!("all is written at once")
        }
        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            let length = self.step()?.min(all.len());
            self.bytes.extend_from_slice(&all[..length]);
            Ok(length)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Pieces {
        fn read(&mut self, _target: &mut [u8]) -> io::Result<usize> {
            unreachable!("it reads ahead")
        }
        fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            let mut left = self.step()?.min(self.bytes.len() - self.place);
            let start = self.place;
            for slice in slices {
                let length = left.min(slice.len());
                slice[..length].copy_from_slice(&self.bytes[self.place..self.place + length]);
                self.place += length;
                left -= length;
            }
            Ok(self.place - start)
        }
    }

    fn bulk() -> BulkChannels {
        BulkChannels::new(Layout { workers: 1, processes: 2, process: 1 })
    }

    fn departure(number: u64, pieces: &[&[u8]]) -> OutgoingMessage {
        OutgoingMessage { number, pieces: pieces.iter().map(|piece| Buffer::from(*piece)).collect() }
    }

    /// Two writes; the second one is of bytes alone.
    fn written(steps: &[usize]) -> Vec<u8> {
        let mut pieces = Pieces::new(Vec::new(), steps);
        let messages = [departure(1, &[b"one", b"", b" two"]), departure(2, &[&[7; 100]])];
        write(&mut pieces, &messages, b"notes").unwrap();
        write(&mut pieces, &[], b"more").unwrap();
        pieces.bytes
    }

    /// All of Timely's bytes, read into so much room at a time.
    fn read_all(reader: &mut impl Read, room: usize, channel: &BulkChannel) -> Vec<u8> {
        let (mut arriving, mut found, mut room) = (FrameReader::new(), Vec::new(), vec![0; room]);
        loop {
            match arriving.read(reader, channel, &mut room) {
                Ok(0) => return found,
                Ok(length) => found.extend_from_slice(&room[..length]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
            }
        }
    }

    fn message(bulk: &BulkChannels, number: u64) -> Option<Buffer> {
        bulk.take(BulkTicket { process: 0, number })
    }

    #[test]
    fn frames_are_the_same_however_the_system_takes_them() {
        let whole = written(&[usize::MAX]);
        assert_eq!(whole.len(), 4 * HEADER_BYTES + 7 + 100 + 5 + 4);
        assert_eq!(whole[..16], [7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        for step in 1..whole.len() {
            assert_eq!(written(&[step]), whole);
        }
        assert_eq!(written(&[3, 0, 0, 17, 1]), whole);
        let mut full: &mut [u8] = &mut [0; 10];
        assert_eq!(write(&mut full, &[], b"bytes").unwrap_err().kind(), ErrorKind::WriteZero);
    }

    #[test]
    fn one_call_writes_all_and_one_reads_what_is_short() {
        let mut pieces = Pieces::new(Vec::new(), &[usize::MAX]);
        write(&mut pieces, &[departure(1, &[b"one", b"two"]), departure(2, &[b"three"])], b"notes").unwrap();
        assert_eq!(pieces.calls, 1);
        pieces.calls = 0;
        let mut room = [0; 100];
        assert_eq!(FrameReader::new().read(&mut pieces, bulk().of(0), &mut room).unwrap(), 5);
        assert_eq!((pieces.calls, &room[..5]), (1, &b"notes"[..]));
    }

    #[test]
    fn what_is_cut_off_arrives_up_to_there() {
        let whole = written(&[usize::MAX]);
        let ends = [HEADER_BYTES + 7, 2 * HEADER_BYTES + 107];
        for cut in 0..=whole.len() {
            for step in [1, 5, 1000] {
                for room in [1, 3, 1000] {
                    let bulk = bulk();
                    let mut pieces = Pieces::new(whole[..cut].to_vec(), &[step, 0, step]);
                    let bytes = read_all(&mut pieces, room, bulk.of(0));
                    let expected = (cut.saturating_sub(ends[1] + HEADER_BYTES)).min(5)
                        + cut.saturating_sub(ends[1] + HEADER_BYTES + 5 + HEADER_BYTES);
                    assert_eq!(bytes, b"notesmore"[..expected], "cut at {cut}");
                    assert_eq!(message(&bulk, 1).as_deref(), (cut >= ends[0]).then_some(&b"one two"[..]));
                    assert_eq!(message(&bulk, 2).as_deref(), (cut >= ends[1]).then_some(&[7; 100][..]));
                }
            }
        }
    }

    /// A message that is longer than what is believed at once.
    #[test]
    fn the_longest_messages_arrive_whole() {
        let bytes: Vec<u8> = (0..2 * BYTES_AT_ONCE + 12_345).map(|place| (place / 1000) as u8).collect();
        let mut whole = Vec::new();
        write(&mut whole, &[departure(1, &[&bytes])], b"note").unwrap();
        let bulk = bulk();
        assert_eq!(read_all(&mut &whole[..], 100, bulk.of(0)), b"note");
        assert!(message(&bulk, 1).unwrap() == Buffer::from(bytes));
    }

    #[test]
    fn a_length_is_not_believed_before_the_bytes_are_here() {
        for length in [u64::MAX, 1 << 45, 1 << 32] {
            let mut bytes = [length.to_le_bytes(), 5_u64.to_le_bytes()].concat();
            bytes.resize(BYTES_AT_ONCE + HEADER_BYTES + 1, 0);
            let (mut arriving, bulk) = (FrameReader::new(), bulk());
            assert_eq!(arriving.read(&mut &bytes[..], bulk.of(0), &mut [0; 9]).unwrap(), 0);
            let Frame::Message(message) = &arriving.frame else { panic!("no message") };
            assert_eq!((message.filled, message.memory.len()), (BYTES_AT_ONCE + 1, 2 * BYTES_AT_ONCE));
        }
        let empty = header(0, 3);
        assert_eq!(read_all(&mut &[empty, empty].concat()[..], 9, bulk().of(0)), b"");
    }

    #[test]
    fn more_pieces_than_the_system_takes_at_once_go_over_a_socket() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let pieces: Vec<Vec<u8>> = (0..5000).map(|piece| vec![piece as u8; piece % 700]).collect();
        let whole = pieces.concat();
        let writer = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            write(&mut stream, &[departure(1, &pieces), departure(2, &pieces)], b"notes").unwrap();
        });
        let bulk = bulk();
        let mut stream = listener.accept().unwrap().0;
        assert_eq!(read_all(&mut stream, 1 << 20, bulk.of(0)), b"notes");
        writer.join().unwrap();
        for number in [1, 2] {
            assert!(message(&bulk, number).unwrap() == Buffer::from(&whole[..]));
        }
    }

    proptest! {
        #[test]
        fn parcels_of_all_types_arrive_before_the_bytes_behind_them(
            kinds in proptest::collection::vec(proptest::collection::vec(0..KINDS, 0..4), 1..4),
            rows in 0..100_usize,
            written in proptest::collection::vec(1..9000_usize, 1..4),
            read in proptest::collection::vec(0..9000_usize, 1..4),
            room in 1..5000_usize,
        ) {
            prop_assume!(read.iter().any(|step| *step > 0));
            let sent: Vec<Parcel> = kinds.iter().map(|kinds| parcel(columns(rows, kinds, 3))).collect();
            let mut pieces = Pieces::new(Vec::new(), &written);
            let mut behind = Vec::new();
            for (number, sent) in (1..).zip([&sent[..], &[full_parcel()]].concat()) {
                let message = OutgoingMessage { number, pieces: wire::encode(&[sent]) };
                let bytes = vec![number as u8; 1 + 97 * rows];
                write(&mut pieces, &[message], &bytes).unwrap();
                behind.push(bytes);
            }
            (pieces.steps, pieces.calls) = (read, 0);
            let (bulk, mut arriving, mut room) = (bulk(), FrameReader::new(), vec![0; room]);
            let mut found = Vec::new();
            for (number, sent) in (1..).zip([&sent[..], &[full_parcel()]].concat()) {
                while !found.contains(&(number as u8)) {
                    match arriving.read(&mut pieces, bulk.of(0), &mut room) {
                        Ok(0) => panic!("it ends too early"),
                        Ok(length) => found.extend_from_slice(&room[..length]),
                        Err(_) => {}
                    }
                }
                let message = message(&bulk, number).expect("it is here before the bytes behind it");
                assert_same(&wire::decode(message).unwrap()[0], &sent);
            }
            let rest = loop {
                match arriving.read(&mut pieces, bulk.of(0), &mut room) {
                    Ok(0) => break found,
                    Ok(length) => found.extend_from_slice(&room[..length]),
                    Err(_) => {}
                }
            };
            prop_assert_eq!(rest, behind.concat());
        }
    }
}
