//! Authorities and the certificates that they issue, in files.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tidemill_connect::tls::TlsIdentity;

/// Whether a certificate counts today.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// It is valid.
    Now,
    /// It expired in 2020.
    Expired,
}

/// An authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    /// Its certificate.
    pub file: PathBuf,
}

impl Authority {
    /// Makes an authority whose certificate is a file in `folder`.
    pub fn new(folder: &Path, name: &str) -> Authority {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let file = folder.join(format!("{name}.pem"));
        std::fs::write(&file, parameters.self_signed(&key).unwrap().pem()).unwrap();
        Authority { issuer: Issuer::new(parameters, key), folder: folder.to_owned(), file }
    }

    /// Issues a certificate for these hosts, in files of that name.
    pub fn issue(&self, name: &str, hosts: &[&str], validity: Validity) -> TlsIdentity {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut parameters = CertificateParams::new(hosts).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        if validity == Validity::Expired {
            parameters.not_before = date_time_ymd(2019, 1, 1);
            parameters.not_after = date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let identity = TlsIdentity {
            certificates: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        };
        std::fs::write(&identity.certificates, certificate.pem()).unwrap();
        std::fs::write(&identity.key, key.serialize_pem()).unwrap();
        std::fs::set_permissions(&identity.key, std::fs::Permissions::from_mode(0o600)).unwrap();
        identity
    }
}
