//! Answers that cannot be written.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::*;

const RUN: &str = "run --input traffic/input.csv --history traffic/history.csv --workers 2 --cycle-events 500 \
                   --fixed-cycles --out";

/// Some megabytes of answers. Cycles that wait for each other are committed together, 4000 events at most here, so
/// that the limits below must leave room for many of those.
const MORE_TRAFFIC: &str = "generate --expressways 1 --minutes 4 --peak 1000 --out traffic";

/// Runs a shell script in which `"$0" "$@"` is the run with its answers in `part`.
fn in_shell(folder: &Path, shell: &[&str], script: &str) -> Ended {
    let mut command = Command::new(shell[0]);
    command.current_dir(folder).args(&shell[1..]).arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_tidemill"));
    command.arg("linear-road").args(RUN.split_whitespace()).arg("part");
    command.output().expect("a shell").into()
}

/// What is in `part` is the beginning of what is in `full`, whole cycles of it and not all.
fn assert_is_beginning(folder: &Path) {
    let (full, part) = (all_answers(&folder.join("full")), all_answers(&folder.join("part")));
    for kind in 0..4 {
        assert_eq!(full[kind][..part[kind].len()], part[kind], "type {kind}");
    }
    let last_s = part[0].last().map(|answer| second_of(answer, 0)).expect("some answers fit");
    assert!(part[0].len() < full[0].len(), "all answers fit");
    // A cycle is in all files or in none.
    for kind in 1..4 {
        let before =
            |answers: &[String]| answers.iter().filter(|answer| second_of(answer, kind) < last_s).count();
        assert_eq!(before(&full[kind]), before(&part[kind]), "type {kind}");
    }
}

#[test]
fn a_file_size_limit_ends_the_run_after_whole_cycles() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    linear_road(folder, MORE_TRAFFIC).expect(0);
    linear_road(folder, &format!("{RUN} full")).expect(0);
    let ended = in_shell(folder, &["sh"], r#"trap "" XFSZ; ulimit -f 1000; exec "$0" "$@""#).expect(1);
    ended
        .tells(&["error: sink 'answers', cycle ", "cannot write part/type0.csv: ", "ulimit -f"])
        .shows(&["failed: "]);
    assert_is_beginning(folder);
}

#[test]
fn a_full_disk_ends_the_run_after_whole_cycles() {
    let namespace = ["unshare", "--map-root-user", "--mount", "sh"];
    let allowed =
        Command::new(namespace[0]).args(&namespace[1..]).args(["-c", "mount -t tmpfs none /mnt"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("skipped: this user may not mount a small disk (unshare --map-root-user --mount)");
        return;
    }
    let folder = folder_with_traffic();
    let folder = folder.path();
    linear_road(folder, MORE_TRAFFIC).expect(0);
    linear_road(folder, &format!("{RUN} full")).expect(0);
    fs::create_dir(folder.join("part")).unwrap();
    fs::create_dir(folder.join("kept")).unwrap();
    let script = r#"mount -t tmpfs -o size=800k none part && "$0" "$@"; code=$?; cp part/* kept; exit $code"#;
    let ended = in_shell(folder, &namespace, script).expect(1);
    ended.tells(&[
        "cannot write part/type",
        "No space left on device",
        "free some space or choose another folder",
    ]);
    fs::remove_dir(folder.join("part")).unwrap();
    fs::rename(folder.join("kept"), folder.join("part")).unwrap();
    assert_is_beginning(folder);
}

#[test]
fn a_folder_that_cannot_be_is_told() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    fs::write(folder.join("taken"), "").unwrap();
    for out in ["taken", "taken/answers"] {
        let ended = linear_road(folder, &format!("{RUN} {out}")).expect(2);
        ended.tells(&[&format!("cannot create the folder {out}: "), "choose another name"]);
        linear_road(folder, &format!("generate --minutes 1 --out {out}")).expect(2).tells(&[out]);
    }
}
