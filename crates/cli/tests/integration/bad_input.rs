//! Input that is missing, empty or damaged, or has some bad lines.

use std::fs;
use std::path::Path;

use crate::support::*;

/// Bad lines, each with the words of its message. The time that goes backwards needs a line of a later second before
/// it.
const BAD_LINES: [(&str, &str); 8] = [
    ("0,60,5,30", "wrong number of fields: 4 instead of 15"),
    ("0,60,5,30,0,1,0,10,52803,-1,-1,-1,-1,-1,-1,-1", "wrong number of fields: 16 instead of 15"),
    ("0,60,five,30,0,1,0,10,52803,-1,-1,-1,-1,-1,-1", "VID (character 6): not an integer"),
    (
        "0,60,5,101,0,1,0,10,52803,-1,-1,-1,-1,-1,-1",
        "Spd (character 8): out of range: 101, allowed is 0 to 100",
    ),
    ("0,60,99999999999999999999,30,0,1,0,10,52803,-1,-1,-1,-1,-1,-1", "out of range"),
    ("0,3,5,30,0,1,0,10,52803,-1,-1,-1,-1,-1,-1", "time goes backwards: 3 after"),
    ("1,60,5,30,0,1,0,10,52803,-1,-1,-1,-1,-1,-1", "unknown type 1"),
    ("", "empty line"),
];
const FROM_FILES: &str = "--input traffic/input.csv --history traffic/history.csv --workers 2";

/// Puts a line into the middle of the input; returns its number.
fn insert(folder: &Path, line: &str) -> usize {
    let path = folder.join("traffic/input.csv");
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let at = lines.len() / 2;
    lines.insert(at, line);
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    at + 1
}

fn sorted(folder: &Path) -> [Vec<String>; 4] {
    all_answers(folder).map(|mut kind| {
        kind.sort();
        kind
    })
}

#[test]
fn bad_lines_are_counted_and_shown_and_the_rest_is_answered() {
    for (line, words) in BAD_LINES {
        let folder = folder_with_traffic();
        let folder = folder.path();
        linear_road(folder, &format!("run {FROM_FILES} --out good"))
            .expect(0)
            .shows(&["bad lines       none"]);
        let number = insert(folder, line);
        let place = format!("traffic/input.csv:{number}: ");
        linear_road(folder, &format!("run {FROM_FILES} --out bad")).expect(0).shows(&[
            "1 bad line",
            &place,
            words,
        ]);
        assert_eq!(sorted(&folder.join("good")), sorted(&folder.join("bad")), "{line}");
    }
}

#[test]
fn a_strict_run_ends_at_the_first_bad_line_and_keeps_what_it_answered() {
    for (line, words) in BAD_LINES {
        let folder = folder_with_traffic();
        let folder = folder.path();
        linear_road(folder, &format!("run {FROM_FILES} --out good")).expect(0);
        let number = insert(folder, line);
        let place = format!("traffic/input.csv:{number}: ");
        let ended = linear_road(folder, &format!("run {FROM_FILES} --out strict --strict"));
        let ended = ended.expect(2).tells(&["error: ", &place, words]);
        assert!(!ended.stdout.contains("may be missing"), "{}", ended.stdout);

        // All lines before the bad one are answered, and no line after it.
        let text = fs::read_to_string(folder.join("traffic/input.csv")).unwrap();
        let good_part: Vec<&str> = text.lines().take(number - 1).collect();
        fs::write(folder.join("part.csv"), good_part.join("\n") + "\n").unwrap();
        linear_road(folder, "run --input part.csv --history traffic/history.csv --out part").expect(0);
        assert_eq!(sorted(&folder.join("part")), sorted(&folder.join("strict")), "{line}");
        assert!(answers(&folder.join("part"), 0).len() > 100);
    }
}

#[test]
fn many_bad_lines_are_sampled() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let path = folder.join("traffic/input.csv");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text + &"rubbish\n".repeat(1000)).unwrap();
    let ended = linear_road(folder, &format!("run {FROM_FILES} --out a")).expect(0);
    ended.shows(&["1000 bad lines: 1000 wrong number of fields", "and 990 more"]);
}

#[test]
fn a_line_that_the_file_ends_within_is_told_as_such() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let path = folder.join("traffic/input.csv");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 9]).unwrap();
    let place = format!("traffic/input.csv:{}: ", text.lines().count());
    let words = [place.as_str(), "truncated line: the file ends in the middle of it"];
    linear_road(folder, &format!("run {FROM_FILES} --out a")).expect(0).shows(&words);
    linear_road(folder, &format!("run {FROM_FILES} --out a --strict")).expect(2).tells(&words);
}

#[test]
fn bad_lines_of_the_history_are_told_too() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let path = folder.join("traffic/history.csv");
    let mut text = fs::read_to_string(&path).unwrap();
    text += "125,70,0,79\n";
    fs::write(&path, &text).unwrap();
    let place = format!("traffic/history.csv:{}: Day (character 5): out of range: 70", text.lines().count());
    linear_road(folder, &format!("run {FROM_FILES} --out a")).expect(0).shows(&["1 bad line", &place]);
    linear_road(folder, &format!("run {FROM_FILES} --out a --strict")).expect(2).tells(&[&place]);
}

#[test]
fn input_that_cannot_be_read_is_told_and_earlier_answers_stay() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    linear_road(folder, &format!("run {FROM_FILES} --out a")).expect(0);
    let before = all_answers(&folder.join("a"));
    fs::write(folder.join("empty.csv"), "").unwrap();
    fs::write(folder.join("empty.csv.zst"), "").unwrap();
    fs::write(folder.join("text.csv.zst"), "0,0,1\n").unwrap();
    fs::write(folder.join("packed.csv"), [0x1f, 0x8b, 8, 0]).unwrap();
    fs::write(folder.join("damaged.csv.zst"), [0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff, 0xff]).unwrap();
    fs::write(folder.join("rubbish.csv"), "Type,Time\nrubbish\n").unwrap();
    let cases = [
        ("missing.csv", "no such file; check the path"),
        ("empty.csv", "the file is empty; name a file"),
        ("empty.csv.zst", "the file is empty"),
        ("text.csv.zst", "does not begin with a zstd frame"),
        ("damaged.csv.zst", "damaged zstd file"),
        ("packed.csv", "damaged gzip file"),
        ("traffic", "this is a directory; choose a file in it"),
    ];
    for (name, words) in cases {
        let named = format!("error: {name}: ");
        linear_road(folder, &format!("run --input {name} --out a")).expect(2).tells(&[&named, words]);
        let history = format!("run --input traffic/input.csv --history {name} --out a");
        if name != "empty.csv" {
            linear_road(folder, &history).expect(2).tells(&[&named, words]);
        }
    }
    assert_eq!(before, all_answers(&folder.join("a")));
    let ended = linear_road(folder, "run --input rubbish.csv --out b").expect(2);
    ended
        .tells(&["error: rubbish.csv: not one valid line in 2;"])
        .shows(&["rubbish.csv:1: wrong number of fields"]);
    // Input given as history: every line of it is bad, and earlier answers stay.
    linear_road(folder, "run --input traffic/input.csv --history traffic/input.csv --out a").expect(2).tells(
        &[
            "error: traffic/input.csv: not one valid line in ",
            "traffic/input.csv:1: wrong number of fields: 15 instead of 4",
        ],
    );
    assert_eq!(before, all_answers(&folder.join("a")));
}

#[test]
fn damage_in_the_middle_ends_the_run_after_what_came_before() {
    let Some(data) = shared_data() else { return };
    let folder = tempfile::TempDir::new().unwrap();
    let folder = folder.path();
    let bytes = fs::read(data.join("input.csv.zst")).unwrap();
    fs::write(folder.join("cut.csv.zst"), &bytes[..bytes.len() / 2]).unwrap();
    let ended = linear_road(folder, "run --input cut.csv.zst --out a").expect(2);
    ended.tells(&["error: cut.csv.zst: damaged zstd file at byte"]).shows(&["failed: "]);
    assert!(!answers(&folder.join("a"), 0).is_empty());
}

#[test]
fn without_history_a_run_says_what_is_not_answered() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let ended = linear_road(folder, "run --input traffic/input.csv --out a").expect(0);
    ended.tells(&["the history is empty, so queries of type 3 get no answers"]);
    assert_eq!(answers(&folder.join("a"), 3), Vec::<String>::new());
}

#[test]
fn what_is_read_is_not_replaced_by_answers() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let input = folder.join("traffic/type0.csv");
    fs::rename(folder.join("traffic/input.csv"), &input).unwrap();
    let before = fs::read(&input).unwrap();
    linear_road(folder, "run --input traffic/type0.csv --out traffic")
        .expect(2)
        .tells(&["traffic/type0.csv: the run reads this file", "choose another folder"]);
    assert_eq!(fs::read(&input).unwrap(), before);
}
