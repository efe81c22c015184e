//! Where the processes of a run call a process while the run starts. Strangers and silent or slow callers are turned
//! away, and delay no one.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use tidemill_core::error::Cause;

use super::handshake::{ConnectionKind, Credentials};

/// The most callers that are heard at once. A further one displaces the oldest: processes of the run identify
/// themselves at once.
const CALLERS_MAX: usize = 32;
const POLL: Duration = Duration::from_millis(1);

type Handshake = (u64, io::Result<(ConnectionKind, usize, TcpStream)>);

/// A caller that has not identified itself yet.
struct Caller {
    number: u64,
    stream: TcpStream,
    /// Whether it is decided that the caller is known, or that it is turned away; the first decision counts.
    settled: Arc<AtomicBool>,
}

/// A listener on its own port, only on this machine. Closed when dropped.
pub(crate) struct Acceptor {
    listener: TcpListener,
    credentials: Credentials,
    callers: VecDeque<Caller>,
    next_caller: u64,
    sender: Sender<Handshake>,
    handshakes: Receiver<Handshake>,
}

impl Acceptor {
    pub fn open(credentials: Credentials) -> io::Result<Acceptor> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let (sender, handshakes) = unbounded();
        Ok(Acceptor { listener, credentials, callers: VecDeque::new(), next_caller: 0, sender, handshakes })
    }

    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Waits for a call of each of these processes; returns their connections in this order. `check` is called
    /// repeatedly to ask whether to continue.
    pub fn receive(
        &mut self,
        kind: ConnectionKind,
        expected: &[usize],
        deadline: Instant,
        check: &dyn Fn() -> Result<(), (usize, Cause)>,
    ) -> Result<Vec<TcpStream>, (usize, Cause)> {
        let mut streams: Vec<Option<TcpStream>> = expected.iter().map(|_| None).collect();
        while let Some(missing) = streams.iter().position(Option::is_none) {
            check()?;
            if Instant::now() > deadline {
                let cause = Cause::operation("it did not join in time; is it still planning?");
                return Err((expected[missing], cause));
            }
            self.accept_all().map_err(|error| (self.credentials.index, error.into()))?;
            if let Ok((caller, handshake)) = self.handshakes.recv_timeout(POLL) {
                self.callers.retain(|other| other.number != caller);
                let Ok((found, from, stream)) = handshake else { continue };
                let place = expected.iter().position(|process| *process == from && found == kind);
                // A second call is as wrong as an unexpected caller: the first call counts.
                if let Some(empty @ None) = place.map(|place| &mut streams[place]) {
                    *empty = Some(stream);
                }
            }
        }
        Ok(streams.into_iter().flatten().collect())
    }

    fn accept_all(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.listen_to(stream)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn listen_to(&mut self, mut stream: TcpStream) -> io::Result<()> {
        while self.callers.len() >= CALLERS_MAX && !self.turn_oldest_away() {}
        stream.set_nonblocking(false)?;
        let (number, settled) = (self.next_caller, Arc::new(AtomicBool::new(false)));
        self.next_caller += 1;
        let caller = Caller { number, stream: stream.try_clone()?, settled: Arc::clone(&settled) };
        self.callers.push_back(caller);
        let (credentials, sender) = (self.credentials.clone(), self.sender.clone());
        let listen = move || {
            let known = welcome(&credentials, &mut stream, &settled).map(|(kind, from)| (kind, from, stream));
            let _ = sender.send((number, known));
        };
        std::thread::Builder::new().name("handshake".into()).spawn(listen).map(drop)
    }

    /// Removes the oldest caller; true if it was turned away, and was not known already.
    fn turn_oldest_away(&mut self) -> bool {
        let Some(Caller { stream, settled, .. }) = self.callers.pop_front() else { return true };
        let is_turned_away = !settled.swap(true, Ordering::SeqCst);
        if is_turned_away {
            let _ = stream.shutdown(Shutdown::Both);
        }
        is_turned_away
    }
}

/// Identifies the caller and answers, unless the caller has been turned away meanwhile.
fn welcome(
    credentials: &Credentials,
    stream: &mut TcpStream,
    settled: &AtomicBool,
) -> io::Result<(ConnectionKind, usize)> {
    let caller = credentials.read_hello(stream)?;
    if settled.swap(true, Ordering::SeqCst) {
        return Err(ErrorKind::ConnectionReset.into());
    }
    credentials.answer(stream)?;
    Ok(caller)
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        // Their threads end with them.
        for caller in &self.callers {
            let _ = caller.stream.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::super::handshake::tests::credentials;
    use super::super::secret::Secret;
    use tidemill_core::error::Fault;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn closed_without_a_word(stream: &mut TcpStream) -> bool {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        match stream.read(&mut [0; 64]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    #[test]
    fn those_of_the_run_come_in_whatever_strangers_do() {
        let mut acceptor = Acceptor::open(credentials(0)).unwrap();
        let port = acceptor.port().unwrap();
        let address = (Ipv4Addr::LOCALHOST, port);
        // More silent ones than are listened to, and one that sends other things.
        let mut silent: Vec<_> = (0..CALLERS_MAX + 8).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut loud = TcpStream::connect(address).unwrap();
        loud.write_all(&[b'x'; 4096]).unwrap();
        let strangers = std::thread::spawn(move || {
            let wrong_secret = Credentials { call: Secret::from_bytes([1; 32]), ..credentials(1) };
            let wrong_generation = Credentials { generation: 2, ..credentials(1) };
            let wrong_index = credentials(4);
            for stranger in [wrong_secret, wrong_generation, wrong_index] {
                assert!(stranger.call_once(ConnectionKind::Control, 0, port).is_err());
            }
            assert!(
                credentials(2).call_once(ConnectionKind::Control, 1, port).is_err(),
                "it wants another one"
            );
            [1, 2, 3].map(|index| credentials(index).call(ConnectionKind::Control, 0, port).unwrap())
        });
        let mut streams = acceptor.receive(ConnectionKind::Control, &[1, 2, 3], soon(), &|| Ok(())).unwrap();
        let mut members = strangers.join().unwrap();
        for (index, (here, there)) in streams.iter_mut().zip(&mut members).enumerate() {
            there.write_all(&[index as u8]).unwrap();
            let mut byte = [9];
            here.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [index as u8]);
        }
        drop(acceptor);
        assert!(closed_without_a_word(&mut loud));
        assert!(silent.iter_mut().all(closed_without_a_word));
    }

    #[test]
    fn a_flood_of_strangers_keeps_no_one_out() {
        let mut acceptor = Acceptor::open(credentials(0)).unwrap();
        let port = acceptor.port().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let flooding = Arc::clone(&over);
        let flood = std::thread::spawn(move || {
            let mut silent = VecDeque::new();
            while !flooding.load(Ordering::SeqCst) {
                silent.extend(TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
                if silent.len() > 100 {
                    silent.pop_front();
                }
            }
        });
        let callers = std::thread::spawn(move || {
            [1, 2, 3].map(|index| credentials(index).call(ConnectionKind::Control, 0, port).unwrap())
        });
        let streams = acceptor.receive(ConnectionKind::Control, &[1, 2, 3], soon(), &|| Ok(())).unwrap();
        over.store(true, Ordering::SeqCst);
        assert_eq!(streams.len(), 3);
        callers.join().unwrap();
        flood.join().unwrap();
    }

    #[test]
    fn all_of_a_large_run_come_in_at_once() {
        let of_many = |index| Credentials { count: 64, ..credentials(index) };
        for _ in 0..5 {
            let mut acceptor = Acceptor::open(of_many(0)).unwrap();
            let port = acceptor.port().unwrap();
            let call = move |index| {
                let mut stream = of_many(index).call(ConnectionKind::Control, 0, port).unwrap();
                stream.write_all(&[index as u8]).unwrap();
                stream
            };
            let callers: Vec<_> = (1..64).map(|index| std::thread::spawn(move || call(index))).collect();
            let expected: Vec<usize> = (1..64).collect();
            let streams = acceptor.receive(ConnectionKind::Control, &expected, soon(), &|| Ok(())).unwrap();
            let _callers: Vec<_> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
            for (index, mut stream) in (1..).zip(streams) {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                assert_eq!(byte, [index]);
            }
        }
    }

    #[test]
    fn the_first_of_two_that_claim_one_index_counts_and_the_wrong_kind_does_not() {
        let mut acceptor = Acceptor::open(credentials(0)).unwrap();
        let port = acceptor.port().unwrap();
        let callers = std::thread::spawn(move || {
            let data = credentials(1).call(ConnectionKind::Data, 0, port).unwrap();
            let mut first = credentials(1).call(ConnectionKind::Control, 0, port).unwrap();
            let mut second = credentials(1).call(ConnectionKind::Control, 0, port).unwrap();
            first.write_all(b"1").unwrap();
            assert!(closed_without_a_word(&mut second));
            let other = credentials(2).call(ConnectionKind::Control, 0, port).unwrap();
            (data, first, second, other)
        });
        let mut streams = acceptor.receive(ConnectionKind::Control, &[1, 2], soon(), &|| Ok(())).unwrap();
        let mut byte = [0];
        streams[0].read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"1");
        callers.join().unwrap();
    }

    #[test]
    fn who_trickles_is_turned_away_and_who_does_not_come_is_named() {
        let mut acceptor = Acceptor::open(credentials(0)).unwrap();
        let port = acceptor.port().unwrap();
        let slow = std::thread::spawn(move || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let start = Instant::now();
            while stream.write_all(b"T").is_ok() {
                assert!(start.elapsed() < Duration::from_secs(8), "it was listened to for ever");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let deadline = Instant::now() + Duration::from_millis(2500);
        let (index, cause) =
            acceptor.receive(ConnectionKind::Control, &[1], deadline, &|| Ok(())).unwrap_err();
        assert!(index == 1 && cause.fault == Fault::Operation);
        slow.join().unwrap();
        let dead = || Err((1, Cause::operation("it has ended")));
        assert!(acceptor.receive(ConnectionKind::Control, &[1], soon(), &dead).is_err());
    }

    #[test]
    fn a_caller_turns_away_from_one_who_does_not_know_the_answer() {
        let impostor = Credentials { answer: Secret::from_bytes([1; 32]), ..credentials(0) };
        let mut acceptor = Acceptor::open(impostor).unwrap();
        let port = acceptor.port().unwrap();
        let caller =
            std::thread::spawn(move || credentials(1).call(ConnectionKind::Control, 0, port).unwrap_err());
        let _ = acceptor.receive(ConnectionKind::Control, &[1], soon(), &|| Ok(()));
        assert_eq!(caller.join().unwrap().kind(), ErrorKind::PermissionDenied);
    }
}
