//! Arguments that make no sense: reported before anything is done, with exit code 2.

use crate::support::*;

#[test]
fn numbers_that_cannot_be_run_with_are_wrong_usage() {
    let folder = tempfile::TempDir::new().unwrap();
    let folder = folder.path();
    let run = ["--workers 0", "--workers 5000", "--partitions 0", "--cycle-events 0"];
    let paces = ["0", "-1", "1e-300", "1e300", "nan", "inf", "fast"].map(|pace| format!("--pace {pace}"));
    for argument in run.map(str::to_owned).into_iter().chain(paces) {
        linear_road(folder, &format!("run --minutes 1 {argument}"))
            .expect(2)
            .tells(&["error: invalid value"]);
    }
    let rate = [
        "--workers 0",
        "--workers 5000",
        "--only 0",
        "--from 0",
        "--to 0",
        "--trial-seconds 0",
        "--check-every 0",
        "--ticks-per-second 0",
        "--precision 0",
        "--precision -1",
        "--precision 2",
    ];
    for argument in rate {
        linear_road(folder, &format!("rate {argument}")).expect(2).tells(&["error: invalid value"]);
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
}

#[test]
fn long_traffic_says_that_it_takes_a_while_to_begin() {
    let folder = tempfile::TempDir::new().unwrap();
    let words = "note: the history is generated first";
    let long = "run --expressways 35 --minutes 30 --peak 1 --out a";
    linear_road(folder.path(), long).expect(0).tells(&[words]);
    let short = linear_road(folder.path(), "run --expressways 2 --minutes 30 --peak 1 --out a").expect(0);
    assert!(!short.stderr.contains(words));
}
