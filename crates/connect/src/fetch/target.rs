//! Where a request goes, and where a redirect leads.

use std::net::IpAddr;

use hyper::Uri;
use tidemill_core::Cause;

use super::location::{scheme, shown};
use crate::http_client::Endpoint;

/// The target of a request.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub endpoint: Endpoint,
    /// Without the query, for messages.
    pub shown: String,
}

impl Target {
    pub fn new(uri: &Uri) -> Result<Target, Cause> {
        Ok(Target { endpoint: Endpoint::of(uri)?, shown: shown(uri) })
    }

    /// Whether what is meant for one may be told to the other.
    pub fn is_same_server(&self, other: &Target) -> bool {
        let server =
            |endpoint: &Endpoint| (endpoint.is_https, endpoint.host.to_ascii_lowercase(), endpoint.port);
        server(&self.endpoint) == server(&other.endpoint)
    }

    /// Where an answer of this server redirects to.
    pub fn redirected(&self, location: &str) -> Result<Target, Cause> {
        let refuse = |why: String| {
            Cause::user(format!(
                "{}: the server redirects {why}; use the URL where the file lies",
                self.shown
            ))
        };
        let location = location.split('#').next().unwrap_or_default();
        let own = if self.endpoint.is_https { "https" } else { "http" };
        let authority = self.endpoint.authority.to_str().unwrap_or_default();
        let absolute = if let Some(scheme) = scheme(location) {
            if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
                return Err(refuse(format!("to {scheme}://, from which nothing is fetched")));
            }
            location.to_owned()
        } else if let Some(rest) = location.strip_prefix("//") {
            format!("{own}://{rest}")
        } else {
            format!("{own}://{authority}{}", joined(self.endpoint.path.path(), location))
        };
        let uri: Uri = absolute.parse().map_err(|_| refuse("to something that is not a URL".to_owned()))?;
        let next = Target::new(&uri).map_err(|_| refuse("to a URL with a user or password".to_owned()))?;
        if self.endpoint.is_https && !next.endpoint.is_https {
            return Err(refuse(format!("from https:// to {}, which is not encrypted", next.shown)));
        }
        Ok(next)
    }
}

/// The path that a relative one means, beside another one.
fn joined(beside: &str, relative: &str) -> String {
    let (path, query) = match relative.find('?') {
        Some(at) => relative.split_at(at),
        None => (relative, ""),
    };
    if path.is_empty() {
        return format!("{beside}{query}");
    }
    let folder =
        if path.starts_with('/') { "" } else { beside.rsplit_once('/').map_or("", |(folder, _)| folder) };
    let whole = format!("{folder}/{}", path.trim_start_matches('/'));
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/').skip(1) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}{query}", parts.join("/"))
}

/// How far inside an address lies: the internet, a private network, this machine or its network's own services. A redirect must
/// not lead further inside than the URL that was written: else any web server could have the services read that trust this
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Public,
    Private,
    Machine,
}

impl Reach {
    pub fn of(address: IpAddr) -> Reach {
        match address.to_canonical() {
            IpAddr::V4(own) if own.is_loopback() || own.is_link_local() || own.is_unspecified() => {
                Reach::Machine
            }
            IpAddr::V4(own) => match own.octets() {
                // Shared addresses of carriers and clouds.
                [100, 64..=127, ..] => Reach::Private,
                _ if own.is_private() => Reach::Private,
                _ => Reach::Public,
            },
            IpAddr::V6(own) if own.is_loopback() || own.is_unicast_link_local() || own.is_unspecified() => {
                Reach::Machine
            }
            IpAddr::V6(own) if own.is_unique_local() => Reach::Private,
            IpAddr::V6(_) => Reach::Public,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(uri: &str) -> Target {
        Target::new(&uri.parse().unwrap()).unwrap()
    }

    #[test]
    fn redirects_lead_where_they_say() {
        let from = target("https://host:8443/a/b/c.csv?token=secret");
        for (location, expected) in [
            ("https://other/x.csv?y", "https://other/x.csv"),
            ("//other/x.csv", "https://other/x.csv"),
            ("/x.csv", "https://host:8443/x.csv"),
            ("x.csv?z", "https://host:8443/a/b/x.csv"),
            ("../x/./y.csv", "https://host:8443/a/x/y.csv"),
            ("../../../../x.csv", "https://host:8443/x.csv"),
            ("?v=2", "https://host:8443/a/b/c.csv"),
        ] {
            assert_eq!(from.redirected(location).unwrap().shown, expected);
        }
        assert_eq!(from.redirected("?v=2").unwrap().endpoint.path, "/a/b/c.csv?v=2");
        for (location, why) in [
            ("http://host:8443/c.csv?secret", "which is not encrypted"),
            ("file:///etc/passwd", "to file://, from which nothing"),
            ("ftp://host/secret", "to ftp://, from which nothing"),
            ("https://me:secret@host/", "a user or password"),
            ("http://", "to something that is not a URL"),
        ] {
            let error = from.redirected(location).unwrap_err().message.to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn addresses_lie_further_inside_than_others() {
        let reach = |address: &str| Reach::of(address.parse().unwrap());
        for (address, expected) in [
            ("93.184.216.34", Reach::Public),
            ("2606:2800::1", Reach::Public),
            ("10.1.2.3", Reach::Private),
            ("172.31.0.1", Reach::Private),
            ("100.100.0.1", Reach::Private),
            ("fd00::1", Reach::Private),
            ("127.0.0.1", Reach::Machine),
            ("169.254.169.254", Reach::Machine),
            ("::1", Reach::Machine),
            ("::ffff:127.0.0.1", Reach::Machine),
            ("0.0.0.0", Reach::Machine),
            ("fe80::1", Reach::Machine),
        ] {
            assert_eq!(reach(address), expected, "{address}");
        }
        assert!(Reach::Public < Reach::Private && Reach::Private < Reach::Machine);
    }
}
