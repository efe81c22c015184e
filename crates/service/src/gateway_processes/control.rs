//! What a server says to a gateway, and what it answers.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tidemill_engine::fields::{Fields, Malformed, PutFields, TakeFields, take_all};
use tidemill_engine::{Cause, Fault};
use tidemill_store::remote::{receive_frame, send_frame};

use super::tables::StatusTables;
use crate::catalog_record::CatalogRecord;

/// The longest message: all definitions of a database at once.
const BYTES_MAX: usize = 1 << 30;

const APPLY: u8 = 1;
const REPORT: u8 = 2;
const CLOSE: u8 = 3;
const DONE: u8 = 4;
const FAILED: u8 = 5;
const TABLES: u8 = 6;
const AT_WORK: u8 = 7;

/// How long a gateway that has an order may show no sign of work.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What a gateway is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Take these definitions in order, and run these parts of views.
    Apply(Vec<CatalogRecord>),
    /// Say how it is.
    Report,
    /// End in order.
    Close,
}

/// What a gateway answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The answer is still to come: the order is being carried out.
    AtWork,
    Done,
    Failed(Cause),
    Tables(StatusTables),
}

impl Order {
    pub fn send(&self, mut stream: &UnixStream) -> io::Result<()> {
        send_frame(&mut stream, &self.encode())
    }

    /// The next order; `None`: the server is gone.
    pub fn receive(mut stream: &UnixStream) -> io::Result<Option<Order>> {
        match receive_frame(&mut stream, BYTES_MAX) {
            Ok(bytes) => Order::decode(&bytes).map(Some).map_err(|_| damaged()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Order::Apply(records) => {
                bytes.put_u8(APPLY);
                bytes.put_u64(records.len() as u64);
                records.iter().for_each(|record| bytes.put_bytes(&record.encode()));
            }
            Order::Report => bytes.put_u8(REPORT),
            Order::Close => bytes.put_u8(CLOSE),
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Order, Malformed> {
        let mut fields = Fields(bytes);
        match fields.u8()? {
            APPLY => {
                let count = fields.u64()?;
                let record =
                    |fields: &mut Fields<'_>| CatalogRecord::decode(fields.bytes()?).ok_or(Malformed);
                Ok(Order::Apply(take_all(&mut fields, count, record)?))
            }
            REPORT => Ok(Order::Report),
            CLOSE => Ok(Order::Close),
            _ => Err(Malformed),
        }
    }
}

impl Answer {
    pub fn send(&self, mut stream: &UnixStream) -> io::Result<()> {
        send_frame(&mut stream, &self.encode())
    }

    /// The next answer.
    ///
    /// # Errors
    /// If the gateway has ended, or shows no sign of work for this long.
    pub fn receive(stream: &UnixStream, patience: Duration) -> io::Result<Answer> {
        loop {
            match Answer::receive_within(stream, patience)? {
                Some(Answer::AtWork) => {}
                Some(answer) => return Ok(answer),
                None => return Err(silent(patience)),
            }
        }
    }

    /// The next answer, or sign of work, if it begins within this time; `None`: it is still to come. It is never taken in part.
    pub fn receive_within(mut stream: &UnixStream, time: Duration) -> io::Result<Option<Answer>> {
        let mut first = [0];
        stream.set_read_timeout(Some(time))?;
        match stream.read_exact(&mut first) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            begun => begun?,
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        match Answer::receive_from(first.as_slice().chain(stream)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(silent(PATIENCE)),
            answer => answer.map(Some),
        }
    }

    fn receive_from(mut stream: impl Read) -> io::Result<Answer> {
        let bytes = receive_frame(&mut stream, BYTES_MAX)?;
        Answer::decode(&bytes).map_err(|_| damaged())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Answer::AtWork => bytes.put_u8(AT_WORK),
            Answer::Done => bytes.put_u8(DONE),
            Answer::Failed(cause) => {
                bytes.put_u8(FAILED);
                bytes.put_u8(FAULTS.iter().position(|fault| *fault == cause.fault).unwrap_or(0) as u8);
                bytes.put_bytes(cause.message.as_bytes());
            }
            Answer::Tables(tables) => {
                bytes.put_u8(TABLES);
                tables.encode(&mut bytes);
            }
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Answer, Malformed> {
        let mut fields = Fields(bytes);
        match fields.u8()? {
            AT_WORK => Ok(Answer::AtWork),
            DONE => Ok(Answer::Done),
            FAILED => {
                let fault = FAULTS.get(usize::from(fields.u8()?)).ok_or(Malformed)?;
                Ok(Answer::Failed(Cause::new(*fault, fields.text()?)))
            }
            TABLES => StatusTables::decode(&mut fields).map(Answer::Tables),
            _ => Err(Malformed),
        }
    }
}

/// By their numbers in messages.
const FAULTS: [Fault; 4] = [Fault::User, Fault::Operation, Fault::Resource, Fault::Bug];

fn silent(time: Duration) -> io::Error {
    let message = format!("it has shown no sign of work for {} s", time.as_secs_f64());
    io::Error::new(io::ErrorKind::TimedOut, message)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message between server and gateway is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_answers_are_read_as_they_were_written_and_never_in_part() {
        let tables =
            StatusTables { queries: vec![vec!["v".into(), String::new()]], ..StatusTables::default() };
        let orders = [Order::Apply(vec![CatalogRecord::Ended("v".into())]), Order::Report, Order::Close];
        for order in orders {
            let bytes = order.encode();
            assert_eq!(Order::decode(&bytes), Ok(order));
            (0..bytes.len()).for_each(|length| assert_eq!(Order::decode(&bytes[..length]), Err(Malformed)));
        }
        let (server, gateway) = UnixStream::pair().unwrap();
        let soon = Duration::from_millis(20);
        assert_eq!(Answer::receive_within(&server, soon).unwrap(), None);
        Answer::Done.send(&gateway).unwrap();
        assert_eq!(Answer::receive_within(&server, soon).unwrap(), Some(Answer::Done));
        let failed = FAULTS.map(|fault| Answer::Failed(Cause::new(fault, "why")));
        for answer in failed.into_iter().chain([Answer::AtWork, Answer::Done, Answer::Tables(tables)]) {
            let bytes = answer.encode();
            assert_eq!(Answer::decode(&bytes), Ok(answer));
            (0..bytes.len()).for_each(|length| assert_eq!(Answer::decode(&bytes[..length]), Err(Malformed)));
        }
    }

    #[test]
    fn who_is_at_work_is_waited_for_and_who_is_silent_is_not() {
        let (server, gateway) = UnixStream::pair().unwrap();
        let patience = Duration::from_millis(300);
        let works = std::thread::spawn(move || {
            for _ in 0..6 {
                Answer::AtWork.send(&gateway).unwrap();
                std::thread::sleep(patience / 3);
            }
            Answer::Done.send(&gateway).unwrap();
            gateway
        });
        assert_eq!(Answer::receive(&server, patience).unwrap(), Answer::Done);
        let gateway = works.join().unwrap();
        let silent = Answer::receive(&server, patience).unwrap_err();
        assert_eq!(silent.to_string(), "it has shown no sign of work for 0.3 s");
        drop(gateway);
        assert_eq!(Answer::receive(&server, patience).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
