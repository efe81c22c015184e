//! Brokers that are away, at the start and later. These tests stop the broker that the others use.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_connect::formats::Format;
use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::kafka::{KafkaSink, KafkaSinkSettings, KafkaSource, KafkaSourceSettings, KafkaStart};
use tidemill_core::source::{Polled, Source};
use tidemill_core::{Fault, Sink};

use crate::kafka::{LIMIT, broker_and_topic, prepare, read, rows, schema, source};

/// Starts or stops the broker.
fn broker(action: &str) {
    let control = std::env::var("TIDEMILL_KAFKA_CONTROL").expect("tests/integration/kafka/run.sh sets it");
    assert!(Command::new(control).arg(action).status().expect("it runs").success(), "{action}");
}

fn settings(brokers: &str, topic: &str, is_transactional: bool) -> KafkaSinkSettings {
    let transactions = is_transactional.then(|| format!("{topic}-transactions"));
    KafkaSinkSettings { transactions, ..KafkaSinkSettings::new(brokers, topic, TextFormat::Ndjson) }
}

fn numbers(found: Vec<(Option<String>, i64)>) -> Vec<i64> {
    let mut numbers: Vec<i64> = found.into_iter().map(|(_, number)| number).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
#[ignore = "stops the broker; tests/kafka/run.sh runs it alone"]
fn a_sink_and_a_source_outlast_a_broker_that_goes_and_comes_back() {
    for is_transactional in [false, true] {
        let Some((brokers, topic)) = broker_and_topic("outage") else { return };
        broker("start");
        let mut sink =
            KafkaSink::connect(&schema(), settings(&brokers, &topic, is_transactional)).expect("it is there");
        prepare(&mut sink, 0, rows(&[(Some("a"), 0)]));
        sink.commit(0..=0).expect("the broker takes it");
        let mut all = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, false);
        assert_eq!(numbers(read(&mut all, 1)), [0]);
        broker("stop");
        let sender = thread::spawn(move || {
            for cycle in 1..4 {
                prepare(&mut sink, cycle, rows(&[(Some("a"), cycle as i64)]));
                sink.commit(cycle..=cycle).expect("it waits for the broker");
            }
            sink.last_committed().expect("it knows")
        });
        // Longer than both would have waited once.
        let until = Instant::now() + Duration::from_secs(65);
        while Instant::now() < until {
            let polled = all.poll(Duration::from_millis(100)).expect("it waits for the broker");
            assert!(matches!(polled, Polled::Nothing), "{polled:?}");
        }
        broker("start");
        assert_eq!(numbers(read(&mut all, 3)), [1, 2, 3]);
        let last = sender.join().expect("the sink goes on");
        assert_eq!(last, is_transactional.then_some(3));
        let mut again = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, true);
        assert_eq!(numbers(read(&mut again, usize::MAX)), [0, 1, 2, 3], "each once");
    }
}

#[test]
#[ignore = "stops the broker; tests/kafka/run.sh runs it alone"]
fn a_broker_that_is_away_at_the_start_is_waited_for() {
    for is_transactional in [false, true] {
        let Some((brokers, topic)) = broker_and_topic("away") else { return };
        broker("start");
        {
            // The topic is there, and has a row.
            let settings = settings(&brokers, &topic, is_transactional);
            let mut sink = KafkaSink::connect(&schema(), settings).expect("it is there");
            prepare(&mut sink, 0, rows(&[(Some("a"), 0)]));
            sink.commit(0..=0).expect("the broker takes it");
        }
        let mut before = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, false);
        read(&mut before, 1);
        let offsets: tidemill_core::SourceOffsets = before
            .offsets()
            .into_iter()
            .map(|offset| (offset.part, offset.at.expect("it is kept")))
            .collect();
        drop(before);
        broker("stop");
        let mut sink = KafkaSink::open(&schema(), settings(&brokers, &topic, is_transactional))
            .expect("it may come later");
        assert_eq!(sink.away().expect("it is away").fault, Fault::Operation);
        let mut first = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, false);
        let mut resumed = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, false);
        resumed.resume(&offsets).expect("it is checked later");
        for all in [&mut first, &mut resumed] {
            assert!(matches!(all.poll(Duration::from_millis(100)), Ok(Polled::Nothing)));
            assert!(all.offsets().is_empty());
        }
        let sender = thread::spawn(move || {
            sink.arrive().expect("it waits for the broker");
            assert!(sink.away().is_none());
            let last = sink.last_committed().expect("it knows");
            prepare(&mut sink, 1, rows(&[(Some("a"), 1)]));
            sink.commit(1..=1).expect("the broker takes it");
            last
        });
        broker("start");
        assert_eq!(sender.join().expect("the sink goes on"), is_transactional.then_some(0));
        assert_eq!(numbers(read(&mut first, 2)), [0, 1]);
        assert_eq!(numbers(read(&mut resumed, 1)), [1]);
    }
}

#[test]
#[ignore = "stops the broker; tests/kafka/run.sh runs it alone"]
fn who_has_waited_long_enough_or_is_stopped_gives_up() {
    let Some((brokers, topic)) = broker_and_topic("patience") else { return };
    broker("start");
    let short = KafkaSinkSettings { retry_for: Duration::from_secs(3), ..settings(&brokers, &topic, false) };
    let mut sink = KafkaSink::connect(&schema(), short.clone()).expect("it is there");
    let mut stopped = KafkaSink::connect(&schema(), settings(&brokers, &topic, false)).expect("it is there");
    let hasty = |retry_for| {
        KafkaSource::open(KafkaSourceSettings {
            connection: (&brokers).into(),
            topic: topic.clone(),
            format: Format::Json,
            decoder: tidemill_connect::formats::DecoderSettings {
                schema: schema(),
                csv: Default::default(),
                batch_rows: 8192,
            },
            start: KafkaStart::Earliest,
            end_at_end: false,
            retry_for,
        })
    };
    let mut running = hasty(Duration::from_secs(3)).expect("it is there");
    broker("stop");
    prepare(&mut sink, 0, rows(&[(Some("a"), 0)]));
    let cause = sink.commit(0..=0).expect_err("it gives up");
    assert!(cause.fault == Fault::Operation && cause.message.contains("retry_for"), "{cause}");
    assert!(std::error::Error::source(&cause).is_some(), "what the client said is kept");
    let stop = stopped.stopper().expect("it can be stopped");
    prepare(&mut stopped, 0, rows(&[(Some("a"), 0)]));
    let waiting = thread::spawn(move || stopped.commit(0..=0).expect_err("it is stopped"));
    stop();
    assert!(waiting.join().expect("no panic").message.contains("stopped"));
    let mut away = KafkaSink::open(&schema(), short).expect("it may come later");
    assert!(away.arrive().expect_err("it gives up").message.contains("retry_for"));
    let mut late = hasty(Duration::from_secs(6)).expect("it may come later");
    for source in [&mut running, &mut late] {
        let until = Instant::now() + LIMIT;
        let cause = loop {
            assert!(Instant::now() < until, "it gives up");
            if let Err(cause) = source.poll(Duration::from_millis(100)) {
                break cause;
            }
        };
        assert!(cause.fault == Fault::Operation && cause.message.contains("retry_for"), "{cause}");
    }
    broker("start");
}
