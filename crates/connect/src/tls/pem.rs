//! PEM files.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tidemill_core::Cause;

use super::TlsIdentity;
use crate::private_file::read_private_file;

/// The largest file of certificates; that of a system has some 220 KiB.
const BYTES_MAX: u64 = 8 << 20;

/// The certificates of a file, of which there is at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Cause> {
    let place = path.display();
    let unreadable = |error: std::io::Error| {
        Cause::user(format!(
            "the certificates in '{place}' cannot be read: {error}; name a PEM file that this user may read"
        ))
        .with_source(error)
    };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() || metadata.len() > BYTES_MAX {
        return Err(Cause::user(format!(
            "the certificates in '{place}' cannot be read: it is not a file of at most {} MiB; name a PEM file",
            BYTES_MAX >> 20
        )));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let read: Result<Vec<_>, Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err(no_pem(path, "certificate", &Error::NoItemsFound)),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(no_pem(path, "certificate", &error)),
    }
}

/// The error does not show what is in the file, which may be a key.
fn no_pem(path: &Path, what: &str, error: &Error) -> Cause {
    let reason = match error {
        Error::NoItemsFound => format!("it has no {what}"),
        Error::MissingSectionEnd { .. } => "it ends within a section; it may be truncated".to_owned(),
        _ => "it is not a PEM file".to_owned(),
    };
    Cause::user(format!(
        "the {what} in '{}' cannot be used: {reason}; name a file with lines such as -----BEGIN ...-----",
        path.display()
    ))
}

/// The certificates and the key of a side.
pub(super) fn identity(
    identity: &TlsIdentity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Cause> {
    let certificates = certificates(&identity.certificates)?;
    let bytes = read_private_file(&identity.key)
        .map_err(|cause| cause.map_message(|text| format!("the key of a certificate: {text}")))?;
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| no_pem(&identity.key, "key", &error))?;
    Ok((certificates, key))
}

/// Why a certificate does not go with a key, or cannot be used.
pub(super) fn unusable(identity: &TlsIdentity, error: &rustls::Error) -> Cause {
    let (certificates, key) = (identity.certificates.display(), identity.key.display());
    match error {
        rustls::Error::InconsistentKeys(_) => Cause::user(format!(
            "the key in '{key}' is not that of the first certificate in '{certificates}'; name the file that was made \
             with the certificate, and put the certificate before those of authorities"
        )),
        error => Cause::user(format!(
            "the certificate in '{certificates}' cannot be used with the key in '{key}': {error}; make them again, for \
             example with ECDSA (P-256), Ed25519 or RSA of 2048 bits"
        )),
    }
}

/// The authorities of a file.
pub(super) fn authorities(path: &Path) -> Result<RootCertStore, Cause> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            Cause::user(format!(
                "a certificate in '{}' is not that of an authority: {error}; name a file with the certificate of the \
                 authority",
                path.display()
            ))
        })?;
    }
    Ok(roots)
}

/// The authorities that this system trusts.
pub(super) fn system_authorities() -> Result<RootCertStore, Cause> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Of a system's many certificates, some are of kinds that nobody uses any more.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    match added {
        0 => Err(Cause::user(
            "this system has no certificates of authorities; install the package ca-certificates, or name a file with \
             the certificate of the authority",
        )),
        _ => Ok(roots),
    }
}
