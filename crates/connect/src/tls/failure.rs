//! Why a handshake failed, and what to do.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// Why TLS failed, with the remedy, in words that follow the name of the other side: `tcp peer ...: it does not speak
/// TLS; ...`. `None` if the error is not about TLS.
///
/// ```
/// use std::io;
/// use tidemill_connect::tls::failure;
///
/// assert_eq!(failure(&io::Error::other("broken pipe")), None);
/// ```
pub fn failure(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidMessage(_) => {
            "it does not speak TLS; let it connect with TLS, or use a port without TLS".to_owned()
        }
        Error::NoCertificatesPresented => {
            "it shows no certificate, which is required here; give it one from a trusted authority".to_owned()
        }
        Error::InvalidCertificate(certificate) => of_certificate(certificate),
        Error::PeerIncompatible(_) => {
            format!(
                "the two sides have no version or cipher in common ({error}); this side speaks TLS 1.2 and 1.3"
            )
        }
        Error::AlertReceived(alert) => of_alert(*alert),
        other => format!("TLS failed: {other}"),
    })
}

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "its certificate comes from an authority that is not trusted here; name the file of the authority that \
             issued it"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired; renew it, and check the clocks".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; check the clocks".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "its certificate is for {}, not for {}; connect by a name in the certificate, or have one issued for \
             this name",
            if presented.is_empty() { "no name".to_owned() } else { presented.join(", ") },
            expected.to_str()
        ),
        CertificateError::Revoked => "its certificate has been revoked; renew it".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate was issued for another purpose; have one issued for servers, or for clients".to_owned()
        }
        other => format!("its certificate cannot be used: {}", Error::InvalidCertificate(other.clone())),
    }
}

/// What the other side says about us.
fn of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            "it demands a certificate; name the files of a certificate and of its key".to_owned()
        }
        AlertDescription::UnknownCA => {
            "it does not trust the authority of our certificate; use one that it trusts".to_owned()
        }
        AlertDescription::CertificateExpired => {
            "it says that our certificate has expired; renew it, and check the clocks".to_owned()
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked => {
            format!("it refuses our certificate ({alert:?}); use one that it trusts")
        }
        other => format!("it closed the connection with the alert {other:?}; look at its log"),
    }
}
