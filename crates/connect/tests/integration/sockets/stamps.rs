//! Points without a time get theirs in the order in which they are passed on.

use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidemill_connect::formats::{DecoderSettings, Format};
use tidemill_connect::socket::SocketSettings;
use tidemill_core::arrow::array::Array;
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::TimestampNanosecondType;
use tidemill_core::arrow::schema::{DataType, Field, Schema, TimeUnit};
use tidemill_core::source::{Polled, Source};

use crate::sockets::fixture::{connect, listen};

const SENDERS: usize = 12;
const POINTS: usize = 20_000;

fn points(is_nullable: bool) -> SocketSettings {
    let time = Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, None), is_nullable);
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true), time]));
    let decoder = DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 };
    SocketSettings { end_with_last_connection: true, ..SocketSettings::new(Format::LineProtocol, decoder) }
}

#[test]
fn no_point_without_a_time_is_earlier_than_one_before_it_whoever_sends_and_however_slow_the_query_is() {
    for is_nullable in [true, false] {
        let mut lines = listen(points(is_nullable));
        assert_eq!(lines.schema().field(1).is_nullable(), is_nullable);
        let streams: Vec<_> = (0..SENDERS).map(|_| connect(&lines)).collect();
        let senders = streams.into_iter().map(|mut stream| {
            thread::spawn(move || {
                for first in (0..POINTS).step_by(500) {
                    let text: String = (first..first + 500).map(|v| format!("m v={v}i\n")).collect();
                    stream.write_all(text.as_bytes()).unwrap();
                }
            })
        });
        let senders: Vec<_> = senders.collect();
        let (mut latest, mut count) = (i64::MIN, 0);
        loop {
            match lines.poll(Duration::from_millis(20)).unwrap() {
                Polled::Rows(rows) => {
                    assert_eq!(rows.schema(), lines.schema());
                    let times = rows.column(1).as_primitive::<TimestampNanosecondType>();
                    assert_eq!(times.null_count(), 0);
                    for time in times.values() {
                        assert!(*time >= latest, "{time} after {latest}");
                        latest = *time;
                    }
                    count += rows.num_rows();
                }
                Polled::Nothing | Polled::Idle => {}
                Polled::Request { .. } => panic!("these rows have no number"),
                Polled::Ended | Polled::Left => break,
            }
        }
        assert_eq!((count, lines.faults().count), (SENDERS * POINTS, 0));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    }
}

#[test]
fn a_point_keeps_the_time_that_it_has() {
    let mut lines = listen(points(false));
    connect(&lines).write_all(b"m v=1i 5\nm v=2i\nm v=3i 7\n").unwrap();
    let mut times = Vec::new();
    while times.len() < 3 {
        if let Polled::Rows(rows) = lines.poll(Duration::from_millis(20)).unwrap() {
            times.extend(rows.column(1).as_primitive::<TimestampNanosecondType>().values().iter().copied());
        }
    }
    assert_eq!((times[0], times[2]), (5, 7));
    assert!(times[1] > 1_700_000_000_000_000_000);
}
