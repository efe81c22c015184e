//! How two processes of a run authenticate each other: the first bytes of every connection. The caller identifies
//! itself and proves it with a secret. The called process proves itself with a second secret, but only to a valid
//! caller.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_core::fields::{Fields, PutFields, TakeFields};

use super::secret::{SECRET_BYTES, Secret};

const MAGIC: &[u8; 8] = b"TIDEMILL";
/// The version of everything that processes say to each other. Other versions are refused.
const VERSION: u16 = 2;
const HELLO_BYTES: usize = 8 + 2 + 1 + 4 + 4 + 8 + SECRET_BYTES;
/// How often a process calls again after it was hung up on: someone who floods the other end may have displaced it.
const CALLS_MAX: u32 = 20;
/// How long each side may take for its part.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(2);
/// How long a caller waits for the answer. The other process may get no processor time for a while, and a connection
/// that only one of them has given up would be taken for lost.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// The most bytes of instructions.
pub(crate) const INSTRUCTIONS_BYTES_MAX: usize = 16 << 20;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionKind {
    /// Cuts, reports, snapshots and failures, between process 0 and another one.
    Control,
    /// Rows and progress, between any two.
    Data,
}

/// What the processes of one run have in common, and which of them this one is.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    pub generation: u64,
    pub index: usize,
    pub count: usize,
    /// What callers know.
    pub call: Secret,
    /// What called processes know.
    pub answer: Secret,
}

impl Credentials {
    fn hello(&self, kind: ConnectionKind, to: usize) -> [u8; HELLO_BYTES] {
        let mut bytes = Vec::with_capacity(HELLO_BYTES);
        bytes.put(MAGIC);
        bytes.put_u16(VERSION);
        bytes.put_u8(kind as u8);
        bytes.put_u32(self.index as u32);
        bytes.put_u32(to as u32);
        bytes.put_u64(self.generation);
        bytes.put(self.call.bytes());
        bytes.try_into().expect("the parts have the announced length")
    }

    /// The caller and its purpose, if it belongs to the run; `None` for anyone else.
    fn check(&self, hello: &[u8; HELLO_BYTES]) -> Option<(ConnectionKind, usize)> {
        let (claimed, mut rest) = (hello.last_chunk()?, Fields(&hello[MAGIC.len()..]));
        let is_known = self.call.is(claimed) && hello.starts_with(MAGIC);
        let is_version = rest.u16().ok()? == VERSION;
        let called_for = rest.u8().ok()?;
        let kind = [ConnectionKind::Control, ConnectionKind::Data]
            .into_iter()
            .find(|kind| *kind as u8 == called_for)?;
        let from = rest.u32().ok()? as usize;
        let is_to_me = rest.u32().ok()? as usize == self.index;
        let is_now = rest.u64().ok()? == self.generation;
        // Processes call those before them.
        let is_due =
            from > self.index && from < self.count && (kind == ConnectionKind::Data || self.index == 0);
        (is_known && is_version && is_to_me && is_now && is_due).then_some((kind, from))
    }

    /// The called side: identifies the caller. Strangers get no answer.
    pub fn read_hello(&self, stream: &mut TcpStream) -> io::Result<(ConnectionKind, usize)> {
        let mut hello = [0; HELLO_BYTES];
        read_in_time(stream, &mut hello, HANDSHAKE_TIME)?;
        self.check(&hello).ok_or_else(|| ErrorKind::PermissionDenied.into())
    }

    /// The called side: answers a known caller, which from then on relies on the connection.
    pub fn answer(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(HANDSHAKE_TIME))?;
        stream.write_all(self.answer.bytes())?;
        make_ready(stream)
    }

    /// The calling side: connects to a process of the run at this port.
    pub fn call(&self, kind: ConnectionKind, to: usize, port: u16) -> io::Result<TcpStream> {
        for _ in 1..CALLS_MAX {
            match self.call_once(kind, to, port) {
                Err(error)
                    if [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&error.kind()) =>
                {
                    std::thread::sleep(Duration::from_millis(20));
                }
                result => return result,
            }
        }
        self.call_once(kind, to, port)
    }

    /// A single attempt.
    pub fn call_once(&self, kind: ConnectionKind, to: usize, port: u16) -> io::Result<TcpStream> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, HANDSHAKE_TIME)?;
        stream.set_write_timeout(Some(HANDSHAKE_TIME))?;
        stream.write_all(&self.hello(kind, to))?;
        let mut answer = [0; SECRET_BYTES];
        read_in_time(&mut stream, &mut answer, ANSWER_TIME)?;
        if !self.answer.is(&answer) {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "another program is listening there"));
        }
        make_ready(&stream)?;
        Ok(stream)
    }
}

/// Reads everything within this time, however slowly it arrives.
fn read_in_time(stream: &mut TcpStream, mut bytes: &mut [u8], time: Duration) -> io::Result<()> {
    let deadline = Instant::now() + time;
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn make_ready(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    // Cycles are small and wait for each other.
    stream.set_nodelay(true)
}

/// What a process receives through the pipe that is its standard input.
pub(crate) struct Bootstrap {
    pub credentials: Credentials,
    /// Where process 0 listens.
    pub port: u16,
    /// What the program needs to know to make the plan.
    pub instructions: Arc<[u8]>,
}

/// The length of everything but the instructions, whose length comes last.
const BOOTSTRAP_BYTES: usize = 8 + 2 + 8 + 4 + 4 + 2 + 2 * SECRET_BYTES + 4;

impl Bootstrap {
    pub fn to_bytes(&self) -> Vec<u8> {
        let Bootstrap { credentials, port, instructions } = self;
        let mut bytes = Vec::with_capacity(BOOTSTRAP_BYTES + instructions.len());
        bytes.put(MAGIC);
        bytes.put_u16(VERSION);
        bytes.put_u64(credentials.generation);
        bytes.put_u32(credentials.index as u32);
        bytes.put_u32(credentials.count as u32);
        bytes.put_u16(*port);
        bytes.put(credentials.call.bytes());
        bytes.put(credentials.answer.bytes());
        bytes.put_u32(instructions.len() as u32);
        bytes.put(instructions);
        bytes
    }

    /// Reads the message; `None` if it is invalid, or has another version.
    pub fn read(reader: &mut impl Read) -> io::Result<Option<Bootstrap>> {
        let mut bytes = [0; BOOTSTRAP_BYTES];
        reader.read_exact(&mut bytes)?;
        let Some((bootstrap, length)) = Bootstrap::parse(&bytes) else { return Ok(None) };
        let mut instructions = vec![0; length];
        reader.read_exact(&mut instructions)?;
        Ok(Some(Bootstrap { instructions: instructions.into(), ..bootstrap }))
    }

    /// The message without its instructions, and their length.
    fn parse(bytes: &[u8; BOOTSTRAP_BYTES]) -> Option<(Bootstrap, usize)> {
        let mut fields = Fields(bytes.strip_prefix(MAGIC)?);
        if fields.u16().ok()? != VERSION {
            return None;
        }
        let (generation, index, count) = (fields.u64().ok()?, fields.u32().ok()?, fields.u32().ok()?);
        let port = fields.u16().ok()?;
        let (call, answer) = (fields.array().ok()?, fields.array().ok()?);
        let length = fields.u32().ok()? as usize;
        let credentials = Credentials {
            generation,
            index: index as usize,
            count: count as usize,
            call: Secret::from_bytes(call),
            answer: Secret::from_bytes(answer),
        };
        let bootstrap = Bootstrap { credentials, port, instructions: Arc::default() };
        (length <= INSTRUCTIONS_BYTES_MAX).then_some((bootstrap, length))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn credentials(index: usize) -> Credentials {
        let (call, answer) = (Secret::from_bytes([7; 32]), Secret::from_bytes([8; 32]));
        Credentials { generation: 3, index, count: 4, call, answer }
    }

    #[test]
    fn a_hello_is_accepted_only_as_it_is() {
        let hello = credentials(2).hello(ConnectionKind::Data, 1);
        assert_eq!(credentials(1).check(&hello), Some((ConnectionKind::Data, 2)));
        // Whatever byte is another one, the caller is a stranger: but for its index, where another one may call.
        for byte in 0..HELLO_BYTES {
            for change in [1, 0x80, 0xff] {
                let mut other = hello;
                other[byte] ^= change;
                let found = credentials(1).check(&other);
                assert!(
                    found.is_none() || (byte == 11 && found == Some((ConnectionKind::Data, 3))),
                    "byte {byte}"
                );
            }
        }
    }

    #[test]
    fn only_those_behind_call_and_control_goes_to_process_0() {
        assert_eq!(
            credentials(0).check(&credentials(3).hello(ConnectionKind::Control, 0)),
            Some((ConnectionKind::Control, 3))
        );
        assert_eq!(credentials(1).check(&credentials(3).hello(ConnectionKind::Control, 1)), None);
        assert_eq!(credentials(2).check(&credentials(1).hello(ConnectionKind::Data, 2)), None);
        assert_eq!(credentials(2).check(&credentials(2).hello(ConnectionKind::Data, 2)), None);
        assert_eq!(credentials(0).check(&credentials(4).hello(ConnectionKind::Data, 0)), None);
        let later = Credentials { generation: 4, ..credentials(0) };
        assert_eq!(later.check(&credentials(3).hello(ConnectionKind::Control, 0)), None);
    }

    #[test]
    fn letters_survive_the_pipe_and_others_are_none() {
        let bytes =
            Bootstrap { credentials: credentials(2), port: 4711, instructions: b"sums".as_slice().into() }
                .to_bytes();
        let bootstrap = Bootstrap::read(&mut bytes.as_slice()).unwrap().unwrap();
        assert_eq!(&*bootstrap.instructions, b"sums");
        assert_eq!((bootstrap.port, bootstrap.credentials.index, bootstrap.credentials.count), (4711, 2, 4));
        assert!(
            bootstrap.credentials.generation == 3
                && bootstrap.credentials.answer.is(&[8; 32])
                && bootstrap.credentials.call.is(&[7; 32])
        );
        for byte in 0..10 {
            let mut other = bytes.clone();
            other[byte] ^= 1;
            assert!(Bootstrap::read(&mut other.as_slice()).unwrap().is_none(), "byte {byte}");
        }
        assert!(Bootstrap::read(&mut &bytes[..50]).is_err());
        assert!(Bootstrap::read(&mut &bytes[..bytes.len() - 1]).is_err());
        let mut long = bytes;
        long[BOOTSTRAP_BYTES - 1] = 0x80;
        assert!(Bootstrap::read(&mut long.as_slice()).unwrap().is_none(), "no memory is taken for it");
    }
}
