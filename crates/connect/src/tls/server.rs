//! What listens.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tidemill_core::Cause;
use tracing::{info, warn};

use super::pem::{authorities, identity, unusable};
use super::{TlsIdentity, provider};

/// How often it looks whether the files have been replaced.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who a server is, and whom it lets in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsServerSettings {
    /// What it shows to clients.
    pub identity: TlsIdentity,
    /// A PEM file with certificates of authorities: each client must show a certificate that one of them has issued.
    /// `None`: no certificate is asked for.
    pub client_authorities: Option<PathBuf>,
    /// The protocols inside, the preferred one first, such as `postgresql`. A client that names others is refused; most
    /// name none. Empty: not asked for.
    pub protocols: Vec<Vec<u8>>,
}

impl TlsServerSettings {
    /// A server with the files of its certificate and key, which asks clients for none.
    pub fn new(certificates: impl Into<PathBuf>, key: impl Into<PathBuf>) -> TlsServerSettings {
        let identity = TlsIdentity { certificates: certificates.into(), key: key.into() };
        TlsServerSettings { identity, client_authorities: None, protocols: Vec::new() }
    }

    fn load(&self) -> Result<Arc<ServerConfig>, Cause> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(path)?), provider())
                        .build()
                        .map_err(|error| {
                            Cause::user(format!("'{}': {error}", path.display())).with_source(error)
                        })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let (certificates, key) = identity(&self.identity)?;
        let mut config =
            builder.with_single_cert(certificates, key).map_err(|error| unusable(&self.identity, &error))?;
        config.alpn_protocols.clone_from(&self.protocols);
        Ok(Arc::new(config))
    }

    /// Of each file, when it was written and how long it is.
    fn stamps(&self) -> Vec<Option<(SystemTime, u64)>> {
        let files =
            [&self.identity.certificates, &self.identity.key].into_iter().chain(&self.client_authorities);
        files.map(|path| stamp(path)).collect()
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// The configuration of what listens. Files that are replaced count for the connections that come after that; if they
/// cannot be used, the ones before stay, and the log says why.
///
/// ```no_run
/// use tidemill_connect::tls::{TlsServer, TlsServerSettings};
///
/// let mut settings = TlsServerSettings::new("server.pem", "server.key");
/// settings.client_authorities = Some("authority.pem".into());
/// let server = TlsServer::open(settings)?;
/// // For each connection: tokio_rustls::TlsAcceptor::from(server.config()).accept(stream).await
/// let config = server.config();
/// # drop(config);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
#[derive(Debug)]
pub struct TlsServer {
    settings: TlsServerSettings,
    loaded: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    stamps: Vec<Option<(SystemTime, u64)>>,
    looked_at: Instant,
}

impl TlsServer {
    /// Whether each client must show a certificate.
    pub fn asks_for_certificates(&self) -> bool {
        self.settings.client_authorities.is_some()
    }

    /// Reads the files.
    ///
    /// # Errors
    /// [`Cause::user`] with the file, the reason and the remedy.
    pub fn open(settings: TlsServerSettings) -> Result<TlsServer, Cause> {
        // Taken before the files are read: what is written meanwhile is read later.
        let stamps = settings.stamps();
        let loaded = Loaded { config: settings.load()?, stamps, looked_at: Instant::now() };
        Ok(TlsServer { settings, loaded: Mutex::new(loaded) })
    }

    /// The configuration for the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        let mut loaded = self.loaded.lock();
        if loaded.looked_at.elapsed() >= LOOK_EVERY {
            loaded.looked_at = Instant::now();
            self.look(&mut loaded);
        }
        Arc::clone(&loaded.config)
    }

    /// Reads the files again if they have changed.
    fn look(&self, loaded: &mut Loaded) {
        let stamps = self.settings.stamps();
        if stamps == loaded.stamps {
            return;
        }
        let certificates = self.settings.identity.certificates.display();
        match self.settings.load() {
            Ok(config) => {
                info!(%certificates, "the certificates have been replaced");
                loaded.config = config;
            }
            Err(cause) => {
                warn!(%certificates, %cause, "the new certificates cannot be used; the old ones stay")
            }
        }
        loaded.stamps = stamps;
    }

    /// Whether clients must show certificates.
    pub fn demands_certificates(&self) -> bool {
        self.settings.client_authorities.is_some()
    }
}
