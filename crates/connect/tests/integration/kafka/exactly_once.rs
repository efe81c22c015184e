//! Sources that continue where an earlier run was, and sinks whose commits are transactions.

use std::collections::BTreeMap;

use tidemill_connect::formats::Format;
use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::kafka::{KafkaSink, KafkaSinkSettings, KafkaStart};
use tidemill_core::source::{Source, SourceOffsets, note_offsets};
use tidemill_core::{Guarantee, Sink};

use crate::kafka::{
    broker_and_topic, letters, prepare, read, rows, schema, source, topic_with, with_letters,
};

fn transactional(brokers: &str, topic: &str) -> KafkaSinkSettings {
    let name = format!("{topic}-transactions");
    KafkaSinkSettings {
        transactions: Some(name),
        ..KafkaSinkSettings::new(brokers, topic, TextFormat::Ndjson)
    }
}

fn connect(settings: &KafkaSinkSettings) -> KafkaSink {
    KafkaSink::connect(&schema(), settings.clone()).expect("the topic can be written")
}

/// The numbers of all committed rows, in order.
fn numbers(brokers: &str, topic: &str) -> Vec<i64> {
    let mut all = source(brokers, topic, Format::Json, KafkaStart::Earliest, true);
    let mut numbers: Vec<i64> = read(&mut all, usize::MAX).into_iter().map(|(_, number)| number).collect();
    numbers.sort_unstable();
    numbers
}

fn row(number: i64) -> arrow_array::RecordBatch {
    rows(&[(Some("a"), number)])
}

#[test]
fn a_source_continues_behind_the_rows_that_it_gave_out() {
    let Some((brokers, topic)) = broker_and_topic("offsets") else { return };
    let mut sink = connect(&KafkaSinkSettings::new(&brokers, &topic, TextFormat::Ndjson));
    let values: Vec<(Option<&str>, i64)> = (0..30_000).map(|number| (None, number)).collect();
    prepare(&mut sink, 0, rows(&values));
    sink.commit(0..=0).expect("the broker takes them");
    let (mut offsets, mut numbers) = (SourceOffsets::new(), Vec::new());
    // Each run reads one batch more, and none hands on more than its offsets.
    while numbers.len() < values.len() {
        let mut run = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, true);
        if !offsets.is_empty() {
            run.resume(&offsets).expect("the offsets are in the topic");
        }
        let found = read(&mut run, 1);
        assert!(!found.is_empty(), "{} of {} rows", numbers.len(), values.len());
        numbers.extend(found.into_iter().map(|(_, number)| number));
        note_offsets(&mut offsets, run.offsets());
        assert_eq!(offsets.len(), 3, "one for each partition");
    }
    numbers.sort_unstable();
    assert!(numbers == (0..30_000).collect::<Vec<i64>>(), "each row once");
    let mut done = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, true);
    done.resume(&offsets).expect("the offsets are in the topic");
    assert_eq!(read(&mut done, usize::MAX), []);
}

#[test]
fn offsets_that_the_topic_does_not_have_are_an_error() {
    let Some((brokers, topic)) = topic_with("shorter", &[]) else { return };
    let mut sink = connect(&KafkaSinkSettings::new(&brokers, &topic, TextFormat::Ndjson));
    prepare(&mut sink, 0, row(1));
    sink.commit(0..=0).expect("the broker takes it");
    let refused = |offsets: SourceOffsets| {
        let mut run = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, true);
        run.resume(&offsets).expect_err("they are refused").to_string()
    };
    let record = |version: u8, next: i64| [&[version][..], &next.to_le_bytes()].concat();
    let text = refused(BTreeMap::from([(0, record(1, 2))]));
    assert!(text.contains("partition 0 has messages from offset 0 up to 1, and offset 2 follows"), "{text}");
    let text = refused(BTreeMap::from([(5, record(1, 0))]));
    assert!(text.contains("no longer has partition 5"), "{text}");
    for broken in [record(9, 0), Vec::new(), vec![1, 2]] {
        let text = refused(BTreeMap::from([(0, broken)]));
        assert!(text.contains("another version"), "{text}");
    }
}

#[test]
fn what_follows_the_newest_message_is_not_skipped_when_a_query_resumes() {
    let Some((brokers, topic)) = topic_with("newest", &[]) else { return };
    let mut sink = connect(&KafkaSinkSettings::new(&brokers, &topic, TextFormat::Ndjson));
    let commit = |sink: &mut KafkaSink, number: i64| {
        prepare(sink, number as u64, row(number));
        sink.commit(number as u64..=number as u64).expect("the broker takes it");
    };
    commit(&mut sink, 0);
    let mut first = source(&brokers, &topic, Format::Json, KafkaStart::Latest, false);
    commit(&mut sink, 1);
    assert_eq!(read(&mut first, 1), [(Some("a".to_owned()), 1)]);
    let mut offsets = SourceOffsets::new();
    note_offsets(&mut offsets, first.offsets());
    drop(first);
    commit(&mut sink, 2);
    let mut second = source(&brokers, &topic, Format::Json, KafkaStart::Latest, false);
    second.resume(&offsets).expect("the offsets are in the topic");
    assert_eq!(read(&mut second, 1), [(Some("a".to_owned()), 2)]);
}

#[test]
fn a_transaction_holds_its_cycle_and_an_open_one_is_undone() {
    let Some((brokers, topic)) = broker_and_topic("transactions") else { return };
    let settings = transactional(&brokers, &topic);
    let mut first = connect(&settings);
    assert_eq!((first.guarantee(), first.last_committed().expect("known")), (Guarantee::ExactlyOnce, None));
    for cycle in 0..3 {
        prepare(&mut first, cycle, row(cycle as i64));
        first.commit(cycle..=cycle).expect("the broker takes it");
    }
    assert_eq!(first.last_committed().expect("known"), Some(2));
    // A run that is still there, as one that was believed dead.
    prepare(&mut first, 3, row(3));
    let mut second = connect(&settings);
    assert_eq!(second.last_committed().expect("known"), Some(2), "asked from the brokers");
    let text = first.commit(3..=3).expect_err("the second run has taken over").to_string();
    assert!(text.contains("only the last one continues"), "{text}");
    prepare(&mut second, 3, row(3));
    second.commit(3..=3).expect("the broker takes it");
    drop(first);
    drop(second);
    assert_eq!(connect(&settings).last_committed().expect("known"), Some(3));
    assert_eq!(numbers(&brokers, &topic), [0, 1, 2, 3], "each once");
    // Another sink begins at its own beginning.
    let other = KafkaSinkSettings { transactions: Some(format!("{topic}-other")), ..settings };
    assert_eq!(connect(&other).last_committed().expect("known"), None);
}

#[test]
fn cycles_without_rows_are_recorded_when_that_is_asked_for() {
    let Some((brokers, topic)) = broker_and_topic("without-rows") else { return };
    let settings = transactional(&brokers, &topic);
    let mut sink = connect(&settings);
    prepare(&mut sink, 4, row(4));
    sink.commit(4..=4).expect("the broker takes it");
    sink.commit(5..=6).expect("there is nothing to do");
    assert_eq!(sink.unrecorded(), Some(5));
    sink.record().expect("the broker takes it");
    assert_eq!(sink.unrecorded(), None);
    drop(sink);
    assert_eq!(connect(&settings).last_committed().expect("known"), Some(6));
    assert_eq!(numbers(&brokers, &topic), [4]);
}

#[test]
fn a_refused_message_does_not_keep_the_others_out_of_the_transaction() {
    let Some((brokers, topic)) = topic_with("large", &[("max.message.bytes", "3000")]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("refused.ndjson");
    let settings = transactional(&brokers, &topic);
    let mut sink = with_letters(&settings, &path);
    let (large, huge) = ("l".repeat(5000), "h".repeat(1_500_000));
    let key = |number: i64| match number {
        13 | 50 => large.as_str(),
        // More than the client sends at all.
        30 => huge.as_str(),
        _ => "small",
    };
    let values: Vec<(Option<&str>, i64)> = (0..60).map(|number| (Some(key(number)), number)).collect();
    prepare(&mut sink, 7, rows(&values));
    sink.commit(7..=7).expect("what is refused is kept");
    assert_eq!(letters(&path), [(7, 13, 13), (7, 30, 30), (7, 50, 50)]);
    let expected: Vec<i64> = (0..60).filter(|number| ![13, 30, 50].contains(number)).collect();
    assert_eq!(numbers(&brokers, &topic), expected, "the others, each once");
    assert_eq!(sink.last_committed().expect("known"), Some(7));
    prepare(&mut sink, 8, row(60));
    sink.commit(8..=8).expect("the next transaction is not disturbed");
    // Without a place for it, the message ends the query, and nothing of its commit is seen.
    drop(sink);
    let mut sink = connect(&settings);
    prepare(&mut sink, 9, rows(&[(Some("small"), 61), (Some(large.as_str()), 62)]));
    sink.commit(9..=9).expect_err("it is too large");
    drop(sink);
    assert_eq!(connect(&settings).last_committed().expect("known"), Some(8));
    assert_eq!(numbers(&brokers, &topic).last(), Some(&60));
}
