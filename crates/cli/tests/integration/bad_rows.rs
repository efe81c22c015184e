//! Points that one part of a durable pipeline can do nothing with: they are answered and journaled, the command is killed
//! and started again, and they cost neither the good points nor the other sinks anything.
#![cfg(feature = "sql")]

use tidemill_testing::postgres::Server;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::support::run::Run;
use crate::support::{folder_with, rows_of};
use tidemill_testing::noise::noise;
use tidemill_testing::ports::free_port;
use tidemill_testing::sender::Sender;

const START_MS: u64 = 1_700_000_000_000;
const REQUESTS: u64 = 60;
const POINTS: u64 = 10;

/// Good points `n = 0, 1, ...` of hosts `h0` to `h2`, 50 ms apart, and in some requests a bad one among them: `n` below 0.
fn bodies() -> Vec<String> {
    let largest = i64::MAX;
    let long = "x".repeat(200).replace('x', "q7~hW") + &noise(9000);
    let bad = [
        (7, "cpu,host=zero\0byte n=-1i,v=1i,d=1i".to_owned()),
        (14, "cpu n=-2i,v=1i,d=1i".to_owned()),
        (21, format!("cpu,host={long} n=-3i,v=1i,d=1i")),
        (28, format!("cpu,host=huge n=-4i,v={largest}i,d=1i\ncpu,host=huge n=-5i,v={largest}i,d=1i")),
        (35, format!("cpu,host=back n=-6i,v={largest}i,d=1i\ncpu,host=back n=-7i,v={largest}i,d=1i")),
        (42, format!("cpu,host=back n=-8i,v=-{largest}i,d=1i")),
        (49, "cpu,host=h1 n=-9i,v=1i,d=0i".to_owned()),
    ];
    let mut bodies: Vec<String> = (0..REQUESTS)
        .map(|request| {
            let mut body = String::new();
            for point in request * POINTS..(request + 1) * POINTS {
                let time = START_MS + point * 50;
                let _ = writeln!(body, "cpu,host=h{} n={point}i,v={point}i,d=2i {time}", point % 3);
                if point % POINTS == 4 {
                    let lines =
                        bad.iter().filter(|(at, _)| *at == request).flat_map(|(_, lines)| lines.lines());
                    lines.for_each(|line| writeln!(body, "{line} {time}").unwrap());
                }
            }
            body
        })
        .collect();
    bodies.push(format!("cpu,host=end n=-100i,v=0i,d=1i {}\n", START_MS + 600_000));
    bodies
}

fn script(port: u16, url: &str) -> String {
    let postgres = format!("connector = 'postgres', url = '{url}', retry_for = '60 seconds'");
    format!(
        "CREATE SOURCE m (host VARCHAR, n BIGINT, v BIGINT, d BIGINT, time TIMESTAMP NOT NULL,\n\
           WATERMARK FOR time AS time - INTERVAL '1 second')\n\
         WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{port}', durable = true);\n\
         SET snapshot_every = '20 ms';\n\
         CREATE SINK raw AS SELECT n, v FROM m WITH (connector = 'file', path = 'raw.csv');\n\
         CREATE SINK halves AS SELECT n, v / d AS half FROM m WITH (connector = 'file', path = 'halves.csv');\n\
         CREATE SINK windows AS SELECT window_start, host, count(*) AS points, sum(v) AS total\n\
           FROM tumble(TABLE(m), time, INTERVAL '10 seconds') GROUP BY window_start, host\n\
           WITH (connector = 'file', path = 'windows.csv');\n\
         CREATE SINK points AS SELECT host, n FROM m WITH ({postgres}, table = 'points');\n\
         CREATE SINK hosts AS SELECT host, count(*) AS points, sum(v) AS total FROM m GROUP BY host\n\
           WITH ({postgres}, table = 'hosts');\n"
    )
}

/// The numbers of the points of a file, those below 0 apart.
fn numbers(path: &Path) -> (Vec<i64>, Vec<i64>) {
    let number = |line: String| line.split(',').next().unwrap().parse::<i64>().unwrap();
    rows_of(path).into_iter().map(number).partition(|number| *number >= 0)
}

#[test]
fn bad_points_cost_neither_good_ones_nor_other_sinks_anything() {
    let Some(server) = Server::start() else { return };
    let port = free_port();
    let folder = folder_with(&[("p.sql", &script(port, &server.url()))]);
    let folder = folder.path();
    let mut run = Run::begin(folder);
    let sender = Sender::start(port, "agent-1", bodies());
    for answers in [8, 15, 23, 30, 37, 44, 51] {
        run.wait_until("so many are answered", || sender.answered() >= answers);
        run.kill();
        run = Run::begin(folder);
    }
    sender.join();
    let good: Vec<i64> = (0..(REQUESTS * POINTS) as i64).collect();
    let rows_of = |name: &str| numbers(&folder.join(name));
    let in_table = |table: &str| server.query(&format!("SELECT count(*) FROM {table}"));
    run.wait_until("the sinks have all", || {
        let has_end = |name: &str| rows_of(name).1.contains(&-100);
        has_end("raw.csv")
            && has_end("halves.csv")
            && server.query("SELECT count(*) FROM points WHERE n = -100") == "1"
            && server.query("SELECT count(*) FROM hosts WHERE host = 'end'") == "1"
    });
    run.interrupt();

    // The sinks that can take everything have everything.
    assert_eq!(rows_of("raw.csv"), (good.clone(), vec![-1, -2, -3, -4, -5, -6, -7, -8, -9, -100]));
    // A division by zero costs its row, in the sink that divides.
    assert_eq!(rows_of("halves.csv"), (good.clone(), vec![-1, -2, -3, -4, -5, -6, -7, -8, -100]));
    // A sum that does not fit is NULL in its window, and costs the others nothing.
    let windows = fs::read_to_string(folder.join("windows.csv")).unwrap();
    for row in [":30,huge,2,", ":30,back,2,", &format!(":40,back,1,-{}", i64::MAX)] {
        assert!(windows.lines().any(|line| line.ends_with(row)), "no row {row} in {windows}");
    }
    let totals = windows.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',').skip(1);
        let host = fields.next()?;
        let total = fields.nth(1)?.parse::<i64>().ok()?;
        (host.len() == 2).then_some(total)
    });
    assert_eq!(totals.sum::<i64>(), good.iter().sum::<i64>() + 1, "{windows}");
    // A text with a character of code 0 is kept among the dead letters, once; the others are in the table, once.
    let found = server.query("SELECT n FROM points WHERE n >= 0 ORDER BY n");
    assert_eq!(found, good.iter().map(i64::to_string).collect::<Vec<_>>().join("\n"));
    let letters = "SELECT row_json->>'n', reason FROM tidemill_dead_letters WHERE sink = 'points'";
    let found = server.query(letters);
    assert!(found.starts_with("-1|") && found.contains("code 0") && found.lines().count() == 1, "{found}");
    assert_eq!(in_table("points"), (good.len() + 9).to_string());
    // In the table of hosts are those that can be a key, each with its last state: a sum that does not fit is NULL, and is
    // back when it fits.
    let hosts = server.query("SELECT host, points, total FROM hosts ORDER BY host");
    let of_host = |host: usize| good.iter().filter(|n| **n as usize % 3 == host).copied().collect::<Vec<_>>();
    let expected = |host: usize, more: i64| {
        let points = of_host(host);
        format!("h{host}|{}|{}", points.len() as i64 + more, points.iter().sum::<i64>() + more)
    };
    let expected = [
        format!("back|3|{}", i64::MAX),
        "end|1|0".into(),
        expected(0, 0),
        expected(1, 1),
        expected(2, 0),
        "huge|2|".into(),
    ];
    assert_eq!(hosts, expected.join("\n"));
    let reasons = server.query("SELECT DISTINCT reason FROM tidemill_dead_letters WHERE sink = 'hosts'");
    for reason in ["code 0", "the key is NULL", "index row"] {
        assert!(reasons.contains(reason), "{reasons}");
    }
}
