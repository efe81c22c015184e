//! See the library.

use clap::Parser;
use tidemill_bench_server::Arguments;

#[derive(Parser)]
#[command(about)]
struct Command {
    #[command(flatten)]
    arguments: Arguments,
}

fn main() -> anyhow::Result<()> {
    tidemill_bench_server::run(&Command::parse().arguments)
}
