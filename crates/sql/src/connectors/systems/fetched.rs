//! The options of files that lie on other machines.

use tidemill_connect::fetch::{FetchSettings, S3Settings};

use super::http_posts::headers;
use super::tls::tls_client_settings;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind, OptionValues};

pub(super) const HEADERS: OptionDefinition = OptionDefinition::new(
    "headers",
    OptionKind::Text,
    OptionDefault::Nothing("none"),
    "URL: headers of each request, one per line: `'Authorization: Bearer ${TOKEN}'`; other hosts, to which the server \
     redirects, do not get them",
);
pub(super) const TIMEOUT: OptionDefinition = OptionDefinition::new(
    "timeout",
    OptionKind::Duration,
    OptionDefault::Value("30 s"),
    "URL: how long the server may be silent before the download is continued with another request",
);
pub(super) const DOWNLOAD_TIME_MAX: OptionDefinition = OptionDefinition::new(
    "download_time_max",
    OptionKind::Duration,
    OptionDefault::Value("1 hour"),
    "URL: how long it may take to fetch a file",
);
pub(super) const DOWNLOAD_MAX: OptionDefinition = OptionDefinition::new(
    "download_max",
    OptionKind::Bytes,
    OptionDefault::Value("10 GB"),
    "URL: how long a file may be; it needs so much space in the temporary folder",
);
pub(super) const ALLOW_REMOTE: OptionDefinition = OptionDefinition::new(
    "allow_remote",
    OptionKind::Boolean,
    OptionDefault::Value("false"),
    "URL: lets `headers` be sent to other machines over `http://`, where anyone between can read them",
);
pub(super) const S3_ENDPOINT: OptionDefinition = OptionDefinition::new(
    "s3_endpoint",
    OptionKind::Text,
    OptionDefault::Nothing("`AWS_ENDPOINT_URL`, or Amazon's of the region"),
    "`s3://`: another store, such as `'https://minio.example.org:9000'`",
);
pub(super) const S3_REGION: OptionDefinition = OptionDefinition::new(
    "s3_region",
    OptionKind::Text,
    OptionDefault::Nothing("`AWS_REGION`, or `us-east-1`"),
    "`s3://`: the region of the bucket",
);
pub(super) const S3_ACCESS_KEY: OptionDefinition = OptionDefinition::new(
    "s3_access_key",
    OptionKind::Text,
    OptionDefault::Nothing("`AWS_ACCESS_KEY_ID`"),
    "`s3://`: who asks; without keys only public objects can be read",
);
pub(super) const S3_SECRET_KEY: OptionDefinition = OptionDefinition::new(
    "s3_secret_key",
    OptionKind::Text,
    OptionDefault::Nothing("`AWS_SECRET_ACCESS_KEY`"),
    "`s3://`: the key that signs requests, best as `'${NAME}'`",
);
pub(super) const S3_SESSION_TOKEN: OptionDefinition = OptionDefinition::new(
    "s3_session_token",
    OptionKind::Text,
    OptionDefault::Nothing("`AWS_SESSION_TOKEN`"),
    "`s3://`: what belongs to keys that are valid for some hours",
);

/// Those that say something only if the path is a URL.
const NAMES: &[&str] = &[
    "headers",
    "timeout",
    "download_time_max",
    "download_max",
    "allow_remote",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "s3_endpoint",
    "s3_region",
    "s3_access_key",
    "s3_secret_key",
    "s3_session_token",
];

/// How a file is fetched.
pub(super) fn fetch_settings(
    options: &OptionValues<'_>,
    is_remote: bool,
) -> Result<FetchSettings, OptionError> {
    let mut settings = FetchSettings::default();
    if !is_remote {
        return match NAMES.iter().find(|name| options.is_given(name)) {
            Some(name) => {
                let message =
                    format!("`{name}` is for files of other machines, and the path is not a URL; remove it");
                Err(OptionError::new(name, message))
            }
            None => Ok(settings),
        };
    }
    settings.headers = headers(options.text("headers").unwrap_or_default())?;
    settings.timeout = options.duration("timeout").unwrap_or(settings.timeout);
    settings.time_max = options.duration("download_time_max").unwrap_or(settings.time_max);
    settings.bytes_max = options.bytes("download_max").unwrap_or(settings.bytes_max);
    settings.allow_remote = options.boolean("allow_remote");
    settings.tls = tls_client_settings(options)?;
    settings.s3 = s3_settings(options)?;
    for (name, duration) in [("timeout", settings.timeout), ("download_time_max", settings.time_max)] {
        if duration.is_zero() {
            return Err(OptionError::new(name, "nothing is fetched in no time; write '30 s'"));
        }
    }
    Ok(settings)
}

/// Keys that a statement names are not mixed with those of the environment.
fn s3_settings(options: &OptionValues<'_>) -> Result<S3Settings, OptionError> {
    let text = |name: &str| options.text(name).map(str::to_owned);
    let keys = [text("s3_access_key"), text("s3_secret_key"), text("s3_session_token")];
    let mut settings = S3Settings::from_environment();
    match keys {
        [None, None, None] => {}
        [Some(_), None, _] => {
            let message = "the access key needs its secret key; add s3_secret_key = '${NAME}'";
            return Err(OptionError::new("s3_access_key", message));
        }
        [None, secret_key, _] => {
            let name = if secret_key.is_some() { "s3_secret_key" } else { "s3_session_token" };
            return Err(OptionError::new(name, "it belongs to an access key; add s3_access_key = '...'"));
        }
        [access_key, secret_key, session_token] => {
            settings = S3Settings { access_key, secret_key, session_token, ..settings };
        }
    }
    settings.endpoint = text("s3_endpoint").or(settings.endpoint);
    settings.region = text("s3_region").or(settings.region);
    Ok(settings)
}

/// Whether a name would be that of a file of another machine.
pub(super) fn is_remote(path: &str) -> bool {
    tidemill_connect::file::FileSettings::new(path).is_remote()
}

/// Refuses to write a file on another machine.
pub(super) fn refuse_remote(path: &str) -> Result<(), OptionError> {
    if is_remote(path) {
        Err(OptionError::new(
            "path",
            "files are written on this machine only; write a file and copy it, or post rows (connector = 'http')",
        ))
    } else {
        Ok(())
    }
}
