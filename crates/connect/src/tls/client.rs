//! What connects.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use tidemill_core::Cause;

use super::pem::{authorities, identity, system_authorities, unusable};
use super::verification::{AnyCertificate, AnyName};
use super::{TlsIdentity, TlsVerification, provider};

/// Whom a client trusts, and who it is. The default trusts the system's authorities and shows no certificate.
///
/// ```no_run
/// use tidemill_connect::tls::TlsClientSettings;
///
/// let own = TlsClientSettings { authorities: Some("authority.pem".into()), ..Default::default() };
/// let config = own.load()?;
/// # drop(config);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsClientSettings {
    /// A PEM file with the certificates of the authorities that are trusted; `None`: those of the system
    /// (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others).
    pub authorities: Option<PathBuf>,
    /// What it shows to a server that asks for a certificate.
    pub identity: Option<TlsIdentity>,
    /// How far it checks the server's certificate.
    pub verification: TlsVerification,
}

impl TlsClientSettings {
    /// Reads the files. Called for each connection, so that files may be replaced while a query runs.
    ///
    /// # Errors
    /// [`Cause::user`] with the file, the reason and the remedy.
    pub fn load(&self) -> Result<Arc<ClientConfig>, Cause> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier()?);
        let Some(own) = &self.identity else { return Ok(Arc::new(builder.with_no_client_auth())) };
        let (certificates, key) = identity(own)?;
        let config =
            builder.with_client_auth_cert(certificates, key).map_err(|error| unusable(own, &error))?;
        Ok(Arc::new(config))
    }

    fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, Cause> {
        if self.verification == TlsVerification::Nothing {
            return Ok(Arc::new(AnyCertificate(provider())));
        }
        let roots = match &self.authorities {
            Some(path) => authorities(path)?,
            None => system_authorities()?,
        };
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        Ok(match self.verification {
            TlsVerification::Authority => Arc::new(AnyName(verifier)),
            TlsVerification::Full | TlsVerification::Nothing => verifier,
        })
    }
}

/// The name that a server's certificate must have: that of a host, or an address.
///
/// # Errors
/// [`Cause::user`] if it is neither.
pub fn server_name(host: &str) -> Result<ServerName<'static>, Cause> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned()).map_err(|_| {
        Cause::user(format!(
            "'{host}' is not the name of a host, so no certificate can be for it; name the host"
        ))
    })
}
