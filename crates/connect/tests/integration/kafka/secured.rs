//! Brokers that demand TLS, certificates and logins.

use std::path::PathBuf;

use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::formats::{DecoderSettings, Format};
use tidemill_connect::kafka::{
    KafkaConnection, KafkaLogin, KafkaMechanism, KafkaSink, KafkaSinkSettings, KafkaSource,
    KafkaSourceSettings, KafkaStart,
};
use tidemill_connect::tls::{TlsClientSettings, TlsIdentity};
use tidemill_core::Sink;

use crate::kafka::{LIMIT, broker_and_topic, prepare, read, rows, schema};

/// The address of a listener, the folder of certificates and a new topic.
fn listener(variable: &str, name: &str) -> Option<(String, PathBuf, String)> {
    let (_, topic) = broker_and_topic(name)?;
    let set = |name: &str| {
        std::env::var(name).unwrap_or_else(|_| panic!("tests/integration/kafka/run.sh sets {name}"))
    };
    Some((set(variable), set("TIDEMILL_KAFKA_CERTIFICATES").into(), topic))
}

fn authority(certificates: &std::path::Path, name: &str) -> TlsClientSettings {
    TlsClientSettings { authorities: Some(certificates.join(name)), ..TlsClientSettings::default() }
}

fn reports(mechanism: KafkaMechanism, password: &str) -> Option<KafkaLogin> {
    Some(KafkaLogin { mechanism, user: "reports".to_owned(), password: password.to_owned() })
}

/// A row goes to the topic and comes back.
fn passes(connection: &KafkaConnection, topic: &str) {
    let settings = KafkaSinkSettings {
        connection: connection.clone(),
        ..KafkaSinkSettings::new("", topic, TextFormat::Ndjson)
    };
    let mut sink = KafkaSink::connect(&schema(), settings).expect("the topic can be written");
    prepare(&mut sink, 0, rows(&[(Some("a"), 7)]));
    sink.commit(0..=0).expect("the broker takes it");
    let mut source = KafkaSource::open(KafkaSourceSettings {
        connection: connection.clone(),
        topic: topic.to_owned(),
        format: Format::Json,
        decoder: DecoderSettings { schema: schema(), csv: Default::default(), batch_rows: 8192 },
        start: KafkaStart::Earliest,
        end_at_end: true,
        retry_for: LIMIT,
    })
    .expect("the topic can be read");
    assert_eq!(read(&mut source, usize::MAX), [(Some("a".to_owned()), 7)]);
}

/// Why a connection is refused.
fn refusal(connection: KafkaConnection, topic: &str) -> String {
    let settings = KafkaSinkSettings { connection, ..KafkaSinkSettings::new("", topic, TextFormat::Ndjson) };
    KafkaSink::connect(&schema(), settings).err().expect("it is refused").to_string()
}

#[test]
fn certificates_are_checked_on_both_sides() {
    let Some((brokers, certificates, topic)) = listener("TIDEMILL_KAFKA_TLS", "tls") else { return };
    let own =
        TlsIdentity { certificates: certificates.join("client.pem"), key: certificates.join("client.key") };
    let tls = TlsClientSettings { identity: Some(own), ..authority(&certificates, "ca.pem") };
    let trusted = KafkaConnection { tls: Some(tls.clone()), ..KafkaConnection::from(&brokers) };
    passes(&trusted, &topic);
    let other = TlsClientSettings { authorities: Some(certificates.join("other.pem")), ..tls };
    let text = refusal(KafkaConnection { tls: Some(other), ..trusted.clone() }, &topic);
    assert!(text.contains("certificate verify failed") && text.contains("tls_ca"), "{text}");
    let nobody = authority(&certificates, "ca.pem");
    let text = refusal(KafkaConnection { tls: Some(nobody), ..trusted.clone() }, &topic);
    assert!(text.contains("tls_cert"), "{text}");
    let missing = authority(&certificates, "none.pem");
    let text = refusal(KafkaConnection { tls: Some(missing), ..trusted.clone() }, &topic);
    assert!(text.contains("none.pem' cannot be read"), "{text}");
    let text = refusal(KafkaConnection { tls: None, ..trusted }, &topic);
    assert!(text.contains("TLS"), "{text}");
}

#[test]
fn users_log_in_with_each_mechanism_and_wrong_passwords_are_named() {
    for variable in ["TIDEMILL_KAFKA_SASL", "TIDEMILL_KAFKA_SASL_PLAINTEXT"] {
        let Some((brokers, certificates, topic)) = listener(variable, "sasl") else { return };
        let is_encrypted = variable == "TIDEMILL_KAFKA_SASL";
        let tls = is_encrypted.then(|| authority(&certificates, "ca.pem"));
        let known = |mechanism, password| KafkaConnection {
            tls: tls.clone(),
            login: reports(mechanism, password),
            ..KafkaConnection::from(&brokers)
        };
        for mechanism in [KafkaMechanism::Plain, KafkaMechanism::ScramSha256, KafkaMechanism::ScramSha512] {
            passes(&known(mechanism, "mill stone"), &format!("{topic}-{mechanism:?}"));
        }
        let text = refusal(known(KafkaMechanism::ScramSha512, "millstone"), &topic);
        assert!(text.contains("check sasl, user and password"), "{text}");
        assert!(!text.contains("millstone"), "{text}");
    }
}
