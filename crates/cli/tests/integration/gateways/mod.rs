//! Views with parts at gateways, which are processes of a server: any process is killed while rows come in, and each answer is
//! compared with the plain list of the rows that were sent.
#![cfg(all(unix, feature = "sql"))]

mod changing;
mod console;
mod fleet;
mod following;
mod hanging;
mod priorities;
mod sinks;
mod subscriber;

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::support::child::wait_until;
use crate::support::folder_with;
use fleet::{Car, Fleet, ROWS_PER_REQUEST};

/// Who is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Gateway(usize),
    Server,
}

fn kill(process: &str) {
    assert!(Command::new("kill").args(["-KILL", process]).status().expect("kill runs").success());
}

/// Rows come in at so many gateways while processes are killed.
fn survives_kills(gateways: usize, victims: &[Victim]) {
    let folder = folder_with(&[]);
    let requests = 40 * (victims.len() as u64 + 1);
    let mut fleet = Fleet::start(folder.path(), gateways, requests);
    for (turn, victim) in victims.iter().enumerate() {
        let due = (turn as u64 + 1) * 30;
        wait_until("requests are answered", || fleet.answered().iter().all(|answered| *answered >= due));
        thread::sleep(Duration::from_millis(turn as u64 * 37 % 100));
        match victim {
            Victim::Gateway(number) => kill(&fleet.process_of(*number)),
            Victim::Server => fleet.restart_server(),
        }
        // A gateway that is away is an error with its name; otherwise every answered row is there, of whole cycles.
        let answered = fleet.answered();
        wait_until("the view can be read again", || fleet.check_whole_cycles(&answered));
    }
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&vec![requests; gateways]));
    let cars = fleet.all_rows(requests);
    assert_eq!(cars.len() as u64, requests * ROWS_PER_REQUEST * 2 * gateways as u64);
    check_questions(&mut fleet, &cars);
}

/// Each question is answered as the plain list answers it.
fn check_questions(fleet: &mut Fleet, cars: &[Car]) {
    let rows = |condition: &str| {
        format!("SELECT n, x, y, gate FROM recent WHERE {condition} ORDER BY gate, abs(n), n")
    };
    let everything = fleet.cars("SELECT n, x, y, gate FROM recent ORDER BY gate, abs(n), n");
    assert_eq!(everything, cars);
    for n in [1, 7, -7, 399, 1_000_000] {
        let found = fleet.cars(&rows(&format!("n = {n}")));
        assert_eq!(found, cars.iter().filter(|car| car.n == n).cloned().collect::<Vec<_>>(), "key {n}");
    }
    for (x, y, side) in [(3.0, 4.0, 5.0), (0.0, 0.0, 1.0), (90.0, 20.0, 30.0)] {
        let inside = |car: &&Car| {
            let (x_max, y_max) = (x + side, y + side);
            car.x >= x && car.x <= x_max && car.y >= y && car.y <= y_max
        };
        let condition = format!("x BETWEEN {x} AND {} AND y BETWEEN {y} AND {}", x + side, y + side);
        let wanted: Vec<Car> = cars.iter().filter(inside).cloned().collect();
        assert_eq!(fleet.cars(&rows(&condition)), wanted, "{condition}");
        let statement =
            format!("SELECT st_distance(point, st_point({x}, {y})) AS far FROM recent ORDER BY far LIMIT 9");
        let found: Vec<f64> = fleet.numbers(&statement);
        let mut distances: Vec<f64> =
            cars.iter().map(|car| ((car.x - x).powi(2) + (car.y - y).powi(2)).sqrt()).collect();
        distances.sort_by(f64::total_cmp);
        assert_eq!(found, distances[..9], "the nearest to {x}, {y}");
    }
    // The times of a gateway's rows are its numbers in milliseconds.
    let early = "time < TIMESTAMP '2023-11-14 22:13:20.050'";
    let wanted: Vec<Car> = cars.iter().filter(|car| car.n.abs() < 50).cloned().collect();
    assert_eq!(fleet.cars(&rows(early)), wanted);
    let plan = fleet.text("EXPLAIN SELECT n FROM recent WHERE n = 7");
    assert!(plan.contains("gateway 'g0' as of cycle") && plan.contains("by key"), "{plan}");
}

/// A query that is prepared is planned once, and reads what there is when it is executed.
fn check_prepared(fleet: &mut Fleet) {
    fleet.text("PREPARE q (BIGINT) AS SELECT n, gate FROM recent WHERE n = $1 ORDER BY gate");
    assert_eq!(fleet.text("EXECUTE q (7)"), "7|g0\n7|g1");
    assert_eq!(fleet.text("EXECUTE q (-3)"), "-3|g0\n-3|g1");
    let plan = fleet.text("EXPLAIN EXECUTE q (7)");
    assert!(plan.contains("gateway 'g1' as of cycle") && plan.contains("by key"), "{plan}");
    fleet.text("BEGIN");
    assert_eq!(fleet.text("EXECUTE q (7)"), "7|g0\n7|g1");
    fleet.text("COMMIT; DEALLOCATE q");
}

#[test]
fn one_gateway_survives_kills() {
    survives_kills(1, &[Victim::Gateway(0), Victim::Server, Victim::Gateway(0)]);
}

#[test]
fn two_gateways_survive_kills() {
    survives_kills(2, &[Victim::Gateway(0), Victim::Gateway(1), Victim::Server, Victim::Gateway(1)]);
}

/// A gateway that cannot begin again, because a file is where its folder was.
#[test]
fn without_one_of_its_gateways_a_view_is_never_answered_and_others_are() {
    let folder = folder_with(&[]);
    let mut fleet = Fleet::start(folder.path(), 2, 5);
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[5, 5]));
    fleet.text("CREATE MATERIALIZED VIEW west WITH (start = 'earliest') AS SELECT count(*) AS n FROM cars0");
    wait_until("it is filled", || fleet.text("SELECT n FROM west") == "50");
    let gateways = folder.path().join("tides/gateways");
    fs::rename(gateways.join("g1"), gateways.join("kept")).unwrap();
    fs::write(gateways.join("g1"), "").unwrap();
    kill(&fleet.process_of(1));
    let statement = "SELECT count(*) FROM recent";
    // Its end takes a moment; until then it has all rows.
    wait_until("it is away", || match fleet.answer(statement) {
        Ok(rows) => {
            assert_eq!(rows, "200");
            false
        }
        Err(error) => error.contains("gateway 'g1' does not answer"),
    });
    for _ in 0..20 {
        let error = fleet.error(statement);
        assert!(error.contains("gateway 'g1'"), "{error}");
        assert_eq!(fleet.text("SELECT n FROM west"), "50");
    }
    let queries = fleet.text("SHOW QUERIES");
    assert!(queries.contains("views at g1|away") && queries.contains("west at g0|running"), "{queries}");
    fs::remove_file(gateways.join("g1")).unwrap();
    fs::rename(gateways.join("kept"), gateways.join("g1")).unwrap();
    wait_until("it is back with every row", || fleet.check_whole_cycles(&[5, 5]));
}

#[test]
fn a_gateway_that_is_away_is_an_error_with_its_name_and_what_it_is_asked_wrongly_too() {
    let folder = folder_with(&[]);
    let mut fleet = Fleet::start(folder.path(), 2, 5);
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[5, 5]));
    // One that is stopped says nothing; the other one alone would be fewer rows.
    let process = fleet.process_of(1);
    let signal = |name: &str| Command::new("kill").args([name, &process]).status().expect("kill runs");
    signal("-STOP");
    let statement = "SET statement_timeout = '500 ms'; SELECT count(*) FROM recent";
    let error = fleet.error(statement);
    signal("-CONT");
    assert!(error.contains("timeout") || error.contains("gateway 'g1'"), "{error}");
    fleet.text("SET statement_timeout = 0");
    wait_until("it goes on", || fleet.check_whole_cycles(&[5, 5]));

    for (statement, words) in [
        ("SELECT * FROM cars0", "enter at gateway 'g0', which keeps materialized views only"),
        ("SELECT * FROM recent AS OF CYCLE 3", "2 gateways that count cycles of their own"),
        (
            "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n
                FROM (SELECT n FROM cars0 UNION ALL SELECT n FROM cars1)",
            "gateways do not wait for each other",
        ),
        (
            "CREATE SOURCE wrong (n BIGINT) WITH (connector = 'tcp', listen = '127.0.0.1:1', format = 'csv', \
             gateway = 'West Coast')",
            "cannot be the name of a gateway",
        ),
    ] {
        let error = fleet.error(statement);
        assert!(error.contains(words), "{statement}: {error}");
    }
    // A view at one gateway may be any query, and one cycle of it is read together with another view there.
    fleet.text("CREATE MATERIALIZED VIEW total WITH (start = 'earliest') AS SELECT count(*) AS n FROM cars1");
    wait_until("it is filled", || fleet.text("SELECT n FROM total") == "50");
    let as_of = "SELECT count(*) FROM recent AS OF TIMESTAMP '2023-11-14 22:13:20.050'";
    assert_eq!(fleet.text(as_of), "200");
    let before = fleet.error("SELECT count(*) FROM recent AS OF TIMESTAMP '2023-11-14 22:13:20'");
    assert!(before.contains("have not arrived yet") && before.contains("72000"), "{before}");
    let later = fleet.error("SELECT n FROM total AS OF CYCLE 1000000");
    assert!(later.contains("55000") && later.contains("has not been committed yet"), "{later}");
    check_prepared(&mut fleet);
    fleet.text("DROP MATERIALIZED VIEW total");
    fleet.text("DROP MATERIALIZED VIEW recent");
    let gateways = fleet.text("SHOW GATEWAYS");
    assert!(gateways.is_empty(), "{gateways}");
}
