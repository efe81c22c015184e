//! What stores say when they give nothing.

use tidemill_connect::fetch::S3Settings;
use tidemill_connect::file::FileSettings;

use crate::fetch::support::{assert_told, refusal, settings};
use tidemill_testing::file_server::{Server, say};

fn of(server: &Server, path: &str) -> FileSettings {
    let mut settings = settings(path);
    settings.fetch.s3 = S3Settings {
        endpoint: Some(server.url("")),
        access_key: Some("me".to_owned()),
        secret_key: Some("secret".to_owned()),
        session_token: Some("secret token".to_owned()),
        ..S3Settings::default()
    };
    settings
}

#[test]
fn the_codes_of_stores_say_what_to_do() {
    for (status, code, header, why) in [
        ("404 Not Found", "NoSuchKey", "", "there is no such object: check the key"),
        ("404 Not Found", "NoSuchBucket", "", "there is no such bucket"),
        ("403 Forbidden", "InvalidAccessKeyId", "", "check s3_access_key"),
        ("403 Forbidden", "SignatureDoesNotMatch", "", "check s3_secret_key"),
        ("403 Forbidden", "RequestTimeTooSkewed", "", "the clock of this machine is wrong"),
        ("400 Bad Request", "ExpiredToken", "", "get new keys"),
        ("403 Forbidden", "AccessDenied", "x-amz-bucket-region: eu-west-3\r\n", "what they may read"),
        (
            "301 Moved Permanently",
            "PermanentRedirect",
            "x-amz-bucket-region: eu-west-3\r\nLocation: http://127.0.0.1:1/\r\n",
            "the bucket is in another region: s3_region = 'eu-west-3'",
        ),
        ("400 Bad Request", "AuthorizationHeaderMalformed", "", "set s3_region"),
        ("404 Not Found", "<&", "", "there is no such file"),
    ] {
        let server = Server::start(move |_, stream| {
            let body = format!("<?xml?><Error><Code>{code}</Code><Key>secret</Key></Error>");
            say(stream, status, header, body.as_bytes())
        });
        assert_told(
            &refusal(of(&server, "s3://bucket/a/b c.csv")),
            &["s3://bucket/a/b c.csv: the s", status, why],
        );
        let request = &server.requests()[0];
        assert_eq!(request.path, "/bucket/a/b%20c.csv");
        let signed = request.header("authorization").unwrap();
        assert!(signed.contains("host;x-amz-content-sha256;x-amz-date;x-amz-security-token"), "{signed}");
        assert_eq!(request.header("x-amz-security-token"), Some("secret token"));
    }
}

#[test]
fn lists_that_are_no_lists_are_refused() {
    // A list without end.
    let server = Server::start(|_, stream| {
        let keys: String = (0..1000).map(|number| format!("<Key>a/{number}.csv</Key>")).collect();
        let body = format!("<R>{keys}<NextContinuationToken>more</NextContinuationToken></R>");
        say(stream, "200 OK", "Content-Type: application/xml\r\n", body.as_bytes())
    });
    assert_told(
        &refusal(of(&server, "s3://bucket/a/*.csv")),
        &["s3://bucket/a/*.csv: there are too many objects"],
    );
    assert_eq!(server.requests()[1].path, "/bucket?continuation-token=more&list-type=2&prefix=a%2F");
    let server = Server::start(|_, stream| say(stream, "200 OK", "", b"<R></R>"));
    assert_told(
        &refusal(of(&server, "s3://bucket/a/")),
        &["no object matches; check the bucket and the prefix"],
    );
    assert_eq!(server.requests()[0].path, "/bucket?delimiter=%2F&list-type=2&prefix=a%2F");
}
