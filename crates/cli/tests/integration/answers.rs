//! Generate, run and check, from end to end.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::support::*;
use tempfile::TempDir;
use tidemill_connect::LineFile;

/// Runs on the shared data and checks against what is expected there.
fn run_and_check(data: &Path, folder: &Path, input: &Path, arguments: &str) {
    let history = data.join("history.csv.zst");
    let (input, history) = (input.display(), history.display());
    let run = format!("run --input {input} --history {history} --out answers {arguments}");
    linear_road(folder, &run).expect(0).shows(&[
        "2,017,184 events",
        "bad lines       none",
        "652,736",
        "299,855",
    ]);
    let check = format!("check --answers answers --expected {}", data.join("expected").display());
    linear_road(folder, &check).expect(0).shows(&["EXACT: all 682961 expected answers"]);
}

#[test]
fn shared_data_is_answered_exactly_by_any_number_of_workers() {
    let Some(data) = shared_data() else { return };
    let folder = TempDir::new().unwrap();
    for workers in [1, 2, 5] {
        let arguments = format!("--workers {workers}");
        run_and_check(&data, folder.path(), &data.join("input.csv.zst"), &arguments);
    }
}

#[test]
fn shared_data_is_answered_exactly_from_plain_text() {
    let Some(data) = shared_data() else { return };
    let folder = TempDir::new().unwrap();
    let plain = folder.path().join("input.csv");
    let mut text = File::create(&plain).unwrap();
    let mut compressed = LineFile::open(data.join("input.csv.zst")).unwrap();
    while let Some(chunk) = compressed.next_chunk().unwrap() {
        text.write_all(chunk.bytes).unwrap();
    }
    run_and_check(
        &data,
        folder.path(),
        &plain,
        "--workers 2 --cycle-events 1000 --fixed-cycles --partitions 7",
    );
}

#[test]
fn answers_do_not_depend_on_workers_cycles_or_the_way_of_the_input() {
    let traffic = "--expressways 5 --minutes 20 --peak 150 --seed 3";
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    linear_road(folder, &format!("generate --out traffic {traffic}")).expect(0);
    let from_files = "--input traffic/input.csv --history traffic/history.csv";

    let mut sorted = None;
    for cycle_events in [1000, 60_000] {
        let mut in_order = None;
        for workers in [1, 2, 5] {
            let cycles = format!("--workers {workers} --cycle-events {cycle_events} --fixed-cycles");
            linear_road(folder, &format!("run {from_files} --out a {cycles}")).expect(0);
            let mut found = all_answers(&folder.join("a"));
            assert!(found.iter().all(|kind| !kind.is_empty()), "not all types occur");
            assert_eq!(in_order.get_or_insert_with(|| found.clone()), &found, "{cycles}");
            found.iter_mut().for_each(|kind| kind.sort());
            assert!(sorted.get_or_insert_with(|| found.clone()) == &found, "{cycles}");
        }
    }
    linear_road(folder, &format!("run {traffic} --out b")).expect(0);
    linear_road(folder, "check --answers b --expected a").expect(0).shows(&["EXACT"]);
}

#[test]
fn cycles_of_one_event_answer_the_same() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let from_files = "--input traffic/input.csv --history traffic/history.csv";
    linear_road(folder, &format!("run {from_files} --out a --workers 1")).expect(0);
    let cycles = "--workers 2 --cycle-events 1 --fixed-cycles";
    linear_road(folder, &format!("run {from_files} --out b {cycles}")).expect(0);
    // One event has at most one answer of each type, so these come in the order of the input.
    assert_eq!(all_answers(&folder.join("a")), all_answers(&folder.join("b")));
}

#[test]
fn real_time_priority_changes_no_answer() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let run = "run --input traffic/input.csv --history traffic/history.csv --workers 2 --cycle-events 500 \
               --fixed-cycles";
    let first = linear_road(folder, &format!("{run} --out a --priority 1"));
    if first.stderr.contains("CAP_SYS_NICE") {
        println!("skipped: threads of real-time priority need a privilege that this machine does not grant");
        first.expect(2);
        return;
    }
    first.expect(0);
    linear_road(folder, &format!("{run} --out b")).expect(0);
    assert_eq!(all_answers(&folder.join("a")), all_answers(&folder.join("b")));
}

#[test]
fn several_input_files_are_one_input() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let text = fs::read_to_string(folder.join("traffic/input.csv")).unwrap();
    let middle = text.match_indices('\n').nth(text.lines().count() / 2).unwrap().0 + 1;
    fs::write(folder.join("first.csv"), &text[..middle]).unwrap();
    fs::write(folder.join("second.csv"), &text[middle..]).unwrap();
    let rest = "--history traffic/history.csv --workers 1 --cycle-events 500 --fixed-cycles";
    linear_road(folder, &format!("run --input traffic/input.csv --out a {rest}")).expect(0);
    linear_road(folder, &format!("run --input first.csv --input second.csv --out b {rest}")).expect(0);
    assert_eq!(all_answers(&folder.join("a")), all_answers(&folder.join("b")));
}

#[test]
fn paced_runs_answer_the_same() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let from_files = "--input traffic/input.csv --history traffic/history.csv";
    linear_road(folder, &format!("run {from_files} --out a")).expect(0);
    // Two minutes in one second.
    linear_road(folder, &format!("run {from_files} --out b --pace 120"))
        .expect(0)
        .tells(&["120 times real time"]);
    // Each second in five parts. No answer can be there within a microsecond, and each within an hour.
    let spread = format!("run {from_files} --pace 120 --ticks-per-second 5");
    let events = fs::read_to_string(folder.join("traffic/input.csv")).unwrap().lines().count();
    let hurried = linear_road(folder, &format!("{spread} --out c --deadline 1us")).expect(0);
    let late = shown_late(&hurried.stdout, "deadline        1 us: ");
    assert_eq!(late, [events, events]);
    assert!(hurried.stdout.contains("\n    cycle "), "{}", hurried.stdout);
    let calm = linear_road(folder, &format!("{spread} --out d --deadline 3600s --priority 1"));
    if calm.stderr.contains("CAP_SYS_NICE") {
        println!("without a priority: this machine does not grant it");
    } else {
        assert_eq!(shown_late(&calm.expect(0).stdout, "deadline        3600 s: "), [0, events]);
    }
    let sorted = |name: &str| {
        all_answers(&folder.join(name)).map(|mut kind| {
            kind.sort();
            kind
        })
    };
    assert_eq!(sorted("a"), sorted("b"));
    assert_eq!(sorted("a"), sorted("c"));
}

/// Behind this beginning of a line: how many events were late, and of how many.
fn shown_late(output: &str, start: &str) -> Vec<usize> {
    let line = output.lines().find_map(|line| line.strip_prefix(start));
    let line = line.unwrap_or_else(|| panic!("no '{start}' in {output}")).replace(',', "");
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn a_check_tells_what_differs() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    linear_road(folder, "run --input traffic/input.csv --history traffic/history.csv --out expected")
        .expect(0);
    let copy = |kind: usize, change: &dyn Fn(Vec<&str>) -> String| {
        let name = format!("type{kind}.csv");
        let text = fs::read_to_string(folder.join("expected").join(&name)).unwrap();
        fs::write(folder.join("answers").join(&name), change(text.lines().collect())).unwrap();
    };
    fs::create_dir(folder.join("answers")).unwrap();
    copy(0, &|lines| lines[1..].join("\n") + "\n");
    // There are no accidents in so short a time.
    copy(1, &|lines| lines.concat() + "1,5,5.0,77,3\n");
    copy(2, &|lines| lines.join("\n") + "\nrubbish\n");
    copy(3, &|lines| lines.join("\n") + "\n");
    let report = linear_road(folder, "check --answers answers --expected expected").expect(3);
    report.shows(&["NOT EXACT: 1 missing, 1 extra, 1 malformed", "type 0, missing", "VID 77 at 5"]);
    linear_road(folder, "check --answers answers --expected nowhere").expect(2).tells(&["nowhere"]);
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let folder = TempDir::new().unwrap();
    for arguments in ["run --help", "generate --help", "check --help"] {
        let shown = linear_road(folder.path(), arguments).expect(0);
        shown.shows(&["Example", "  tidemill linear-road ", "Exit codes", "130  interrupted"]);
    }
    for wrong in
        ["run --pace 0", "run --workers 0", "run --fixed-cycles", "generate", "run --minutes 181", "fly"]
    {
        linear_road(folder.path(), wrong).expect(2);
    }
}
