//! A function in WebAssembly, loaded by SQL: from its text, and from Rust if the compiler has the target.
//!
//! `cargo run --example loaded_function`

use std::error::Error;
use std::path::Path;
use std::process::Command;

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

const RUST: &str = "
    CREATE FUNCTION wind_chill (temperature DOUBLE, speed DOUBLE) RETURNS DOUBLE LANGUAGE wasm AS 'wind_chill.wasm';
    SELECT round(wind_chill(-10, 30), 2)";

/// The value that a script of constants ends with.
fn answer(planner: &mut Planner, script: &str) -> Result<f64, Box<dyn Error>> {
    let mut answer = f64::NAN;
    for statement in parse(script, "script")? {
        if let Reply::Rows(rows) = planner.execute(&statement)? {
            answer = rows.column(0).as_primitive::<Float64Type>().value(0);
        }
    }
    Ok(answer)
}

/// Compiles `wasm/wind_chill.rs`; false if the compiler does not have the target.
fn compile(folder: &Path) -> bool {
    let source =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("wasm/wind_chill.rs");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "--target", "wasm32-unknown-unknown", "--crate-type", "cdylib", "-O"]);
    rustc.args(["-C", "strip=symbols"]).arg(source).arg("--out-dir").arg(folder);
    rustc.output().is_ok_and(|output| output.status.success())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut planner = Planner::new();
    let boiling = answer(&mut planner, TEXT)?;
    println!("water boils at {boiling} °F");
    assert!((boiling - 212.0).abs() < 1e-9);

    let folder = tempfile::tempdir()?;
    if !compile(folder.path()) {
        println!(
            "wind_chill.rs is skipped: install the target with `rustup target add wasm32-unknown-unknown`"
        );
        return Ok(());
    }
    planner.set_paths_in(Some(folder.path().to_owned()));
    let felt = answer(&mut planner, RUST)?;
    println!("-10 °C feel like {felt} °C at 30 km/h");
    // As Canada's weather service computes it.
    assert!((felt - -19.52).abs() < 1e-9, "{felt}");
    Ok(())
}
