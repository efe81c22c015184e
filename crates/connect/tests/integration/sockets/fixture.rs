//! Settings, and a source polled until what is waited for has come.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_connect::formats::{DecoderSettings, Format};
use tidemill_connect::socket::{SocketSettings, TcpLines};
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::Int64Type;
use tidemill_core::arrow::schema::{DataType, Field, Schema};
use tidemill_core::source::{Faults, Polled, Source};

/// Longer than any test takes that passes.
const PATIENCE: Duration = Duration::from_secs(120);

/// JSON or CSV with the BIGINT columns `sender` and `value`.
pub fn settings(format: Format) -> SocketSettings {
    let column = |name| Field::new(name, DataType::Int64, true);
    let schema = Arc::new(Schema::new(vec![column("sender"), column("value")]));
    let mut decoder = DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 };
    decoder.csv.header = Some(true);
    SocketSettings::new(format, decoder)
}

/// A source on any free port of this machine.
pub fn listen(settings: SocketSettings) -> TcpLines {
    TcpLines::listen("127.0.0.1:0", false, settings).unwrap()
}

pub fn connect(lines: &TcpLines) -> TcpStream {
    TcpStream::connect(lines.local_address().unwrap()).unwrap()
}

/// Sends a JSON line.
pub fn send(stream: &mut impl Write, sender: i64, value: i64) {
    stream.write_all(format!("{{\"sender\": {sender}, \"value\": {value}}}\n").as_bytes()).unwrap();
}

/// What came out of a source.
#[derive(Debug, Default)]
pub struct Received {
    pub rows: Vec<(i64, i64)>,
    pub faults: Faults,
    pub ended: bool,
}

impl Received {
    pub fn fault(&self) -> &str {
        self.faults.samples.first().map_or("", String::as_str)
    }
}

/// Polls until the condition holds; then what came, and no more.
pub fn poll_until(source: &mut impl Source, condition: impl Fn(&Received) -> bool) -> Received {
    let start = Instant::now();
    let mut received = Received::default();
    while !condition(&received) {
        assert!(start.elapsed() < PATIENCE, "it did not come: {received:?}");
        match source.poll(Duration::from_millis(20)).unwrap() {
            Polled::Rows(rows) => {
                let column = |index: usize| rows.column(index).as_primitive::<Int64Type>().values();
                received.rows.extend(column(0).iter().copied().zip(column(1).iter().copied()));
            }
            Polled::Nothing | Polled::Idle => {}
            Polled::Request { .. } => panic!("these rows have no number"),
            Polled::Ended | Polled::Left => received.ended = true,
        }
        received.faults.merge(source.faults());
    }
    received
}

pub fn rows(count: usize) -> impl Fn(&Received) -> bool {
    move |received| received.rows.len() >= count
}

pub fn faults(count: u64) -> impl Fn(&Received) -> bool {
    move |received| received.faults.count >= count
}

pub fn ended(received: &Received) -> bool {
    received.ended
}
