//! `tidemill trips` from end to end, and the same grouping in SQL.

use std::fs;
use std::path::Path;

use crate::support::*;
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

/// Offers of rides beside requests: the car of offer 1 takes request 2 along; request 3 would be too much of a detour for
/// it, and fits offer 4, whose owner leaves the car at home if somebody else comes by.
#[cfg(feature = "sql")]
#[test]
fn rides_are_shared_in_sql() {
    let requests = "id,requested,expires,origin_x_m,origin_y_m,destination_x_m,destination_y_m\n\
        2,1970-01-01T00:00:10,1970-01-01T00:10:10,100,0,5100,0\n\
        3,1970-01-01T00:00:10,1970-01-01T00:10:10,9000,0,1000,0\n";
    let offers = "id,requested,expires,origin_x_m,origin_y_m,destination_x_m,destination_y_m,\
        leaves_car,extra_cost_max,seats\n\
        1,1970-01-01T00:00:10,1970-01-01T00:10:10,0,0,5000,0,false,0.1,3\n\
        4,1970-01-01T00:02:10,1970-01-01T00:20:10,0,9000,0,1000,true,0.1,1\n";
    let folder = folder_with(&[("requests.csv", requests), ("offers.csv", offers)]);
    let columns = "id BIGINT, requested TIMESTAMP, expires TIMESTAMP, origin_x_m DOUBLE, origin_y_m DOUBLE, \
        destination_x_m DOUBLE, destination_y_m DOUBLE";
    let query = format!(
        "CREATE SOURCE requests ({columns}, WATERMARK FOR requested AS requested) WITH (path = 'requests.csv');
         CREATE SOURCE offers ({columns}, leaves_car BOOLEAN, extra_cost_max DOUBLE, seats BIGINT,
            WATERMARK FOR requested AS requested) WITH (path = 'offers.csv');
         {SHARES}, round(savings, 2) AS savings
         FROM share_rides(TABLE(requests), TABLE(offers), cycle => INTERVAL '1 minute')"
    );
    for workers in [1, 2, 5] {
        let rows = sql(folder.path(), workers, &query);
        let mut rows: Vec<&str> = rows.lines().skip(1).collect();
        rows.sort_unstable();
        // Request 3 is given up in the cycle before it expires; offer 4 finds nobody and goes alone.
        assert_eq!(
            rows,
            ["1200,4,1,4,0.0", "60,1,2,1,0.48", "60,1,2,2,0.48", "600,,,3,"],
            "{workers} workers"
        );
    }
    let wrong = |call: &str| -> Ended {
        let query = query.split("SELECT").next().unwrap().to_owned() + "SELECT * FROM " + call;
        tidemill(folder.path(), &["sql", "-c", &query]).output().expect("it starts").into()
    };
    wrong("share_rides(TABLE(requests))")
        .expect(2)
        .tells(&["takes two tables, of requests and of offers; found 1"]);
    wrong("share_rides(TABLE(requests), TABLE(requests))").expect(2).tells(&[
        "a table of offers with the columns",
        "leaves_car BOOLEAN, extra_cost_max DOUBLE, seats BIGINT",
    ]);
    wrong("share_rides(TABLE(requests), TABLE(offers), cycle => INTERVAL '0 s')")
        .expect(2)
        .tells(&["positive interval"]);
    wrong("share_rides(TABLE(requests), (SELECT * REPLACE (9 AS seats) FROM offers))")
        .tells(&["offer 1: the offer has 9 seats; a car has 1 to 7 for others"]);
}

/// The same rides from the command and from SQL, with any number of workers.
#[cfg(feature = "sql")]
#[test]
fn rides_are_shared_by_the_command_and_in_sql_alike() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "trips generate --people 8000 --seed 3 --out requests.csv --offers offers.csv --drivers 30")
        .expect(0)
        .shows(&["requests.csv: ", "offers.csv: ", "together the trips of at least 3 km, out of"]);
    let arguments = "trips run --input requests.csv --offers offers.csv --partition none --out rides.csv";
    let told = run(folder, arguments).expect(0);
    told.shows(&["unserved", "stayed at home", "found no ride", "rides are in rides.csv"]);
    let mut expected = shares_of(&folder.join("rides.csv"));
    expected.sort();
    assert!(expected.iter().filter(|line| line.contains(",2,")).count() > 100);
    assert!(expected.iter().filter(|line| line.contains(",,,")).count() > 100);
    let query = format!(
        "{SHARES} FROM share_rides(trip_requests(people => 8000, seed => 3, drivers => 30), \
         TABLE(trip_offers(people => 8000, seed => 3, drivers => 30)))"
    );
    for workers in [1, 2, 5] {
        let rows = sql(folder, workers, &query);
        let mut rows: Vec<String> = rows.lines().skip(1).map(str::to_owned).collect();
        rows.sort();
        assert!(rows == expected, "{workers} workers: {} and {} rows", rows.len(), expected.len());
    }
    // In a divided city: each region by itself.
    let part = "SELECT *, CAST(floor(origin_x_m / 8000) AS BIGINT) AS part FROM";
    let query = format!(
        "{SHARES} FROM mergestream(share_rides(\
         splitstream(({part} trip_requests(people => 8000, seed => 3, drivers => 30)), 4, route => part), \
         TABLE(splitstream(({part} trip_offers(people => 8000, seed => 3, drivers => 30)), 4, route => part))))"
    );
    let divided = sql(folder, 2, &query);
    assert_eq!(divided.lines().count() - 1, expected.len(), "everybody has a row");
    assert!(divided.lines().filter(|line| line.contains(",2,")).count() > 100);
    // Both name the same people.
    let twice =
        "SELECT * FROM share_rides(trip_requests(people => 8000), TABLE(trip_offers(people => 8000)))";
    let ended: Ended = tidemill(folder, &["sql", "-c", twice]).output().expect("it starts").into();
    ended.tells(&["give every request and every offer an id of its own"]);
}

#[test]
fn wrong_arguments_of_ride_sharing_are_refused() {
    let folder = folder_with(&[("requests.csv", "7,60,660,0,0,5000,0\n"), ("offers.csv", "x\n")]);
    let folder = folder.path();
    let with = |rest: &str| run(folder, &format!("trips run --input requests.csv --offers {rest}"));
    with("none.csv").expect(2).tells(&["none.csv: no such file"]);
    with("requests.csv").expect(2).tells(&["name two files"]);
    with("offers.csv --max-share 3").expect(2).tells(&["--max-share", "cannot be used with"]);
    with("offers.csv --out offers.csv")
        .expect(2)
        .tells(&["offers.csv is an input, and the output would overwrite it"]);
    for offers in ["", "--offers offers.csv "] {
        let arguments = format!("trips run --input requests.csv {offers}--history day.csv --out ./day.csv");
        run(folder, &arguments).expect(2).tells(&["./day.csv is an input (--history)"]);
    }
    with("offers.csv --partition spq").expect(2).tells(&["--history"]);
    with("offers.csv").expect(0).shows(&["1 bad line left out", "offers.csv, line 1: it has 1 fields"]);
    run(folder, "trips generate --out requests.csv --drivers 10").expect(2).tells(&["--offers"]);
}

#[test]
fn offers_do_not_overwrite_requests() {
    let folder = folder_with(&[("here.csv", "kept")]);
    let folder = folder.path();
    let refused = |out: &str, offers: &str| {
        let arguments = format!("trips generate --people 1000 --out {out} --offers {offers}");
        run(folder, &arguments).expect(2).tells(&["are the same file; name two files"]);
    };
    refused("new.csv", "new.csv");
    refused("new.csv", "./new.csv");
    assert!(!folder.join("new.csv").exists());
    refused("here.csv", &folder.join("here.csv").display().to_string());
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("here.csv", folder.join("link.csv")).unwrap();
        std::os::unix::fs::symlink("new.csv", folder.join("later.csv")).unwrap();
        std::fs::hard_link(folder.join("here.csv"), folder.join("hard.csv")).unwrap();
        refused("here.csv", "link.csv");
        refused("later.csv", "new.csv");
        refused("hard.csv", "here.csv");
    }
    assert_eq!(std::fs::read_to_string(folder.join("here.csv")).unwrap(), "kept");
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
    run(folder, "trips run --input requests.csv --recent 0").expect(2).tells(&["--recent"]);
    run(folder, "trips run --input requests.csv --recent 3600").expect(0);
    run(folder, "trips run --input requests.csv --pictures requests.csv").expect(1).tells(&["cannot write"]);
    run(folder, "trips run --input requests.csv --pictures hours")
        .expect(0)
        .shows(&["pictures are in hours"]);
    assert!(fs::read_to_string(folder.join("hours/00.svg")).unwrap().ends_with("</svg>\n"));
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
        "| load | requests | time, ms | 1,000 requests cost |",
        "the query groups the day in less than 10 s: **holds**",
        "pictures are in",
    ]);
    let by_groups = ["time.svg", "savings.svg", "time-to-round-robin.svg", "cost.svg"];
    for name in by_groups.into_iter().chain(["time-by-load.svg", "savings-by-load.svg"]) {
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
