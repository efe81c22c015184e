//! The checker finds every kind of difference, and nothing where there is none.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tempfile::TempDir;
use tidemill_connect::LineFile;
use tidemill_linear_road::check::{CheckError, CheckOptions, CheckReport, Difference, check};

const ANSWERS: [&str; 4] = [
    "0,7,90,90,30,200\n0,7,120,120.5,30,800\n0,7,150,150,-1,0\n",
    "1,120,121,7,46\n1,150,151,8,50\n",
    "2,150,150,150,1,1000\n2,155,155,155,2,0\n",
    "3,150,150,3,40\n3,151,152,4,15\n",
];
const ALLOWED: &str = "1,150,7,90:0|120:200|150:1000\n2,155,99,95:0\n";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn four(contents: [&str; 4]) -> TempDir {
    let names = ["type0.csv", "type1.csv", "type2.csv", "type3.csv"];
    folder(&names.into_iter().zip(contents).collect::<Vec<_>>())
}

fn run(answers: &TempDir, expected: &TempDir) -> CheckReport {
    check(answers.path(), expected.path(), &CheckOptions::default()).unwrap()
}

/// Missing, extra, duplicate, wrong, late, malformed of one type.
fn counts(report: &CheckReport, number: usize) -> [u64; 6] {
    Difference::ALL.map(|difference| report.kinds[number].count(difference))
}

/// Checks one type's answers, the others being right, and returns the differences found there.
fn differences(number: usize, content: &str) -> [u64; 6] {
    let mut contents = ANSWERS;
    contents[number] = content;
    let report = run(&four(contents), &four(ANSWERS));
    for other in (0..4).filter(|other| *other != number) {
        assert_eq!(counts(&report, other), [0; 6], "type {other}");
    }
    assert_eq!(report.is_exact(), counts(&report, number) == [0; 6]);
    counts(&report, number)
}

#[test]
fn right_answers_are_exact_in_any_order_and_form() {
    let expected = four(ANSWERS);
    let report = run(&four(ANSWERS), &expected);
    assert!(report.is_exact(), "{report}");
    assert_eq!(report.kinds.each_ref().map(|kind| (kind.expected, kind.answers, kind.right))[0], (3, 3, 3));
    assert_eq!(report.kinds[0].delay_max_s, Some(0.5));

    let reversed = ANSWERS.map(|text| text.lines().rev().collect::<Vec<_>>().join("\r\n"));
    let answers = tempfile::tempdir().unwrap();
    for (number, text) in reversed.iter().enumerate() {
        let compressed = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        fs::write(answers.path().join(format!("type{number}.csv.zst")), compressed).unwrap();
    }
    let report = run(&answers, &expected);
    assert!(report.is_exact(), "{report}");
    assert!(report.to_string().ends_with("EXACT: all 9 expected answers are there, right and in time"));
}

#[test]
fn every_difference_of_a_toll_notification_is_found() {
    let [first, second, third] = ["0,7,90,90,30,200", "0,7,120,120,30,800", "0,7,150,150,-1,0"];
    let found = |lines: &[&str]| differences(0, &(lines.join("\n") + "\n"));
    assert_eq!(found(&[first, second, third]), [0; 6]);
    assert_eq!(found(&[first, third]), [1, 0, 0, 0, 0, 0]);
    assert_eq!(found(&[first, second, third, "0,8,90,90,30,200"]), [0, 1, 0, 0, 0, 0]);
    assert_eq!(found(&[first, second, third, second]), [0, 0, 1, 0, 0, 0]);
    assert_eq!(found(&[first, "0,7,120,120,31,800", third]), [0, 0, 0, 1, 0, 0]);
    assert_eq!(found(&[first, "0,7,120,120,30,799", third]), [0, 0, 0, 1, 0, 0]);
    assert_eq!(found(&[first, "0,7,120,125,30,800", third]), [0; 6]);
    assert_eq!(found(&[first, "0,7,120,125.000000000,30,800", third]), [0; 6]);
    assert_eq!(found(&[first, "0,7,120,125.000000001,30,800", third]), [0, 0, 0, 0, 1, 0]);
    assert_eq!(found(&[first, "0,7,120,126,30,799", third]), [0, 0, 0, 1, 1, 0]);
    assert_eq!(found(&[first, "0,7,121,121,30,800", third]), [1, 1, 0, 0, 0, 0]);
    for malformed in ["", "0,7,120,120,30", "0,7,120,120,30,800,", "0,7,120,120,30,8x", "1,7,120,120,30,800"]
    {
        assert_eq!(found(&[first, malformed, third]), [1, 0, 0, 0, 0, 1], "{malformed:?}");
    }
    for emit in ["", ".5", "120.", "-1", "1e2", "120.5.1", " 120", "99999999999999999999", "nan"] {
        let line = format!("0,7,120,{emit},30,800");
        assert_eq!(found(&[first, &line, third]), [1, 0, 0, 0, 0, 1], "{emit:?}");
    }
    assert_eq!(differences(0, "0,7,90,90,30,200\n0,7,120,120,30,800\n0,7,150,15"), [1, 0, 0, 0, 0, 1]);
    assert_eq!(differences(0, ""), [3, 0, 0, 0, 0, 0]);
}

#[test]
fn every_difference_of_the_other_types_is_found() {
    assert_eq!(differences(1, "1,120,125,7,46\n1,150,151,8,49\n"), [0, 0, 0, 1, 0, 0]);
    assert_eq!(differences(1, "1,120,125.1,7,46\n1,150,151,9,50\n"), [1, 1, 0, 0, 1, 0]);
    assert_eq!(differences(2, "2,150,150,150,1,1000\n2,155,155,155,2,5\n"), [0, 0, 0, 1, 0, 0]);
    assert_eq!(differences(2, "2,150,150,149,1,1000\n2,155,155,155,2,0\n"), [0, 0, 0, 1, 0, 0]);
    assert_eq!(differences(2, "2,151,151,150,1,1000\n2,155,161,155,2,0\n"), [0, 0, 0, 1, 1, 0]);
    assert_eq!(differences(2, "2,150,150,150,1,1000\n2,150,150,150,1,1000\n"), [1, 0, 1, 0, 0, 0]);
    assert_eq!(differences(3, "3,150,160,3,40\n3,151,162,4,15\n"), [0, 0, 0, 0, 1, 0]);
    assert_eq!(differences(3, "3,149,150,3,40\n3,151,152,4,16\n"), [0, 0, 0, 2, 0, 0]);
    assert_eq!(differences(3, "3,150,150,3,40\n3,151,152,5,15\n"), [1, 1, 0, 0, 0, 0]);
}

#[test]
fn an_expenditure_of_0_may_be_answered_once_where_none_is_expected() {
    let zero = "3,160,160,9,0\n";
    let report =
        run(&four([ANSWERS[0], ANSWERS[1], ANSWERS[2], &(ANSWERS[3].to_owned() + zero)]), &four(ANSWERS));
    assert!(report.is_exact(), "{report}");
    assert_eq!((report.kinds[3].tolerated, report.kinds[3].right), (1, 2));
    assert_eq!(differences(3, &(ANSWERS[3].to_owned() + zero + zero)), [0, 0, 1, 0, 0, 0]);
    assert_eq!(differences(3, "3,150,150,3,0\n3,151,152,4,15\n"), [0, 0, 0, 1, 0, 0]);
}

#[test]
fn a_balance_may_be_as_of_any_second_of_the_last_minute() {
    let expected = folder(&[
        ("type0.csv", ANSWERS[0]),
        ("type1.csv", ANSWERS[1]),
        ("type2_allowed.csv", ALLOWED),
        ("type3.csv", ANSWERS[3]),
    ]);
    let found = |result_time: i32, balance: i64| {
        let line = format!("2,150,150,{result_time},1,{balance}\n2,155,155,95,2,0\n");
        counts(&run(&four([ANSWERS[0], ANSWERS[1], &line, ANSWERS[3]]), &expected), 2)
    };
    let wrong = [0, 0, 0, 1, 0, 0];
    for (result_time, balance) in [(150, 1000), (149, 200), (120, 200), (119, 0), (90, 0)] {
        assert_eq!(found(result_time, balance), [0; 6], "{balance} as of {result_time}");
    }
    let not_as_of = [(150, 200), (149, 1000), (120, 0), (119, 200), (90, 1000), (150, -1000)];
    let outside = [(89, 0), (151, 1000), (-1, 0)];
    for (result_time, balance) in not_as_of.into_iter().chain(outside) {
        assert_eq!(found(result_time, balance), wrong, "{balance} as of {result_time}");
    }
}

#[test]
fn delays_can_be_left_out() {
    let answers =
        ["0,7,90,9000,30,200\n0,7,120,9000,30,800\n0,7,150,1,-1,0\n", ANSWERS[1], ANSWERS[2], ANSWERS[3]];
    let options = CheckOptions { limits_s: None, ..CheckOptions::default() };
    let (answers, expected) = (four(answers), four(ANSWERS));
    let report = check(answers.path(), expected.path(), &options).unwrap();
    assert!(report.is_exact(), "{report}");
    assert!(report.to_string().ends_with("right; delays not checked"), "{report}");
    assert_eq!(counts(&run(&answers, &expected), 0), [0, 0, 0, 0, 2, 0]);
}

#[test]
fn the_report_says_where_and_what() {
    let toll = "0,7,90,96.5,30,201\n0,7,150,150,-1,0\n0,9,90,90,0,0\n0,7,90,9\n";
    let report = run(&four([toll, ANSWERS[1], ANSWERS[2], ANSWERS[3]]), &four(ANSWERS)).to_string();
    for line in [
        "0 toll notification              3         4         1         1         1         0         1         \
         1         1     6.500 s",
        "  VID 7 at 120: Lav 30, Toll 800",
        "  type0.csv:1: VID 7 at 90: Lav 30, Toll 201 instead of Lav 30, Toll 200",
        "  type0.csv:1: VID 7 at 90: after 6.5 s, the limit is 5 s",
        "  type0.csv:3: VID 9 at 90: 0,9,90,90,0,0",
        "  type0.csv:4: wrong number of fields: 4 instead of 6: 0,7,90,9",
        "NOT EXACT: 1 missing, 1 extra, 1 wrong, 1 late, 1 malformed",
    ] {
        assert!(report.lines().any(|found| found == line), "no line {line:?} in\n{report}");
    }
}

#[test]
fn examples_are_limited_and_counted_on() {
    let options = CheckOptions { examples: 2, ..CheckOptions::default() };
    let answers = four(["", ANSWERS[1], ANSWERS[2], ANSWERS[3]]);
    let expected = four(ANSWERS);
    let report = check(answers.path(), expected.path(), &options).unwrap();
    assert_eq!(
        (report.count(Difference::Missing), report.kinds[0].examples(Difference::Missing).len()),
        (3, 2)
    );
    assert!(report.to_string().contains("\n  and 1 more\n"), "{report}");
}

#[test]
fn an_empty_comparison_is_no_praise() {
    let report = run(&four([""; 4]), &four([""; 4]));
    assert!(report.is_exact());
    assert!(report.to_string().contains("exact, but empty"), "{report}");
}

#[test]
fn a_file_the_run_did_not_write_is_told() {
    let answers = folder(&[("type0.csv", ANSWERS[0]), ("type2.csv", ANSWERS[2]), ("type3.csv", ANSWERS[3])]);
    let report = run(&answers, &four(ANSWERS));
    assert_eq!(counts(&report, 1), [2, 0, 0, 0, 0, 0]);
    assert!(report.to_string().contains("the run wrote no type1.csv or type1.csv.zst"), "{report}");
}

#[test]
fn unusable_folders_and_expectations_are_errors() {
    let fails = |answers: &Path, expected: &TempDir| {
        check(answers, expected.path(), &CheckOptions::default()).unwrap_err()
    };
    let answers = four(ANSWERS);
    let error = fails(&answers.path().join("nowhere"), &four(ANSWERS));
    assert!(matches!(error, CheckError::Folder { role: "run's", .. }), "{error}");
    let error = fails(answers.path(), &folder(&[("type0.csv", "")]));
    assert!(matches!(&error, CheckError::NoExpectedFile { name, .. } if name == "type1"), "{error}");
    let error = fails(answers.path(), &folder(&[("type0.csv", ""), ("type0.csv.zst", "")]));
    assert!(matches!(error, CheckError::TwoFiles { .. }), "{error}");
    let error = fails(answers.path(), &folder(&[("type0.csv", "0,7,90,90,30,200\n0,7,90,90,30,a\n")]));
    assert!(matches!(&error, CheckError::BadExpected(line) if line.line == 2), "{error}");
    let error = fails(answers.path(), &folder(&[("type0.csv", "0,7,90,90,30,200\n0,7,90,91,30,200\n")]));
    assert!(error.to_string().contains("VID 7 at 90 occurs twice"), "{error}");
    for steps in ["", "90", "90:", ":5", "90:x", "90:1|", "90:1|90:2", "90:1|80:2", "90:1||95:2", "90:1:2"] {
        let allowed = format!("1,150,7,{steps}\n");
        let error = fails(
            answers.path(),
            &folder(&[("type0.csv", ""), ("type1.csv", ""), ("type2_allowed.csv", &allowed)]),
        );
        assert!(
            matches!(&error, CheckError::BadExpected(line) if line.error.column >= 9),
            "{steps}: {error}"
        );
    }
}

/// The balance from each second on.
type Steps = Vec<(i32, i64)>;

/// The expected answers of the shared data, or none with a word about it.
fn shared_expected() -> Option<PathBuf> {
    let path = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap())
        .join("../../../shared/data/linear-road/expected");
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: the shared data is not at {}", path.display());
    None
}

fn read_lines(path: &Path) -> Vec<String> {
    let mut file = LineFile::open(path).unwrap();
    let mut lines = Vec::new();
    while let Some(chunk) = file.next_chunk().unwrap() {
        lines.extend(chunk.lines().map(|line| String::from_utf8(line.bytes.to_vec()).unwrap()));
    }
    lines
}

#[test]
fn the_shared_answers_agree_with_themselves() {
    let Some(expected) = shared_expected() else { return };
    let report = check(&expected, &expected, &CheckOptions::default()).unwrap();
    assert!(report.is_exact(), "{report}");
    assert_eq!(report.kinds.each_ref().map(|kind| kind.right), [652_736, 18_335, 9_918, 1_972]);
}

#[test]
fn single_differences_are_found_among_the_shared_answers() {
    let Some(expected) = shared_expected() else { return };
    let answers = tempfile::tempdir().unwrap();
    for number in 0..4 {
        let name = format!("type{number}.csv");
        let mut lines = read_lines(&expected.join(format!("{name}.zst")));
        let last = lines.len() - 1;
        let change = |line: &str, field: usize, by: i64| {
            let mut fields: Vec<String> = line.split(',').map(str::to_owned).collect();
            fields[field] = (fields[field].parse::<i64>().unwrap() + by).to_string();
            fields.join(",")
        };
        let (emit, value) = if number == 0 { (3, 5) } else { (2, lines[0].split(',').count() - 1) };
        lines[10] = change(&lines[10], value, 1);
        lines[500] = change(&lines[500], value, -1);
        lines[last] = change(&lines[last], emit, 11);
        lines[20] = "nonsense".to_owned();
        let duplicate = lines[30].clone();
        let key = if number == 0 { 1 } else { 3 + usize::from(number == 2) };
        let extra = change(&lines[40], key, 1_000_000_000);
        lines.extend([duplicate, extra]);
        lines.remove(600);
        fs::write(answers.path().join(name), lines.join("\n")).unwrap();
    }
    let report = check(answers.path(), &expected, &CheckOptions::default()).unwrap();
    for number in 0..4 {
        // Missing: the removed line and the one that became nonsense.
        assert_eq!(counts(&report, number), [2, 1, 1, 2, 1, 1], "type {number}\n{report}");
        let kind = &report.kinds[number];
        assert_eq!(kind.right, kind.expected - 4);
        assert_eq!(kind.delay_max_s, Some(11.0));
    }
}

#[test]
fn every_allowed_balance_of_the_shared_data_is_accepted_and_no_other() {
    let Some(expected) = shared_expected() else { return };
    let queries: Vec<(String, i32, Steps)> = read_lines(&expected.join("type2_allowed.csv.zst"))
        .iter()
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let steps = fields[3].split('|').map(|step| step.split_once(':').unwrap());
            let steps = steps.map(|(from, balance)| (from.parse().unwrap(), balance.parse().unwrap()));
            (fields[0].to_owned(), fields[1].parse().unwrap(), steps.collect())
        })
        .collect();
    let answers = tempfile::tempdir().unwrap();
    for age in [0, 1, 29, 59, 60, 61, -1] {
        let mut text = String::new();
        for (qid, time, steps) in &queries {
            let result_time = time - age;
            let balance = steps.iter().rev().find(|step| step.0 <= result_time).map_or(0, |step| step.1);
            text += &format!("2,{time},{time},{result_time},{qid},{balance}\n");
        }
        fs::write(answers.path().join("type2.csv"), text).unwrap();
        let report = check(answers.path(), &expected, &CheckOptions::default()).unwrap();
        let wrong = if (0..=60).contains(&age) { 0 } else { queries.len() as u64 };
        assert_eq!(counts(&report, 2), [0, 0, 0, wrong, 0, 0], "age {age}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_answers_are_checked_without_panic(lines in prop::collection::vec("[0-9,.x-]{0,24}", 0..40)) {
        let text = lines.join("\n");
        let report = run(&four([&text; 4]), &four(ANSWERS));
        for kind in &report.kinds {
            let ends = [Difference::Extra, Difference::Duplicate, Difference::Wrong, Difference::Malformed];
            let counted: u64 = ends.iter().map(|difference| kind.count(*difference)).sum();
            prop_assert_eq!(kind.answers, counted + kind.right + kind.tolerated);
            let (missing, wrong) = (kind.count(Difference::Missing), kind.count(Difference::Wrong));
            prop_assert_eq!(kind.expected, missing + kind.right + wrong);
        }
    }
}
