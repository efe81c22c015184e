//! Topics of a real broker. `tests/kafka/run.sh` starts one and runs these; without `TIDEMILL_KAFKA_BROKERS` they say
//! that they are skipped.

mod exactly_once;
mod outages;
mod secured;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidemill_connect::dead_letter::DeadLetterFile;
use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::formats::{DecoderSettings, Format};
use tidemill_connect::kafka::{KafkaSink, KafkaSinkSettings, KafkaSource, KafkaSourceSettings, KafkaStart};
use tidemill_core::source::{Polled, Source};
use tidemill_core::{Batch, Cut, CycleOutput, Fault, ManualClock, RefusedRow, Sink};

/// Longer than anything here takes, so that a test that hangs ends.
const LIMIT: Duration = Duration::from_secs(60);

/// The broker, and a topic that no test had before; the broker makes it when it is asked for.
fn broker_and_topic(name: &str) -> Option<(String, String)> {
    let Ok(brokers) = std::env::var("TIDEMILL_KAFKA_BROKERS") else {
        println!("skipped: no broker; run tests/kafka/run.sh");
        return None;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos();
    Some((brokers, format!("{name}-{now}")))
}

fn rows(values: &[(Option<&str>, i64)]) -> RecordBatch {
    let keys: StringArray = values.iter().map(|(key, _)| *key).collect();
    let numbers: Int64Array = values.iter().map(|(_, number)| Some(*number)).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("key", Arc::new(keys) as _, true),
        ("number", Arc::new(numbers) as _, true),
    ])
    .expect("columns of one length")
}

fn schema() -> SchemaRef {
    rows(&[]).schema()
}

fn prepare(sink: &mut KafkaSink, cycle: u64, rows: RecordBatch) {
    let positions: Vec<u32> = (0..rows.num_rows() as u32).collect();
    let output = CycleOutput {
        cut: Arc::new(Cut { cycle, ..Cut::first() }),
        streams: vec![Some(Batch::from_source(rows, positions.into()))],
        arrivals: Arc::default(),
        clock: Arc::new(ManualClock::default()),
    };
    sink.prepare(output).expect("the rows fit");
}

fn source(brokers: &str, topic: &str, format: Format, start: KafkaStart, end_at_end: bool) -> KafkaSource {
    KafkaSource::open(KafkaSourceSettings {
        connection: brokers.into(),
        topic: topic.to_owned(),
        format,
        decoder: DecoderSettings { schema: schema(), csv: Default::default(), batch_rows: 8192 },
        start,
        end_at_end,
        retry_for: 10 * LIMIT,
    })
    .expect("the topic can be read")
}

/// All rows until the source ends, or until there are this many.
fn read(source: &mut KafkaSource, enough: usize) -> Vec<(Option<String>, i64)> {
    let (mut all, until) = (Vec::new(), Instant::now() + LIMIT);
    while all.len() < enough {
        assert!(Instant::now() < until, "{} rows within the limit", all.len());
        match source.poll(Duration::from_millis(100)).expect("the topic can be read on") {
            Polled::Rows(batch) => {
                let (keys, numbers) =
                    (batch.column(0).as_string::<i32>(), batch.column(1).as_primitive::<Int64Type>());
                let key = |row: usize| (!keys.is_null(row)).then(|| keys.value(row).to_owned());
                all.extend((0..batch.num_rows()).map(|row| (key(row), numbers.value(row))));
            }
            Polled::Nothing | Polled::Idle => {}
            Polled::Request { .. } => panic!("these rows have no number"),
            Polled::Ended | Polled::Left => break,
        }
    }
    all
}

fn sent_and_read(name: &str, sent_as: TextFormat, read_as: Format) {
    let Some((brokers, topic)) = broker_and_topic(name) else { return };
    let mut settings = KafkaSinkSettings::new(&brokers, &topic, sent_as);
    settings.key = Some("key".to_owned());
    let mut sink = KafkaSink::connect(&schema(), settings).expect("the topic can be written");
    let names = [Some("a"), Some("two\nlines, a comma and \"quotes\""), None, Some("d")];
    let mut expected: BTreeMap<Option<String>, Vec<i64>> = BTreeMap::new();
    for cycle in 0..6_i64 {
        let values: Vec<(Option<&str>, i64)> =
            (0..5000).map(|row| (names[(row % 4) as usize], cycle * 5000 + row)).collect();
        for (key, number) in &values {
            expected.entry(key.map(str::to_owned)).or_default().push(*number);
        }
        prepare(&mut sink, cycle as u64, rows(&values));
        if cycle % 2 == 1 {
            sink.commit(cycle as u64 - 1..=cycle as u64).expect("the broker takes them");
            let mut found = source(&brokers, &topic, read_as.clone(), KafkaStart::Earliest, true);
            assert_eq!(read(&mut found, usize::MAX).len(), (cycle as usize + 1) * 5000, "committed is there");
        }
    }
    sink.finish().expect("nothing is left");
    let mut all = source(&brokers, &topic, read_as, KafkaStart::Earliest, true);
    let mut found: BTreeMap<Option<String>, Vec<i64>> = BTreeMap::new();
    for (key, number) in read(&mut all, usize::MAX) {
        found.entry(key).or_default().push(number);
    }
    // Rows without a key go to any partition.
    found.get_mut(&None).expect("rows without a key").sort_unstable();
    assert!(found == expected, "every row once, those of a key in order");
    assert_eq!(all.faults().samples, Vec::<String>::new());
    assert_eq!((all.progress().done, all.progress().total), (30_000, Some(30_000)));
}

#[test]
fn rows_as_json_are_read_as_they_were_sent() {
    sent_and_read("json", TextFormat::Ndjson, Format::Json);
}

#[test]
fn rows_as_csv_are_read_as_they_were_sent() {
    sent_and_read("csv", TextFormat::csv(), Format::Csv);
}

#[test]
fn a_message_that_cannot_be_read_is_named_by_partition_and_offset() {
    let Some((brokers, topic)) = broker_and_topic("bad") else { return };
    KafkaSink::connect(&schema(), KafkaSinkSettings::new(&brokers, &topic, TextFormat::Ndjson))
        .expect("a topic");
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", &brokers).create().expect("a producer");
    for value in ["{\"number\":1}", "{\"number\":\"x\"}", "oops", "{\"number\":2}"] {
        producer
            .send(BaseRecord::<(), _>::to(&topic).payload(value).partition(1))
            .map_err(|failed| failed.0)
            .expect("sent");
    }
    producer
        .send(BaseRecord::<_, [u8]>::to(&topic).key("gone").partition(1))
        .map_err(|failed| failed.0)
        .expect("sent");
    producer.flush(LIMIT).expect("the broker takes them");
    let mut all = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, true);
    assert_eq!(read(&mut all, usize::MAX), [(None, 1), (None, 2)]);
    let faults = all.faults();
    assert_eq!(faults.count, 3, "{:?}", faults.samples);
    for offset in [1, 2, 4] {
        let place = format!("kafka topic '{topic}', partition 1, offset {offset}: ");
        assert!(faults.samples.iter().any(|text| text.starts_with(&place)), "{place} {:?}", faults.samples);
    }
}

#[test]
fn latest_is_what_is_written_after_the_source_was_opened() {
    let Some((brokers, topic)) = broker_and_topic("latest") else { return };
    let settings = KafkaSinkSettings::new(&brokers, &topic, TextFormat::Ndjson);
    let mut sink = KafkaSink::connect(&schema(), settings).expect("the topic can be written");
    prepare(&mut sink, 0, rows(&[(Some("before"), 0)]));
    sink.commit(0..=0).expect("the broker takes it");
    let mut ended = source(&brokers, &topic, Format::Json, KafkaStart::Latest, true);
    assert_eq!(read(&mut ended, usize::MAX), []);
    let mut first = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, true);
    let mut latest = source(&brokers, &topic, Format::Json, KafkaStart::Latest, false);
    latest.set_projection(&[0, 1]).expect("all columns");
    prepare(&mut sink, 1, rows(&[(Some("after"), 1)]));
    sink.commit(1..=1).expect("the broker takes it");
    assert_eq!(read(&mut latest, 1), [(Some("after".to_owned()), 1)]);
    assert!(!latest.is_finite());
    // What is written after it was opened is beyond its end.
    assert_eq!(read(&mut first, usize::MAX), [(Some("before".to_owned()), 0)]);
}

/// A topic with one partition and these settings.
fn topic_with(name: &str, settings: &[(&str, &str)]) -> Option<(String, String)> {
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
    let (brokers, topic) = broker_and_topic(name)?;
    let admin: AdminClient<_> =
        ClientConfig::new().set("bootstrap.servers", &brokers).create().expect("a client");
    let mut new = NewTopic::new(&topic, 1, TopicReplication::Fixed(1));
    for (key, value) in settings {
        new = new.set(key, value);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let made = runtime.block_on(admin.create_topics([&new], &AdminOptions::new())).expect("an answer");
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    Some((brokers, topic))
}

/// The letters of a file, as `(cycle, position, number of the row)`.
fn letters(path: &std::path::Path) -> Vec<(u64, u64, i64)> {
    let text = std::fs::read_to_string(path).expect("the file is there");
    let letter = |line: &str| {
        let letter: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
        let number = |name: &str| letter[name].as_u64().expect("a number");
        (number("cycle"), number("position"), letter["row"]["number"].as_i64().expect("a number"))
    };
    text.lines().map(letter).collect()
}

fn with_letters(settings: &KafkaSinkSettings, path: &std::path::Path) -> KafkaSink {
    let letters = DeadLetterFile::open(path, "s", true).expect("a file");
    KafkaSink::connect(&schema(), settings.clone()).expect("a topic").with_dead_letters(letters)
}

/// Brokers refuse messages in batches, and here most batches are larger than a message may be.
#[test]
fn messages_that_are_too_large_go_to_the_dead_letters_and_the_others_to_the_topic() {
    let Some((brokers, topic)) = topic_with("large", &[("max.message.bytes", "3000")]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("refused.ndjson");
    let mut settings = KafkaSinkSettings::new(&brokers, &topic, TextFormat::Ndjson);
    settings.key = Some("key".to_owned());
    let mut sink = with_letters(&settings, &path);
    let (large, huge) = ("l".repeat(5000), "h".repeat(1_500_000));
    let key = |number: i64| match number {
        13 | 250 => large.as_str(),
        // More than the client sends at all.
        100 => huge.as_str(),
        _ => ["a", "b", "c"][(number % 3) as usize],
    };
    let values: Vec<(Option<&str>, i64)> = (0..300).map(|number| (Some(key(number)), number)).collect();
    prepare(&mut sink, 7, rows(&values[..50]));
    prepare(&mut sink, 8, rows(&values[50..]));
    sink.commit(7..=8).expect("what is refused is kept");
    assert_eq!(letters(&path), [(7, 13, 13), (8, 50, 100), (8, 200, 250)]);
    let refused = sink.refused().read();
    assert_eq!(refused.count, 3);
    assert!(refused.samples[0].contains("more than the topic accepts"), "{:?}", refused.samples);
    let mut all = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, true);
    let found = read(&mut all, usize::MAX);
    for key in ["a", "b", "c"] {
        let mut found: Vec<i64> =
            found.iter().filter(|row| row.0.as_deref() == Some(key)).map(|row| row.1).collect();
        let expected: Vec<i64> = values.iter().filter(|row| row.0 == Some(key)).map(|row| row.1).collect();
        // The last message of a key has its last value, even if some came twice.
        assert_eq!(found.last(), expected.last());
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, expected);
    }
    // The same cycles again, as after a crash between the letters and the commit.
    drop(sink);
    let mut sink = with_letters(&settings, &path);
    prepare(&mut sink, 7, rows(&values[..50]));
    prepare(&mut sink, 8, rows(&values[50..]));
    sink.commit(7..=8).expect("what is refused is kept");
    prepare(&mut sink, 9, rows(&values[13..14]));
    sink.commit(9..=9).expect("what is refused is kept");
    assert_eq!(letters(&path), [(7, 13, 13), (8, 50, 100), (8, 200, 250), (9, 0, 13)]);
}

#[test]
fn a_compacted_topic_refuses_messages_without_a_key() {
    let Some((brokers, topic)) = topic_with("compacted", &[("cleanup.policy", "compact")]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("refused.ndjson");
    let mut settings = KafkaSinkSettings::new(&brokers, &topic, TextFormat::Ndjson);
    settings.key = Some("key".to_owned());
    let mut sink = with_letters(&settings, &path);
    prepare(&mut sink, 0, rows(&[(Some("a"), 0), (None, 1), (Some("b"), 2), (None, 3)]));
    sink.commit(0..=0).expect("what is refused is kept");
    assert_eq!(letters(&path), [(0, 1, 1), (0, 3, 3)]);
    let mut all = source(&brokers, &topic, Format::Json, KafkaStart::Earliest, true);
    let found = read(&mut all, usize::MAX);
    assert_eq!(found, [(Some("a".to_owned()), 0), (Some("b".to_owned()), 2)]);
}

#[test]
fn without_dead_letters_a_refused_message_ends_the_query_and_is_named() {
    let Some((brokers, topic)) = broker_and_topic("unkept") else { return };
    let settings = KafkaSinkSettings::new(&brokers, &topic, TextFormat::Ndjson);
    let mut sink = KafkaSink::connect(&schema(), settings).expect("the topic can be written");
    let huge = "h".repeat(1_500_000);
    prepare(&mut sink, 5, rows(&[(Some("a"), 0), (Some(huge.as_str()), 1)]));
    let failed = sink.commit(5..=5).expect_err("it is too large");
    let text = failed.to_string();
    for part in ["1500021 bytes", "{\"key\":\"hhh", "dead_letters = 'FILE'"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.len() < 1000, "the row is cut");
    assert_eq!(RefusedRow::of(&failed), Some(RefusedRow { cycle: 5, event: 1 }));
}

#[test]
fn a_broker_that_is_not_there_and_a_key_that_is_no_column_are_told() {
    // Nobody listens at port 9 of this machine.
    let settings = KafkaSinkSettings::new("127.0.0.1:9", "t", TextFormat::Ndjson);
    let failed = KafkaSink::connect(&schema(), settings.clone()).err().expect("no broker");
    assert!(
        failed.fault == Fault::Operation
            && failed.message.contains("kafka 127.0.0.1:9: no broker has answered"),
        "{failed}"
    );
    let no_column = KafkaSinkSettings { key: Some("nmber".to_owned()), ..settings };
    let failed = KafkaSink::connect(&schema(), no_column).err().expect("no such column");
    assert!(failed.fault == Fault::User && failed.message.contains("did you mean number?"), "{failed}");
}
