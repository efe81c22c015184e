//! The options that sources and sinks of sockets share.

use std::path::PathBuf;

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

pub(super) const TOKEN: OptionDefinition = OptionDefinition::new(
    "token",
    OptionKind::Text,
    OptionDefault::Nothing("none"),
    "`listen`: what must be the first line of each connection, or of each datagram",
);

pub(super) const TOKEN_FILE: OptionDefinition = OptionDefinition::new(
    "token_file",
    OptionKind::Text,
    OptionDefault::Nothing("none"),
    "in place of `token`: a file with a name and a token on each line, and behind them the names of the sources for \
     which the token is, if not for all; other users must not be able to read it; it is read again when it changes",
);

/// The token that clients must know, or the file of theirs.
pub(super) fn token_or_file(
    options: &OptionValues<'_>,
) -> Result<(Option<String>, Option<PathBuf>), OptionError> {
    let token = options.text("token").map(str::to_owned);
    let file = options.text("token_file").map(PathBuf::from);
    if token.is_some() && file.is_some() {
        Err(OptionError::new("token_file", "choose either token or token_file"))
    } else {
        Ok((token, file))
    }
}

/// The same where the token is a line that senders begin with.
pub(super) fn first_lines(
    options: &OptionValues<'_>,
) -> Result<(Option<String>, Option<PathBuf>), OptionError> {
    let (token, file) = token_or_file(options)?;
    if token.as_ref().is_some_and(|token| token.is_empty() || token.contains(['\r', '\n'])) {
        return Err(OptionError::new("token", "a token is a line that is not empty"));
    }
    if options.is_given("connect") && (token.is_some() || file.is_some()) {
        let name = if token.is_some() { "token" } else { "token_file" };
        return Err(OptionError::new(
            name,
            "senders must know it where this side listens; remove it, or write `listen`",
        ));
    }
    Ok((token, file))
}

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
