//! What a server says to a gateway, and what it answers.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::fields::{Fields, Malformed, PutFields, TakeFields, take_all};
use tidemill_engine::{Cause, Fault};
use tidemill_sql::Definition;
use tidemill_store::remote::{receive_frame, send_frame};

use super::tables::StatusTables;
use crate::catalog::record::{CatalogRecord, StartedQuery};

/// The longest message: all definitions of a database at once.
const BYTES_MAX: usize = 1 << 30;

const APPLY: u8 = 1;
const REPORT: u8 = 2;
const CLOSE: u8 = 3;
const DONE: u8 = 4;
const FAILED: u8 = 5;
const TABLES: u8 = 6;
const AT_WORK: u8 = 7;
const STOP: u8 = 8;
const START: u8 = 9;
const KEEPS: u8 = 10;
const REPLACE: u8 = 11;
const COMMIT: u8 = 12;
const ABORT: u8 = 13;
const SAID: u8 = 14;
const READY: u8 = 15;

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
    /// Stop the part of this view.
    Stop(String),
    /// Let the part of this view continue.
    Start(String),
    /// Say whether the part keeps its state under a definition that replaces that of a view.
    Keeps(Arc<Definition>),
    /// Prepare a part that replaces another one, and wait for the decision.
    Replace(Replacement),
    /// The replacement counts.
    Commit,
    /// The replacement does not count.
    Abort,
}

/// What replaces a part of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    pub definition: Arc<Definition>,
    /// With which settings its query is started.
    pub query: StartedQuery,
    /// Whether it is filled, even if it could keep its state.
    pub fills: bool,
    /// Whether the query is stopped and stays so.
    pub stays_stopped: bool,
}

/// What a gateway answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The answer is still to come: the order is being carried out.
    AtWork,
    Done,
    Failed(Cause),
    Tables(StatusTables),
    /// What was done, for people.
    Said(String),
    /// Whether the part keeps its state.
    Keeps(bool),
    /// A replacement is prepared, in the folder of this name if it has one of its own.
    Ready(Option<String>),
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
            Order::Stop(view) => put_text(&mut bytes, STOP, view),
            Order::Start(view) => put_text(&mut bytes, START, view),
            Order::Keeps(definition) => {
                bytes.put_u8(KEEPS);
                bytes.put_bytes(&definition.encode());
            }
            Order::Replace(replacement) => {
                bytes.put_u8(REPLACE);
                bytes.put_bytes(&replacement.definition.encode());
                bytes.put_bytes(&CatalogRecord::Started(replacement.query.clone()).encode());
                bytes.put_u8(replacement.fills.into());
                bytes.put_u8(replacement.stays_stopped.into());
            }
            Order::Commit => bytes.put_u8(COMMIT),
            Order::Abort => bytes.put_u8(ABORT),
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
            STOP => fields.text().map(Order::Stop),
            START => fields.text().map(Order::Start),
            KEEPS => take_definition(&mut fields).map(Order::Keeps),
            REPLACE => {
                let definition = take_definition(&mut fields)?;
                let Some(CatalogRecord::Started(query)) = CatalogRecord::decode(fields.bytes()?) else {
                    return Err(Malformed);
                };
                let (fills, stays_stopped) = (fields.u8()? == 1, fields.u8()? == 1);
                Ok(Order::Replace(Replacement { definition, query, fills, stays_stopped }))
            }
            COMMIT => Ok(Order::Commit),
            ABORT => Ok(Order::Abort),
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
    pub fn receive(stream: &UnixStream, backoff: Duration) -> io::Result<Answer> {
        loop {
            match Answer::receive_within(stream, backoff)? {
                Some(Answer::AtWork) => {}
                Some(answer) => return Ok(answer),
                None => return Err(silent(backoff)),
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
            Answer::Said(text) => put_text(&mut bytes, SAID, text),
            Answer::Keeps(keeps) => bytes.extend([KEEPS, (*keeps).into()]),
            Answer::Ready(folder) => {
                bytes.extend([READY, folder.is_some().into()]);
                folder.iter().for_each(|folder| bytes.put_bytes(folder.as_bytes()));
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
            SAID => fields.text().map(Answer::Said),
            KEEPS => Ok(Answer::Keeps(fields.u8()? == 1)),
            READY => match fields.u8()? {
                0 => Ok(Answer::Ready(None)),
                _ => Ok(Answer::Ready(Some(fields.text()?))),
            },
            _ => Err(Malformed),
        }
    }
}

fn put_text(bytes: &mut Vec<u8>, kind: u8, text: &str) {
    bytes.put_u8(kind);
    bytes.put_bytes(text.as_bytes());
}

fn take_definition(fields: &mut Fields<'_>) -> Result<Arc<Definition>, Malformed> {
    Definition::decode(fields.bytes()?).map(Arc::new).ok_or(Malformed)
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
        let definition =
            Arc::new(Definition { version: 3, statement: "CREATE".into(), idle_after: Duration::ZERO });
        let query =
            StartedQuery { name: "v".into(), outputs: vec!["v".into()], settings: vec![1], is_strict: false };
        let orders = [
            Order::Apply(vec![CatalogRecord::Ended("v".into())]),
            Order::Report,
            Order::Close,
            Order::Stop("v".into()),
            Order::Start("v".into()),
            Order::Keeps(Arc::clone(&definition)),
            Order::Replace(Replacement { definition, query, fills: true, stays_stopped: false }),
            Order::Commit,
            Order::Abort,
        ];
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
        let others = [
            Answer::AtWork,
            Answer::Done,
            Answer::Tables(tables),
            Answer::Said("done".into()),
            Answer::Keeps(true),
            Answer::Ready(None),
            Answer::Ready(Some("query-v-3".into())),
        ];
        for answer in failed.into_iter().chain(others) {
            let bytes = answer.encode();
            assert_eq!(Answer::decode(&bytes), Ok(answer));
            (0..bytes.len()).for_each(|length| assert_eq!(Answer::decode(&bytes[..length]), Err(Malformed)));
        }
    }

    #[test]
    fn who_is_at_work_is_waited_for_and_who_is_silent_is_not() {
        let (server, gateway) = UnixStream::pair().unwrap();
        let backoff = Duration::from_millis(300);
        let works = std::thread::spawn(move || {
            for _ in 0..6 {
                Answer::AtWork.send(&gateway).unwrap();
                std::thread::sleep(backoff / 3);
            }
            Answer::Done.send(&gateway).unwrap();
            gateway
        });
        assert_eq!(Answer::receive(&server, backoff).unwrap(), Answer::Done);
        let gateway = works.join().unwrap();
        let silent = Answer::receive(&server, backoff).unwrap_err();
        assert_eq!(silent.to_string(), "it has shown no sign of work for 0.3 s");
        drop(gateway);
        assert_eq!(Answer::receive(&server, backoff).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
