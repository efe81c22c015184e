//! Datagrams: whole records each, and counted when they are dropped.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_connect::formats::{DecoderSettings, Format};
use tidemill_connect::socket::{UdpLines, UdpSettings};
use tidemill_core::arrow::schema::{DataType, Field, Schema};
use tidemill_core::source::{Polled, Source};

fn settings(format: Format) -> UdpSettings {
    let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, true)]));
    UdpSettings::new(format, DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 })
}

#[test]
fn a_datagram_cut_off_spoils_no_other() {
    for (format, good, bad) in
        [(Format::LineProtocol, "m value=1i", "m val"), (Format::Json, "{\"value\": 1}", "{\"va")]
    {
        let mut lines = UdpLines::listen("127.0.0.1:0", false, settings(format)).expect("listens");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("bound");
        for text in [good, bad, good] {
            sender.send_to(text.as_bytes(), lines.local_address()).expect("sent");
        }
        let (mut rows, mut faults) = (0, 0);
        let until = Instant::now() + Duration::from_secs(120);
        while (rows, faults) != (2, 1) && Instant::now() < until {
            if let Polled::Rows(batch) = lines.poll(Duration::from_millis(50)).expect("polled") {
                rows += batch.num_rows();
            }
            faults += lines.faults().count;
        }
        assert_eq!((rows, faults), (2, 1));
    }
}

#[test]
fn what_is_dropped_is_counted() {
    let mut lines = UdpLines::listen(
        "127.0.0.1:0",
        false,
        UdpSettings { blocks_max: 1, ..settings(Format::LineProtocol) },
    )
    .expect("listens");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let datagram = "m value=1i\n".repeat(2000);
    let sent = 40;
    for _ in 0..sent {
        sender.send_to(datagram.as_bytes(), lines.local_address()).expect("sent");
    }
    let (mut rows, mut dropped) = (0, 0);
    let until = Instant::now() + Duration::from_secs(120);
    // The first blocks may have been taken only after the last datagram was sent.
    std::thread::sleep(Duration::from_millis(300));
    while rows as u64 / 2000 + dropped < sent && Instant::now() < until {
        if let Polled::Rows(batch) = lines.poll(Duration::from_millis(20)).expect("polled") {
            rows += batch.num_rows();
        }
        dropped += lines.faults().count;
    }
    assert_eq!(rows as u64 / 2000 + dropped, sent);
    if !cfg!(target_os = "linux") {
        return;
    }
    assert!(dropped > 0);
}
