//! `tidemill bench`: a short run of all tables, and arguments that make no sense.

mod support;

use support::*;

#[test]
fn splitting_is_measured_beside_its_model() {
    let folder = tempfile::TempDir::new().unwrap();
    let arguments = "bench split --partitions 2,8 --broadcast 0,1 --windows 64,128 --splitters 1 \
                     --seconds 0.001 --runs 1";
    let pictures = folder.path().join("pictures");
    let mut arguments: Vec<&str> = arguments.split(' ').collect();
    arguments.extend(["--pictures", pictures.to_str().unwrap()]);
    ended(folder.path(), &arguments).expect(0).shows(&[
        "## Scale-up",
        "## Robustness",
        "## Window router",
        "| 128 |",
    ]);
    assert!(std::fs::read_dir(pictures).unwrap().count() > 0);
}

#[test]
fn numbers_that_cannot_be_measured_with_are_wrong_usage() {
    let folder = tempfile::TempDir::new().unwrap();
    for argument in
        ["--partitions 0", "--broadcast 2", "--workers 0", "--runs 0", "--seconds nan", "--windows 0"]
    {
        let arguments: Vec<&str> = ["bench", "split"].into_iter().chain(argument.split(' ')).collect();
        ended(folder.path(), &arguments).expect(2).tells(&["error: invalid value"]);
    }
}
