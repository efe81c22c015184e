//! Errors for clients that get no session.

use std::io::{self, Read};
use std::time::Duration;

use crate::postgres::wire::Writer;
use crate::report::{Report, TOO_MANY_CONNECTIONS};
use crate::sessions::client_stream::ClientStream;

/// How long a refusal may take: it fits into an empty buffer of the network.
const REFUSAL_TIME: Duration = Duration::from_millis(100);

/// Tells a client why it gets no session, and closes its connection. Waits for nobody who does not read.
pub(crate) fn refuse(stream: &ClientStream, report: &Report) {
    let _ = stream.set_write_timeout(REFUSAL_TIME);
    let _ = tell(stream, report);
    // What it has sent is read, because unread bytes would turn the end of the connection into a reset.
    let _ = stream.socket().set_nonblocking(true);
    let _ = stream.socket().read(&mut [0; 1024]);
    stream.close();
}

/// The error for a client that the system cannot wait for.
pub(crate) fn not_waited_for(error: &io::Error) -> Report {
    let message = format!("the server cannot wait for what this client sends: {error}");
    let hint = "close other connections, or let the system watch more files (fs.epoll.max_user_watches)";
    Report::fatal(TOO_MANY_CONNECTIONS, message).with_hint(hint)
}

/// Sends an error to a client.
pub(crate) fn tell(stream: &ClientStream, report: &Report) -> io::Result<()> {
    let mut writer = Writer::new(stream);
    writer.report(report)?;
    writer.flush()
}
