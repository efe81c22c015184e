//! `tidemill bench`: a short run of all tables, and arguments that make no sense.

use crate::support::*;

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

/// All answers are checked, over threads and over processes.
#[test]
fn stream_processes_are_measured() {
    let folder = tempfile::TempDir::new().unwrap();
    let pictures = folder.path().join("pictures");
    let arguments = ["bench", "processes", "--quick", "--pictures", pictures.to_str().unwrap()];
    let ended = ended(folder.path(), &arguments).expect(0).shows(&[
        "## Arrays in buffers",
        "| 8000 | processes |",
        "## Queries 1 to 6 of the thesis, arrays of 8000 bytes",
        "| 3 | threads |",
        "| 3 | processes |",
        "## Search in 3 files",
        "## Fourier transform",
        "| 64 | processes |",
    ]);
    assert!(!ended.stdout.contains("NaN") && !ended.stdout.contains("inf"), "{}", ended.stdout);
    for name in
        ["buffers-threads", "buffers-processes", "placements-threads", "placements-processes", "fourier"]
    {
        let picture = std::fs::read_to_string(pictures.join(format!("{name}.svg"))).unwrap();
        assert!(picture.starts_with("<svg"), "{name}");
    }
}

/// Without the privilege for real-time priorities it says so, and nothing is measured.
#[test]
fn deadlines_are_measured_on_both_sides() {
    let folder = tempfile::TempDir::new().unwrap();
    let pictures = folder.path().join("pictures");
    let core = core();
    let mut arguments: Vec<&str> = "bench realtime --quick --intervals 10".split(' ').collect();
    arguments.extend(["--core", &core, "--sending-core", &core, "--pictures", pictures.to_str().unwrap()]);
    let ended = ended(folder.path(), &arguments);
    if ended.stdout.starts_with("skipped: ") {
        println!("{}", ended.stdout);
        return;
    }
    let ended = ended.expect(0).shows(&[
        "## 6.1",
        "| RT 10 | 8 |",
        "| standard O | 8 |",
        "## 6.3",
        "| no budget | 8 |",
    ]);
    // An overload: answers are late, and each says why.
    let late =
        ended.stdout.lines().find(|line| line.starts_with("- run 1, element ") && line.contains(" ran "));
    let late = late.unwrap_or_else(|| panic!("nothing is explained in {}", ended.stdout));
    assert!(late.contains(", the host took ") && late.contains("its threads waited "), "{late}");
    assert!(pictures.join("figure-3.svg").exists() && pictures.join("budget.svg").exists());
}

/// The answers are right, each unwanted client gets an error that names its fault, and the stream continues.
#[test]
fn a_server_is_asked_while_rows_come_in() {
    let server = Some(env!("CARGO_BIN_EXE_tidemill").into());
    let arguments = tidemill_bench_server::Arguments { server, ..quick() };
    tidemill_bench_server::run(&arguments).unwrap_or_else(|error| panic!("{error:?}"));
}

/// Each number of gateways answers like a loop over all rows, and each gateway says how long its cycles take.
#[test]
fn the_cycles_of_gateways_are_measured() {
    let server = Some(env!("CARGO_BIN_EXE_tidemill").into());
    let arguments = tidemill_bench_server::GatewayArguments { server, gateways: vec![1, 2], ..quick() };
    tidemill_bench_server::measure_gateways(&arguments).unwrap_or_else(|error| panic!("{error:?}"));
}

fn quick<A: clap::Args>() -> A {
    #[derive(clap::Parser)]
    struct Command<A: clap::Args> {
        #[command(flatten)]
        arguments: A,
    }
    <Command<A> as clap::Parser>::parse_from(["bench", "--quick"]).arguments
}

/// A core that this process may use.
fn core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap();
    line.split_whitespace().nth(1).unwrap().split([',', '-']).next().unwrap().to_owned()
}

#[test]
fn a_core_that_is_not_there_is_named() {
    let folder = tempfile::TempDir::new().unwrap();
    let arguments = ["bench", "realtime", "--quick", "--core", "1000"];
    ended(folder.path(), &arguments).expect(1).tells(&["core 1000"]);
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
    for argument in
        ["--streams 0", "--buffers 7", "--array-bytes 0", "--files 1025", "--lengths 1", "--runs 0"]
    {
        let arguments: Vec<&str> = ["bench", "processes"].into_iter().chain(argument.split(' ')).collect();
        ended(folder.path(), &arguments).expect(2).tells(&["error: invalid value"]);
    }
}
