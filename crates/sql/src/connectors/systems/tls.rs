//! The options of TLS, which everything that listens or connects over TCP shares.

use tidemill_connect::tls::{TlsClientSettings, TlsIdentity, TlsServerSettings};

use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind, OptionValues};

pub(super) const TLS: OptionDefinition = OptionDefinition::new(
    "tls",
    OptionKind::Boolean,
    OptionDefault::Value("false"),
    "encrypts connections; what listens needs `tls_cert` and `tls_key`, and cuts off who does not speak TLS",
);
pub(super) const TLS_CERT: OptionDefinition = OptionDefinition::new(
    "tls_cert",
    OptionKind::Text,
    OptionDefault::Nothing("none"),
    "a PEM file with the own certificate, followed by those of authorities in between",
)
.only_with("tls");
pub(super) const TLS_KEY: OptionDefinition = OptionDefinition::new(
    "tls_key",
    OptionKind::Text,
    OptionDefault::Nothing("none"),
    "a PEM file with the key of the own certificate, which other users may not read",
)
.only_with("tls");
pub(super) const TLS_CA: OptionDefinition = OptionDefinition::new(
    "tls_ca",
    OptionKind::Text,
    OptionDefault::Nothing("connecting: the system's authorities; listening: clients show no certificate"),
    "a PEM file with the authorities that must have issued the other side's certificate",
)
.only_with("tls");

/// What a listener shows, and whom it lets in; `None`: no TLS.
pub(super) fn tls_server(options: &OptionValues<'_>) -> Result<Option<TlsServerSettings>, OptionError> {
    if !options.boolean("tls") {
        return Ok(None);
    }
    let Some(TlsIdentity { certificates, key }) = identity(options)? else {
        let message = "a listener with TLS needs a certificate; add tls_cert = 'server.pem' and \
            tls_key = 'server.key'";
        return Err(OptionError::new("tls", message));
    };
    let mut settings = TlsServerSettings::new(certificates, key);
    settings.client_authorities = options.text("tls_ca").map(Into::into);
    Ok(Some(settings))
}

/// Whom a client trusts, and what it shows; `None`: no TLS.
pub(super) fn tls_client(options: &OptionValues<'_>) -> Result<Option<TlsClientSettings>, OptionError> {
    if !options.boolean("tls") {
        return Ok(None);
    }
    tls_client_settings(options).map(Some)
}

/// Whom a client trusts, and what it shows, where the address says whether there is TLS.
pub(super) fn tls_client_settings(options: &OptionValues<'_>) -> Result<TlsClientSettings, OptionError> {
    let authorities = options.text("tls_ca").map(Into::into);
    Ok(TlsClientSettings { authorities, identity: identity(options)?, ..TlsClientSettings::default() })
}

fn identity(options: &OptionValues<'_>) -> Result<Option<TlsIdentity>, OptionError> {
    match (options.text("tls_cert"), options.text("tls_key")) {
        (None, None) => Ok(None),
        (Some(certificates), Some(key)) => {
            Ok(Some(TlsIdentity { certificates: certificates.into(), key: key.into() }))
        }
        (Some(_), None) => {
            Err(OptionError::new("tls_cert", "a certificate needs its key; add tls_key = '...'"))
        }
        (None, Some(_)) => {
            Err(OptionError::new("tls_key", "a key needs its certificate; add tls_cert = '...'"))
        }
    }
}
