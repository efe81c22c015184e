//! The options that sources and sinks of sockets share.

use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind, OptionValues};

pub(super) const ALLOW_REMOTE: OptionDefinition = OptionDefinition::new(
    "allow_remote",
    OptionKind::Boolean,
    OptionDefault::Value("false"),
    "permits connections from other machines; without `tls`, nothing is encrypted",
);

pub(super) const INSECURE: OptionDefinition = OptionDefinition::new(
    "insecure",
    OptionKind::Boolean,
    OptionDefault::Value("false"),
    "`allow_remote` without a token or `tls_ca`: whoever reaches the address may connect",
);

/// Refuses a door that is open to everyone unless the statement says that it is meant to be. Whoever must show a
/// certificate is not everyone.
pub(super) fn check_door(
    options: &OptionValues<'_>,
    (takes_tokens, has_token): (bool, bool),
) -> Result<(), OptionError> {
    let is_door = options.is_given("listen") && options.boolean("allow_remote");
    if !is_door || has_token || options.is_given("tls_ca") || options.boolean("insecure") {
        return Ok(());
    }
    let token = if takes_tokens { "give it a token, or " } else { "" };
    Err(OptionError::new(
        "allow_remote",
        format!(
            "whoever reaches the address from another machine could connect; {token}state insecure = true"
        ),
    ))
}

/// An address without the scheme that names its protocol.
pub(super) fn without_scheme(address: &str, scheme: &str) -> String {
    address.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")).unwrap_or(address).to_owned()
}
