//! A function in WebAssembly, loaded by SQL: from its text, and from Rust if the compiler has the target.
//!
//! `cargo run --example loaded_function`

use std::error::Error;
use std::path::Path;
use std::process::Command;

use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::standard_streams::StandardOutput;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Float64Type;
use tidemill_sql::{Planner, Reply, parse};

/// The text form of WebAssembly stands in the statement.
const TEXT: &str = r#"
    CREATE FUNCTION fahrenheit (celsius DOUBLE) RETURNS DOUBLE LANGUAGE wasm AS $$
        (module (func (export "fahrenheit") (param f64) (result f64)
            (f64.add (f64.mul (local.get 0) (f64.const 1.8)) (f64.const 32))))
    $$;
    SELECT fahrenheit(100)"#;

/// An aggregate, and a function of rows.
const STATES: &str = "
    CREATE AGGREGATE geometric_mean (value DOUBLE) RETURNS DOUBLE STATE (count BIGINT, logarithms DOUBLE)
        LANGUAGE wasm AS 'geometric_mean.wasm';
    SELECT round(geometric_mean(value), 6) FROM (VALUES (2), (8), (NULL)) AS rates (value);
    CREATE FUNCTION changes (readings TABLE (device VARCHAR, status VARCHAR))
        RETURNS TABLE (device VARCHAR, before VARCHAR, status VARCHAR)
        PARTITION BY device STATE (last VARCHAR) LANGUAGE wasm AS 'changes.wasm';
    SELECT * FROM changes((SELECT * FROM
        (VALUES ('a', 'up'), ('b', 'up'), ('a', 'up'), ('a', 'down'), ('b', NULL), ('b', 'up'))
        AS readings (device, status)))";

const RUST: &str = "
    CREATE FUNCTION wind_chill (temperature DOUBLE, speed DOUBLE) RETURNS DOUBLE LANGUAGE wasm AS 'wind_chill.wasm';
    SELECT round(wind_chill(-10, 30), 2)";

/// The first values of the answers to queries over constants. The rows of other queries are printed.
fn answers(planner: &mut Planner, script: &str) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut answers = Vec::new();
    for statement in parse(script, "script")? {
        match planner.execute(&statement)? {
            Reply::Rows(rows) => answers.push(rows.column(0).as_primitive::<Float64Type>().value(0)),
            Reply::Query(query) => {
                let format = TextFormat::table();
                let sink = StandardOutput::of_process(&query.outputs()[0].schema, &format)?;
                query.open(vec![Box::new(sink)])?.start()?.wait()?;
            }
            _ => {}
        }
    }
    Ok(answers)
}

/// Compiles `wasm/NAME.rs`; false if the compiler does not have the target.
fn compile(folder: &Path, name: &str) -> bool {
    let source =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join(format!("wasm/{name}.rs"));
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "--target", "wasm32-unknown-unknown", "--crate-type", "cdylib", "-O"]);
    rustc.args(["-C", "strip=symbols"]).arg(source).arg("--out-dir").arg(folder);
    rustc.output().is_ok_and(|output| output.status.success())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut planner = Planner::new();
    let boiling = answers(&mut planner, TEXT)?[0];
    println!("water boils at {boiling} °F");
    assert!((boiling - 212.0).abs() < 1e-9);

    let folder = tempfile::tempdir()?;
    if !["wind_chill", "geometric_mean", "changes"].into_iter().all(|name| compile(folder.path(), name)) {
        println!(
            "examples/wasm is skipped: install the target with `rustup target add wasm32-unknown-unknown`"
        );
        return Ok(());
    }
    planner.set_paths_in(Some(folder.path().to_owned()));
    let felt = answers(&mut planner, RUST)?[0];
    println!("-10 °C feel like {felt} °C at 30 km/h");
    // As Canada's weather service computes it.
    assert!((felt - -19.52).abs() < 1e-9, "{felt}");
    println!("what has changed:");
    let mean = answers(&mut planner, STATES)?[0];
    println!("the geometric mean of 2 and 8 is {mean}");
    assert!((mean - 4.0).abs() < 1e-9);
    Ok(())
}
