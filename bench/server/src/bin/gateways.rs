//! See the library's module `gateways`.

use clap::Parser;
use tidemill_bench_server::GatewayArguments;

#[derive(Parser)]
#[command(about)]
struct Command {
    #[command(flatten)]
    arguments: GatewayArguments,
}

fn main() -> anyhow::Result<()> {
    tidemill_bench_server::measure_gateways(&Command::parse().arguments)
}
