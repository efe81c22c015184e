//! Addresses of coordinators.

use std::path::Path;
use std::time::Duration;

use super::checks::is_plain;
use super::etcd::Etcd;
use super::folder::Folder;
use super::postgres::Postgres;
use super::{Coordinator, CoordinatorError};

/// Opens the records of the cluster of this name. Servers are asked at the first call, so one that is away is not an error
/// here.
///
/// # Errors
/// [`CoordinatorError::Refused`] if the address or the name cannot be used.
pub fn open(
    address: &str,
    cluster: &str,
    timeout: Duration,
) -> Result<Box<dyn Coordinator>, CoordinatorError> {
    let is_name = cluster.bytes().all(|byte| is_plain(byte) && byte != b'/') && !cluster.starts_with('.');
    if cluster.is_empty() || cluster.len() > 60 || !is_name {
        return Err(CoordinatorError::Refused {
            place: shown(address),
            reason: format!(
                "'{cluster}' cannot be the name of a cluster; use 1 to 60 letters, digits and any of . _ -"
            ),
        });
    }
    match address.split_once(':') {
        Some(("file", folder)) => Ok(Box::new(Folder::new(Path::new(folder), cluster, timeout)?)),
        Some(("postgres" | "postgresql", _)) => Ok(Box::new(Postgres::new(address, cluster, timeout)?)),
        Some(("etcd", hosts)) => Ok(Box::new(Etcd::new(hosts, cluster, timeout)?)),
        _ => Err(CoordinatorError::Refused {
            place: shown(address),
            reason:
                "this is not the address of a coordinator; write file:DIR, postgres://USER@HOST/DATABASE or \
                     etcd://HOST:PORT"
                    .to_owned(),
        }),
    }
}

/// Returns an address without what could be a password.
fn shown(address: &str) -> String {
    match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => address.to_owned(),
    }
}
