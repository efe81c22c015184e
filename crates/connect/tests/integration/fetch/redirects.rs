//! Redirects, and what they may not do.

use crate::fetch::support::{assert_told, read, refusal, settings};
use tidemill_testing::file_server::{Server, say};

fn moved(to: &str) -> String {
    format!("Location: {to}\r\n")
}

#[test]
fn five_redirects_are_followed_and_six_are_not() {
    let server = Server::start(|request, stream| {
        let hops: u32 = request.path.trim_start_matches("/a").trim_end_matches(".csv").parse().unwrap();
        match hops {
            0 => say(stream, "200 OK", "", b"id\n1\n"),
            hops => say(stream, "302 Found", &moved(&format!("a{}.csv", hops - 1)), b""),
        }
    });
    assert_eq!(read(settings(&server.url("a5.csv"))).unwrap(), [1]);
    assert_told(&refusal(settings(&server.url("a6.csv"))), &["/a6.csv: more than 5 redirects"]);
    assert_eq!(server.requests().len(), 12, "nothing is tried again");
}

#[test]
fn other_servers_do_not_get_the_headers() {
    let other = Server::of_file("id\n1\n");
    let to = moved(&format!("http://127.0.0.1:{}/b.csv", other.port));
    let server = Server::start(move |request, stream| match request.path.as_str() {
        "/a.csv" => say(stream, "307 Temporary Redirect", "Location: /c.csv\r\n", b""),
        _ => say(stream, "308 Permanent Redirect", &to, b""),
    });
    let mut wanted = settings(&server.url("a.csv"));
    wanted.fetch.headers = vec![("Authorization".to_owned(), "Bearer secret".to_owned())];
    // One of several values, and in place of the source's own.
    wanted.fetch.headers.extend(["a", "b"].map(|team| ("X-Team".to_owned(), team.to_owned())));
    wanted.fetch.headers.push(("User-Agent".to_owned(), "me".to_owned()));
    assert_eq!(read(wanted).unwrap(), [1]);
    assert_eq!(server.requests()[0].headers("x-team"), ["a", "b"]);
    assert_eq!(server.requests()[0].headers("user-agent"), ["me"]);
    let told = |server: &Server| -> Vec<Option<String>> {
        server.requests().iter().map(|request| request.header("authorization").map(str::to_owned)).collect()
    };
    let secret = || Some("Bearer secret".to_owned());
    assert_eq!(told(&server), [secret(), secret()]);
    assert_eq!(told(&other), [None]);
    assert_eq!(other.requests()[0].header("host").unwrap(), format!("127.0.0.1:{}", other.port));
}

#[test]
fn redirects_lead_to_the_web_only() {
    for (to, why) in [
        ("file:///etc/passwd", "to file://, from which nothing is fetched"),
        ("ftp://127.0.0.1/secret", "to ftp://, from which nothing is fetched"),
        ("http://me:secret@127.0.0.1/", "a user or password"),
        ("http://[secret", "to something that is not a URL"),
    ] {
        let server = Server::start(move |_, stream| say(stream, "301 Moved Permanently", &moved(to), b""));
        assert_told(&refusal(settings(&server.url("a.csv"))), &["/a.csv: the server redirects ", why]);
        assert_eq!(server.requests().len(), 1);
    }
    let server = Server::start(|_, stream| write!(stream, "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"));
    assert_told(&refusal(settings(&server.url("a.csv"))), &["302 Found; it gives no file"]);
}

#[test]
fn headers_are_checked() {
    for (name, why) in [("Host", "it is set by the source"), ("a b", "it is not the name of a header")] {
        let mut wanted = settings("http://127.0.0.1:1/a.csv");
        wanted.fetch.headers = vec![(name.to_owned(), "secret".to_owned())];
        assert_told(&refusal(wanted), &[name, why]);
    }
    let mut wanted = settings("http://127.0.0.1:1/a.csv");
    wanted.fetch.headers =
        ["Authorization", "authorization"].map(|name| (name.to_owned(), "secret".to_owned())).into();
    assert_told(&refusal(wanted), &["the header 'authorization'", "it is given twice"]);
    // An address that leads nowhere.
    let mut wanted = settings("http://192.0.2.1/a.csv");
    wanted.fetch.headers = vec![("X".to_owned(), "geh\u{0}secret".to_owned())];
    assert_told(&refusal(wanted), &["the header 'X'", "write ASCII"]);
}
