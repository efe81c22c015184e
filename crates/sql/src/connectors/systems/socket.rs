//! The options that sources and sinks of sockets share.

use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind};

pub(super) const ALLOW_REMOTE: OptionDefinition = OptionDefinition::new(
    "allow_remote",
    OptionKind::Boolean,
    OptionDefault::Value("false"),
    "permits other machines; nothing is encrypted",
);

/// An address without the scheme that names its protocol.
pub(super) fn without_scheme(address: &str, scheme: &str) -> String {
    address.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")).unwrap_or(address).to_owned()
}
