//! `tidemill trips` from end to end, and the same grouping in SQL.

mod support;

use std::fs;
use std::path::Path;

use support::*;
use tempfile::TempDir;

fn run(folder: &Path, arguments: &str) -> Ended {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    tidemill(folder, &arguments).output().expect("the command starts").into()
}

fn sql(folder: &Path, workers: u32, query: &str) -> String {
    let workers = workers.to_string();
    let arguments = ["sql", "--format", "csv", "--workers", &workers, "-c", query];
    let ended: Ended = tidemill(folder, &arguments).output().expect("it starts").into();
    ended.expect(0).stdout
}

/// Who shares with whom, and when, as SQL writes it.
const SHARES: &str = "SELECT CAST(date_part('epoch', grouped) AS BIGINT) AS grouped_s, lead, members, id";

/// The same columns of the file of shares.
fn shares_of(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let line = |line: &str| line.split(',').take(4).collect::<Vec<_>>().join(",");
    text.lines().skip(1).map(line).collect()
}

#[cfg(feature = "sql")]
#[test]
fn a_day_is_grouped_by_the_command_and_in_sql_alike() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "trips generate --people 5000 --seed 3 --out requests.csv")
        .expect(0)
        .shows(&["requests, the trips of at least 3 km, out of"]);
    for (greed, order) in [("arrival", "arrival"), ("cheapest", "cheapest")] {
        let arguments =
            format!("trips run --input requests.csv --partition none --order {order} --out shares.csv");
        run(folder, &arguments).expect(0).shows(&["saved", "done: ", "shares are in shares.csv"]);
        let expected = shares_of(&folder.join("shares.csv"));
        assert!(expected.iter().filter(|line| line.contains(",4,")).count() > 40);
        for workers in [1, 2, 5] {
            let query = format!(
                "{SHARES} FROM group_trips(trip_requests(people => 5000, seed => 3), greed => '{greed}', \
                 max_share => 4, min_savings => 0.2, cycle => INTERVAL '1 minute')"
            );
            let rows = sql(folder, workers, &query);
            let rows: Vec<String> = rows.lines().skip(1).map(str::to_owned).collect();
            assert!(rows == expected, "{greed}, {workers} workers: {:?} {:?}", &rows[..4], &expected[..4]);
        }
    }
}

#[cfg(feature = "sql")]
#[test]
fn requests_are_grouped_by_region_in_sql() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let from = "FROM mergestream(group_trips(splitstream(
        (SELECT * FROM adaptive_regions(trip_requests(people => 5000, seed => 3), requested,
             origin_x_m, origin_y_m, destination_x_m, destination_y_m,
             method => 'kd_tree', levels => 4, every => INTERVAL '10 minutes')),
        16, route => region), max_share => 4, min_savings => 0.2))";
    run(folder, "trips generate --people 5000 --seed 3 --out requests.csv").expect(0);
    run(folder, "trips run --input requests.csv --partition akd --groups 16 --out shares.csv").expect(0);
    let mut expected = shares_of(&folder.join("shares.csv"));
    expected.sort();
    for workers in [1, 2, 5] {
        let rows = sql(folder, workers, &format!("{SHARES} {from}"));
        let mut rows: Vec<String> = rows.lines().skip(1).map(str::to_owned).collect();
        rows.sort();
        assert!(rows == expected, "{workers} workers: {} and {} rows", rows.len(), expected.len());
    }
}

#[cfg(feature = "sql")]
#[test]
fn wrong_calls_in_sql_say_what_would_be_right() {
    let folder = TempDir::new().unwrap();
    let wrong = |query: &str| -> Ended {
        tidemill(folder.path(), &["sql", "-c", query]).output().expect("it starts").into()
    };
    wrong("SELECT * FROM group_trips((SELECT id, requested FROM trip_requests(people => 10)))")
        .expect(2)
        .tells(&[
            "group_trips() takes one table with the columns id BIGINT, requested TIMESTAMP",
            "cast them accordingly",
        ]);
    wrong("SELECT * FROM group_trips(trip_requests(people => 10), greed => 'best')")
        .expect(2)
        .tells(&["greed must be 'arrival' or 'cheapest', found 'best'"]);
    wrong("SELECT * FROM group_trips(trip_requests(people => 10), max_share => 9)").expect(2).tells(&["8"]);
}

#[test]
fn wrong_arguments_and_inputs_are_refused() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "trips run --input none.csv").expect(2).tells(&["none.csv: no such file"]);
    fs::write(folder.join("requests.csv"), "7,60,660,0,0,5000,0\nx\n").unwrap();
    run(folder, "trips run --input requests.csv --partition spq").expect(2).tells(&["--history"]);
    run(folder, "trips run --input requests.csv --partition quad").expect(2).tells(&["none, rr, spq"]);
    run(folder, "trips run --input requests.csv --partition apq --groups 17")
        .expect(2)
        .tells(&["choose 1 to 16"]);
    run(folder, "trips run --input requests.csv --min-savings 2").expect(2).tells(&["from 0 to 1"]);
    run(folder, "trips run --input requests.csv --min-savings 0.8").expect(0).shows(&[
        "1 bad line left out",
        "requests.csv, line 2",
        "nobody can save more than 75 %",
    ]);
    run(folder, "trips run --input requests.csv --partition skd --history requests.csv").expect(0);
    run(folder, "trips run --input requests.csv --out no/such/folder.csv").expect(1).tells(&["cannot write"]);
}

#[test]
fn the_experiments_are_told_and_drawn() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let told = run(folder, "trips bench --people 5000 --pictures pictures").expect(0);
    told.shows(&[
        "## One group",
        "| akd |",
        "## What the paper says",
        "savings rise with the load",
        "pictures are in",
    ]);
    for name in ["time.svg", "savings.svg"] {
        assert!(fs::read_to_string(folder.join("pictures").join(name)).unwrap().contains(">weighed</text>"));
    }
}

#[cfg(feature = "sql")]
#[test]
fn trips_that_wait_count_against_the_memory() {
    // Nobody's patience ends.
    let text = "SET memory_limit = '500 KB'; SET cycle_events = 500; \
                SELECT lead FROM group_trips((SELECT id, requested, requested + INTERVAL '30 days' AS expires, \
                origin_x_m, origin_y_m, destination_x_m, destination_y_m FROM trip_requests(people => 50000)))";
    let folder = folder_with(&[]);
    let ended = ended(folder.path(), &["sql", "-c", text]);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    ended.tells(&["group_trips", "its state takes", "memory_limit"]);
}
