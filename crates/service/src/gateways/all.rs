//! The gateways of a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tidemill_engine::Cause;

use super::gateway::Gateway;

/// How a server runs gateways.
///
/// ```no_run
/// use std::process::Command;
/// use std::sync::Arc;
/// use tidemill_service::{FileCatalogLog, GatewaySettings, Runtime, serve_gateway};
/// use tidemill_sql::{GatewayPlace, Planner};
/// let data = std::path::Path::new("tides");
/// // The same program is the server, and each of its gateways.
/// let arguments: Vec<String> = std::env::args().collect();
/// if let [_, word, name, folder] = arguments.as_slice()
///     && word == "gateway"
/// {
///     return serve_gateway(Planner::new(), name, folder.as_ref(), || std::process::exit(1));
/// }
/// let program = std::env::current_exe()?;
/// let command = move |name: &str, folder: &std::path::Path| {
///     let mut command = Command::new(&program);
///     command.args(["gateway", name]).arg(folder);
///     command
/// };
/// let mut planner = Planner::new();
/// planner.settings_mut().gateways = GatewayPlace::Elsewhere;
/// let log = FileCatalogLog::open(&data.join("catalogue"))?;
/// let runtime = Runtime::open_journaled(planner, Box::new(log), &data.join("journal"))?;
/// runtime.start_gateways(GatewaySettings { folder: data.join("gateways"), command: Arc::new(command) });
/// # Ok::<(), tidemill_engine::Cause>(())
/// ```
pub struct GatewaySettings {
    /// Where each has a folder of its name, with its journal and the socket of its readers.
    pub folder: PathBuf,
    /// The command that starts the process of a gateway with this name and this folder: it calls
    /// [`serve_gateway`](crate::serve_gateway).
    pub command: Arc<GatewayCommand>,
}

/// Makes the command that starts the process of a gateway, out of its name and its folder.
///
/// ```
/// # use std::process::Command;
/// let command: &tidemill_service::GatewayCommand = &|name, folder| {
///     let mut command = Command::new("my-server");
///     command.args(["gateway", name]).arg(folder);
///     command
/// };
/// assert_eq!(command("west", "gateways/west".as_ref()).get_args().count(), 3);
/// ```
pub type GatewayCommand = dyn Fn(&str, &Path) -> Command + Send + Sync;

/// The gateways of a server.
pub(crate) struct Gateways {
    settings: GatewaySettings,
    running: Mutex<BTreeMap<String, Arc<Gateway>>>,
}

impl Gateways {
    pub fn new(settings: GatewaySettings) -> Gateways {
        Gateways { settings, running: Mutex::default() }
    }

    /// Those that run, by name.
    pub fn running(&self) -> Vec<(String, Arc<Gateway>)> {
        self.running.lock().iter().map(|(name, gateway)| (name.clone(), Arc::clone(gateway))).collect()
    }

    /// The gateway of this name; if it does not run, a new one.
    pub fn get_or_start(
        &self,
        name: &str,
        start: impl FnOnce(&GatewaySettings) -> Result<Arc<Gateway>, Cause>,
    ) -> Result<Arc<Gateway>, Cause> {
        let mut running = self.running.lock();
        if let Some(gateway) = running.get(name) {
            return Ok(Arc::clone(gateway));
        }
        let gateway = start(&self.settings)?;
        running.insert(name.to_owned(), Arc::clone(&gateway));
        Ok(gateway)
    }

    /// It is not one of them any more.
    pub fn remove(&self, name: &str) {
        self.running.lock().remove(name);
    }

    /// Tells all to end in order.
    pub fn close(&self) {
        self.running().iter().for_each(|(_, gateway)| gateway.close());
    }

    /// Those that have not ended by then.
    pub fn not_ended(&self, until: Instant) -> Vec<String> {
        let running = self.running().into_iter().filter(|(_, gateway)| !gateway.has_ended(until));
        running.map(|(name, _)| format!("gateway {name}")).collect()
    }
}

impl Drop for Gateways {
    fn drop(&mut self) {
        self.running().iter().for_each(|(_, gateway)| gateway.abandon());
    }
}
