//! `tidemill gateway`: what `tidemill serve` starts for each gateway.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tidemill_engine::own_program;
use tidemill_service::{GatewaySettings, serve_gateway};

use super::SessionOptions;
use super::database::COSTS;
use crate::exit::Exit;

/// The command that starts a gateway.
const NAME: &str = "gateway";

/// Be a gateway of a server: it reads and journals the rows of sources, and keeps views over them
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Gateway {
    /// The name of the gateway
    name: String,
    /// Where its journal is
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// As of the server
    #[arg(long, value_name = "N", default_value_t = 0)]
    readers_nice: u8,
    #[command(flatten)]
    options: SessionOptions,
}

impl Gateway {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let mut planner = self.options.planner();
        planner.settings_mut().cost_profiles = Some(self.data.join(COSTS));
        planner.settings_mut().readers_niceness = self.readers_nice;
        serve_gateway(planner, &self.name, &self.data, || std::process::exit(1))?;
        Ok(Exit::Done)
    }
}

/// How a server with these options starts its gateways, which have folders in its own.
pub(super) fn gateways(
    data: &Path,
    readers_nice: u8,
    options: &SessionOptions,
) -> anyhow::Result<GatewaySettings> {
    // The path is asked for each time: an upgrade may have put another version there.
    let first = own_program()?;
    let (workers, memory) = (options.workers, options.memory);
    let command = move |name: &str, folder: &Path| {
        let mut command = Command::new(own_program().unwrap_or_else(|_| first.clone()));
        command.args([NAME, name, "--data"]).arg(folder);
        let mut option = |name: &str, value: Option<String>| {
            value.map(|value| command.args([name, &value]));
        };
        option("--readers-nice", Some(readers_nice.to_string()));
        option("--workers", workers.map(|workers| workers.to_string()));
        option("--memory", memory.map(|bytes| format!("{bytes} B")));
        command
    };
    Ok(GatewaySettings { folder: data.join("gateways"), command: Arc::new(command) })
}
