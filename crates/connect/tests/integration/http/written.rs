//! What is written, when it is answered, and with what.

use std::io::Write;
use std::thread;
use std::time::Duration;

use tidemill_connect::formats::Format;
use tidemill_connect::http::HttpSettings;
use tidemill_core::source::{Polled, Request, Source};

use super::client::{WAIT, answer, connect, listen, post, request_of, rows, send, settings};

#[test]
fn an_answer_comes_when_the_rows_were_taken() {
    let (mut source, address) = listen(settings());
    let body = b"cpu,host=a usage=1\ncpu,host=b usage=2\n";
    let sender = thread::spawn(move || send(address, &post("/api/v2/write?precision=s&bucket=x", "", body)));
    assert_eq!(rows(&mut source), 2);
    assert_eq!(sender.join().expect("sent").0, 204);
}

#[test]
fn with_acknowledgement_the_answer_waits_for_it() {
    let (mut source, address) = listen(HttpSettings { acknowledge: true, ..settings() });
    let mut first = connect(address);
    first.write_all(&post("/write", "", b"cpu usage=1\ncpu usage=2\n")).expect("sent");
    assert_eq!(rows(&mut source), 2);
    let mut second = connect(address);
    second.write_all(&post("/write", "", b"cpu usage=3\n")).expect("sent");
    assert_eq!(rows(&mut source), 1);
    source.acknowledge(1);
    first.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    assert!(first.peek(&mut [0]).is_err());
    source.acknowledge(2);
    first.set_read_timeout(Some(WAIT)).expect("set");
    assert_eq!(answer(&mut first).0, 204);
    second.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    assert!(second.peek(&mut [0]).is_err());
    source.acknowledge(3);
    second.set_read_timeout(Some(WAIT)).expect("set");
    assert_eq!(answer(&mut second).0, 204);
}

#[test]
fn a_numbered_request_is_one_batch_however_often_it_comes() {
    let (mut source, address) = listen(HttpSettings { acknowledge: true, ..settings() });
    let lines: String = (0..20_000).map(|index| format!("cpu usage={index}\n")).collect();
    let request =
        post("/write", "X-Tidemill-Client: agent-7\r\nX-Tidemill-Sequence: 12\r\n", lines.as_bytes());
    let plain = thread::spawn(move || send(address, &post("/write", "", b"cpu usage=1\n")));
    assert_eq!(rows(&mut source), 1);
    for attempt in 1..=2 {
        let request = request.clone();
        let sender = thread::spawn(move || send(address, &request));
        let agent = Request { client: "agent-7".into(), sequence: 12 };
        assert_eq!(request_of(&mut source), (20_000, agent));
        source.acknowledge(1 + attempt * 20_000);
        assert_eq!(sender.join().expect("sent").0, 204);
    }
    assert_eq!(plain.join().expect("sent").0, 204);
}

#[test]
fn a_number_behind_another_is_a_conflict_once_that_one_is_safe() {
    let (mut source, address) = listen(HttpSettings { acknowledge: true, ..settings() });
    let request = |sequence: u64| {
        let headers = format!("X-Tidemill-Client: agent-7\r\nX-Tidemill-Sequence: {sequence}\r\n");
        post("/write", &headers, b"cpu usage=1\n")
    };
    let mut first = connect(address);
    first.write_all(&request(12)).expect("sent");
    assert_eq!(rows(&mut source), 1);
    let mut second = connect(address);
    second.write_all(&request(3)).expect("sent");
    assert_eq!(rows(&mut source), 1);
    source.refuse(12);
    second.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    assert!(second.peek(&mut [0]).is_err(), "12 is not safe yet");
    source.acknowledge(2);
    assert_eq!(answer(&mut first).0, 204);
    second.set_read_timeout(Some(WAIT)).expect("set");
    let (status, _, body) = answer(&mut second);
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &body["code"], &body["last"]), (409, &"conflict".into(), &12.into()));
    assert!(body["message"].as_str().expect("a text").contains("less than 12"), "{body}");
}

#[test]
fn good_lines_count_and_bad_ones_are_told() {
    let (mut source, address) = listen(settings());
    let body = b"cpu usage=1\ncpu usage=x\ncpu usage=2\nbroken\n";
    let sender = thread::spawn(move || send(address, &post("/api/v2/write", "", body)));
    assert_eq!(rows(&mut source), 2);
    let (status, _, body) = sender.join().expect("sent");
    assert_eq!(status, 400);
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&body["code"], &body["line"]), (&"invalid".into(), &2.into()));
    let message = body["message"].as_str().expect("a text");
    assert!(
        message.starts_with("partial write: 2 rows written, 2 lines skipped: line 2: 'x' is not a value"),
        "{message}"
    );
    let faults = source.faults();
    assert_eq!(faults.count, 2);
    assert!(faults.samples[1].starts_with("http 127.0.0.1:") && faults.samples[1].contains(", line 4: "));
}

#[test]
fn ndjson_and_gzip_are_taken() {
    let (mut source, address) = listen(settings());
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"{\"host\": \"a\", \"usage\": 1}\n{\"usage\": 2}\n{}\n").expect("packed");
    let body = packed.finish().expect("packed");
    let headers = "Content-Type: application/x-ndjson; charset=utf-8\r\nContent-Encoding: gzip\r\n";
    let request = post("/write", headers, &body);
    let sender = thread::spawn(move || send(address, &request));
    assert_eq!(rows(&mut source), 3);
    assert_eq!(sender.join().expect("sent").0, 204);
}

#[test]
fn one_connection_serves_many_requests_and_many_send_at_once() {
    let (mut source, address) = listen(settings());
    let senders: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(move || {
                let mut stream = connect(address);
                for index in 0..50 {
                    let request = post("/api/v2/write", "", format!("cpu usage={index}\n").as_bytes());
                    // In two pieces, the second of which begins anywhere.
                    let (first, second) = request.split_at(index * request.len() / 50);
                    stream.write_all(first).and_then(|()| stream.write_all(second)).expect("sent");
                    assert_eq!(answer(&mut stream).0, 204);
                }
            })
        })
        .collect();
    let mut all = 0;
    while all < 400 {
        all += rows(&mut source);
    }
    senders.into_iter().for_each(|sender| sender.join().expect("sent"));
    assert!(matches!(source.poll(Duration::ZERO), Ok(Polled::Nothing)));
}

#[test]
fn arrays_and_objects_over_several_lines_are_taken() {
    let (mut source, address) = listen(settings());
    let bodies = [
        (r#"[{"host": "a", "usage": 1}, {"host": "b", "usage": "x"}, {"host": "c", "usage": 3}]"#, 2),
        ("{\n  \"host\": \"d\",\n  \"usage\": 4\n}\n{\n  \"host\": \"e\",\n  \"usage\": 5\n}\n", 2),
        ("[{\"host\": \"f\"}", 0),
        ("{\"host\": \"g\", \"usage\": 6}\n", 1),
    ];
    let client = std::thread::spawn(move || {
        let mut stream = connect(address);
        bodies.map(|(body, _)| {
            let request =
                post("/write", "Content-Type: application/json; charset=utf-8\r\n", body.as_bytes());
            std::io::Write::write_all(&mut stream, &request).unwrap();
            let (status, _, body) = answer(&mut stream);
            (status, body)
        })
    });
    let mut rows = 0;
    while !client.is_finished() {
        if let Polled::Rows(batch) = source.poll(std::time::Duration::from_millis(5)).unwrap() {
            rows += batch.num_rows();
        }
    }
    let answers = client.join().unwrap();
    assert_eq!(rows, bodies.iter().map(|(_, rows)| rows).sum::<usize>());
    assert_eq!(answers.each_ref().map(|(status, _)| *status), [400, 204, 400, 204]);
    assert!(
        answers[0].1.contains("partial write: 2 rows written, 1 line skipped: object 2: column 'usage'"),
        "{answers:?}"
    );
    assert!(
        answers[2].1.contains("the body is not valid JSON: the array has no end; send an array"),
        "{answers:?}"
    );
}

#[test]
fn keys_that_match_no_column_are_told_with_the_answer() {
    let (mut source, address) = listen(HttpSettings { formats: vec![Format::Json], ..settings() });
    let mut stream = connect(address);
    let mut posted = |body: &str| {
        let request = post("/write", "Content-Type: application/json\r\n", body.as_bytes());
        stream.write_all(&request).expect("sent");
        assert_eq!(rows(&mut source), 1);
        let (status, head, _) = answer(&mut stream);
        (status, head.split("x-tidemill-notice: ").nth(1).map(|rest| rest.lines().next().unwrap().to_owned()))
    };
    assert_eq!(posted("{\"host\":\"a\",\"Usage\":1}"), (204, None));
    let notice = "line 1: an object has no key that matches a column; its keys are \\u00fcsage; the columns are host, \
                  usage";
    assert_eq!(posted("{\"üsage\":1}"), (204, Some(notice.to_owned())));
    assert_eq!(posted("{\"üsage\":1}"), (204, None), "the tenth is told next");
    let told = source.faults().notices.newest().to_vec();
    // Only a header must be ASCII.
    let notice = notice.replace("\\u00fc", "ü");
    assert!(
        told.len() == 1 && told[0].starts_with("http 127.0.0.1") && told[0].ends_with(&notice),
        "{told:?}"
    );
}
