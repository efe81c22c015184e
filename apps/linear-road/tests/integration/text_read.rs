//! Input lines: every valid one is read back exactly, every bad one is reported precisely, none panics.

use proptest::prelude::*;
use tidemill_connect::{Line, LineChunk, LineFile};
use tidemill_linear_road::bad_lines::BadLines;
use tidemill_linear_road::event::*;
use tidemill_linear_road::line_error::LineReason;
use tidemill_linear_road::text_read::{InputParser, QID_MAX, TimeOrder, parse_event, parse_history_row};

const REPORT: &str = "0,17,4711,55,3,2,1,10,52803,-1,-1,-1,-1,-1,-1";

fn message(line: &str) -> String {
    parse_event(line.as_bytes()).unwrap_err().to_string()
}

/// The report's line with one field replaced.
fn with(field: usize, value: &str) -> String {
    let mut fields: Vec<&str> = REPORT.split(',').collect();
    fields[field] = value;
    fields.join(",")
}

#[test]
fn the_four_types_are_read() {
    let report = Report { time: 17, vid: 4711, speed: 55, xway: 3, lane: 2, dir: 1, seg: 10, pos: 52803 };
    assert_eq!(parse_event(REPORT.as_bytes()), Ok(Event::Report(report)));
    let balance = BalanceQuery { time: 17, vid: 4711, qid: 99 };
    assert_eq!(parse_event(b"2,17,4711,55,3,2,1,10,52803,99,-1,-1,-1,-1,-1"), Ok(Event::Balance(balance)));
    let expenditure = ExpenditureQuery { time: 17, vid: 4711, xway: 3, qid: 99, day: 69 };
    assert_eq!(
        parse_event(b"3,17,4711,-1,3,-1,-1,-1,-1,99,-1,-1,-1,-1,69"),
        Ok(Event::Expenditure(expenditure))
    );
    let travel_time = TravelTimeQuery {
        time: 17,
        vid: 4711,
        xway: 3,
        qid: 99,
        seg_from: 0,
        seg_to: 99,
        day_of_week: 7,
        minute_of_day: 1440,
    };
    assert_eq!(
        parse_event(b"4,17,4711,-1,3,-1,-1,-1,-1,99,0,99,7,1440,-1"),
        Ok(Event::TravelTime(travel_time))
    );
    let history = HistoryRow { vid: 125, day: 24, xway: 0, toll: 79 };
    assert_eq!(parse_history_row(b"125,24,0,79"), Ok(history));
}

#[test]
fn unused_fields_may_hold_any_integer_but_nothing_else() {
    for value in ["0", "-7", "99999999999999999999999999", "-99999999999999999999999999"] {
        assert!(parse_event(with(10, value).as_bytes()).is_ok(), "{value}");
    }
    assert_eq!(message(&with(14, "x")), "Day (character 44): not an integer");
    assert_eq!(message(&with(9, "")), "QID (character 29): empty field");
    // The segment is not compared with the position.
    assert!(parse_event(with(7, "11").as_bytes()).is_ok());
}

#[test]
fn errors_name_field_column_and_reason() {
    assert_eq!(message(""), "empty line");
    assert_eq!(message("hello"), "wrong number of fields: 1 instead of 15");
    assert_eq!(message(&(REPORT.to_owned() + ",")), "wrong number of fields: 16 instead of 15");
    assert_eq!(message(&with(0, "1")), "Type (character 1): unknown type 1");
    assert_eq!(message(&with(0, "5")), "Type (character 1): unknown type 5");
    assert_eq!(message(&with(1, "10800")), "Time (character 3): out of range: 10800, allowed is 0 to 10799");
    assert_eq!(message(&with(1, "-1")), "Time (character 3): out of range: -1, allowed is 0 to 10799");
    assert_eq!(
        message(&with(2, "4294967295")),
        "VID (character 6): out of range: 4294967295, allowed is 0 to 4294967294"
    );
    assert_eq!(message(&with(3, "101")), "Spd (character 11): out of range: 101, allowed is 0 to 100");
    assert_eq!(message(&with(4, "65535")), "XWay (character 14): out of range: 65535, allowed is 0 to 65534");
    assert_eq!(message(&with(5, "5")), "Lane (character 16): out of range: 5, allowed is 0 to 4");
    assert_eq!(message(&with(6, "2")), "Dir (character 18): out of range: 2, allowed is 0 to 1");
    assert_eq!(message(&with(7, "100")), "Seg (character 20): out of range: 100, allowed is 0 to 99");
    assert_eq!(
        message(&with(8, "528000")),
        "Pos (character 23): out of range: 528000, allowed is 0 to 527999"
    );
    for value in [" 17", "17 ", "+17", "1.7", "x", "-", "\u{ff11}"] {
        assert_eq!(message(&with(1, value)), "Time (character 3): not an integer", "{value:?}");
    }
    let beyond = "Time (character 3): out of range: 9223372036854775807 or beyond, allowed is 0 to 10799";
    assert_eq!(message(&with(1, "18446744073709551617")), beyond);
    let qid = QID_MAX as u64 + 1;
    assert!(
        message(&format!("2,17,1,-1,-1,-1,-1,-1,-1,{qid},-1,-1,-1,-1,-1"))
            .contains("QID (character 26): out of range")
    );
    assert!(
        message("3,17,1,-1,0,-1,-1,-1,-1,9,-1,-1,-1,-1,0").contains("Day (character 39): out of range: 0")
    );
    assert!(
        message("4,17,1,-1,0,-1,-1,-1,-1,9,0,0,1,1441,-1").contains("TOD (character 33): out of range: 1441")
    );
    let error = parse_history_row(b"125,0,0,79").unwrap_err().to_string();
    assert_eq!(error, "Day (character 5): out of range: 0, allowed is 1 to 69");
    assert_eq!(
        parse_history_row(b"1,2,3").unwrap_err().to_string(),
        "wrong number of fields: 3 instead of 4"
    );
}

#[test]
fn time_may_stand_still_but_not_go_back() {
    let mut order = TimeOrder::default();
    assert!([0, 18, 18].into_iter().all(|time| order.check(time).is_ok()));
    assert_eq!(
        order.check(17).unwrap_err().to_string(),
        "Time (character 3): time goes backwards: 17 after 18"
    );
    assert!(order.check(18).is_ok());
}

#[test]
fn only_a_line_that_does_not_parse_is_truncated() {
    let parse = |bytes: &[u8]| {
        let chunk = LineChunk { bytes, first_line: 1, ends_with_newline: false, over_long: None };
        InputParser::default().parse(&chunk.lines().last().unwrap())
    };
    assert!(parse(REPORT.as_bytes()).is_ok());
    let error = parse(&REPORT.as_bytes()[..20]).unwrap_err();
    assert_eq!(error.reason, LineReason::Truncated);
    let over_long = Line { number: 1, bytes: REPORT.as_bytes(), terminated: true, over_long: Some(70_000) };
    let error = InputParser::default().parse(&over_long).unwrap_err();
    assert_eq!(error.to_string(), "over-long line: 70000 bytes");
}

#[test]
fn bad_lines_are_counted_and_sampled_and_the_rest_goes_on() {
    let mut text = String::new();
    for number in 0..30 {
        text += &with(1, &number.to_string());
        text += "\r\n";
        text += if number % 2 == 0 { "0,1,\x07\n" } else { "0,a,1,1,1,1,1,1,1,1,1,1,1,1,1\n" };
    }
    text += &"9".repeat(100_000);
    text += "\n";
    text += &with(1, "28");
    text += "\n0,30";
    let read = |mut bad_lines: BadLines| {
        let mut file =
            LineFile::from_reader("in.csv", std::io::Cursor::new(text.clone().into_bytes())).unwrap();
        let (mut parser, mut good) = (InputParser::default(), 0);
        while let Some(chunk) = file.next_chunk().unwrap() {
            for line in chunk.lines() {
                match parser.parse(&line) {
                    Ok(_) => good += 1,
                    Err(error) => bad_lines.record("in.csv", &line, error)?,
                }
            }
        }
        Ok::<_, tidemill_linear_road::bad_lines::BadLine>((good, bad_lines))
    };
    let (good, bad_lines) = read(BadLines::new()).unwrap();
    assert_eq!((good, bad_lines.total(), bad_lines.samples().len()), (30, 33, 10));
    let counts: Vec<_> = bad_lines.counts().collect();
    let expected = [
        ("not an integer", 15),
        ("over-long line", 1),
        ("time goes backwards", 1),
        ("truncated line", 1),
        ("wrong number of fields", 15),
    ];
    assert_eq!(counts, expected);
    let report = bad_lines.to_string();
    assert!(report.starts_with("33 bad lines: 15 not an integer, 1 over-long line"), "{report}");
    assert!(
        report.contains("\n  in.csv:2: wrong number of fields: 3 instead of 15: 0,1,\\x07\n"),
        "{report}"
    );
    assert!(report.ends_with("\n  and 23 more"), "{report}");
    assert_eq!(read(BadLines::strict()).unwrap_err().line, 2);
    assert_eq!(BadLines::new().to_string(), "");
}

#[test]
fn the_shared_input_has_no_bad_line() {
    let path = std::path::Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap())
        .join("../../../shared/data/linear-road");
    if !path.is_dir() {
        println!("skipped: the shared data is not at {}", path.display());
        return;
    }
    let mut counts = [0; 4];
    let mut parser = InputParser::default();
    let mut file = LineFile::open(path.join("input.csv.zst")).unwrap();
    while let Some(chunk) = file.next_chunk().unwrap() {
        for line in chunk.lines() {
            match parser.parse(&line).unwrap() {
                Event::Report(report) => {
                    assert_eq!(u32::from(report.seg), report.pos / SEGMENT_FEET);
                    counts[0] += 1;
                }
                Event::Balance(_) => counts[1] += 1,
                Event::Expenditure(_) => counts[2] += 1,
                Event::TravelTime(_) => counts[3] += 1,
            }
        }
    }
    assert_eq!(counts, [1_997_347, 9_918, 1_972, 7_947]);
}

fn any_event() -> impl Strategy<Value = Event> {
    let common = (0..=TIME_MAX_S, 0..=VID_MAX, 0..=XWAY_MAX, 0..=QID_MAX as u64);
    let report = (0..=100u8, 0..=4u8, 0..=1u8, 0..=99u8, 0..=POSITION_MAX);
    let trip = (0..=99u8, 0..=99u8, 1..=7u8, 1..=1440u16, 1..=69u8);
    (0..4, common, report, trip).prop_map(|(kind, (time, vid, xway, qid), report, trip)| {
        let (speed, lane, dir, seg, pos) = report;
        let (seg_from, seg_to, day_of_week, minute_of_day, day) = trip;
        match kind {
            0 => Event::Report(Report { time, vid, speed, xway, lane, dir, seg, pos }),
            1 => Event::Balance(BalanceQuery { time, vid, qid }),
            2 => Event::Expenditure(ExpenditureQuery { time, vid, xway, qid, day }),
            _ => Event::TravelTime(TravelTimeQuery {
                time,
                vid,
                xway,
                qid,
                seg_from,
                seg_to,
                day_of_week,
                minute_of_day,
            }),
        }
    })
}

/// Writes an event the plain way, with `unused` in the fields that its type does not use.
fn write(event: &Event, unused: &str) -> String {
    let used: Vec<(usize, u64)> = match *event {
        Event::Report(report) => vec![
            (0, 0),
            (2, report.vid.into()),
            (3, report.speed.into()),
            (4, report.xway.into()),
            (5, report.lane.into()),
            (6, report.dir.into()),
            (7, report.seg.into()),
            (8, report.pos.into()),
        ],
        Event::Balance(query) => vec![(0, 2), (2, query.vid.into()), (9, query.qid)],
        Event::Expenditure(query) => {
            let (vid, xway, day) = (query.vid.into(), query.xway.into(), query.day.into());
            vec![(0, 3), (2, vid), (4, xway), (9, query.qid), (14, day)]
        }
        Event::TravelTime(query) => vec![
            (0, 4),
            (2, query.vid.into()),
            (4, query.xway.into()),
            (9, query.qid),
            (10, query.seg_from.into()),
            (11, query.seg_to.into()),
            (12, query.day_of_week.into()),
            (13, query.minute_of_day.into()),
        ],
    };
    let mut fields = vec![unused.to_owned(); 15];
    fields[1] = event.time().to_string();
    for (index, value) in used {
        fields[index] = value.to_string();
    }
    fields.join(",")
}

proptest! {
    #[test]
    fn valid_lines_are_read_back(event in any_event(), unused in "-?[0-9]{1,20}") {
        prop_assert_eq!(parse_event(write(&event, "-1").as_bytes()), Ok(event));
        prop_assert_eq!(parse_event(write(&event, &unused).as_bytes()), Ok(event));
    }

    #[test]
    fn history_rows_are_read_back(vid in 0..=VID_MAX, day in 1..=69u8, xway in 0..=XWAY_MAX, toll: u32) {
        let row = HistoryRow { vid, day, xway, toll };
        prop_assert_eq!(parse_history_row(format!("{vid},{day},{xway},{toll}").as_bytes()), Ok(row));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assert!(parse_event(&bytes).is_err());
        let _ = parse_history_row(&bytes);
    }

    #[test]
    fn damaged_lines_are_read_or_told_within_the_line(
        event in any_event(),
        place: prop::sample::Index,
        byte in prop_oneof![any::<u8>(), Just(b','), Just(b'-'), Just(b'9')],
        insert: bool,
    ) {
        let mut line = write(&event, "-1").into_bytes();
        let place = place.index(line.len());
        if insert { line.insert(place, byte) } else { line[place] = byte }
        if let Err(error) = parse_event(&line) {
            prop_assert!((1..=line.len() + 1).contains(&error.column));
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
