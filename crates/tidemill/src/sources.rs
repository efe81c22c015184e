//! Sources that programs often read; [`connect`](crate::connect) has all of them.

use tidemill_connect::formats::{DecoderSettings, Format, text_lines::lines_schema};
use tidemill_connect::socket::{SocketSettings, TcpLines};
use tidemill_engine::Cause;

/// Lines of text that arrive over TCP, as a column `line`, from all programs of this machine that connect to an address
/// such as `127.0.0.1:7000`. Port 0 takes any free port.
///
/// ```
/// let lines = tidemill::sources::tcp_lines("127.0.0.1:0")?;
/// assert_ne!(lines.local_address().unwrap().port(), 0);
/// # Ok::<(), tidemill::Error>(())
/// ```
///
/// # Errors
/// If the address cannot be bound, or other machines could reach it.
pub fn tcp_lines(address: &str) -> Result<TcpLines, Cause> {
    let decoder = DecoderSettings { schema: lines_schema(), csv: Default::default(), batch_rows: 8192 };
    let mut lines = TcpLines::listen(address, false, SocketSettings::new(Format::Lines, decoder))?;
    let text = lines_schema().index_of("line").expect("lines have this column");
    lines.set_projection(&[text])?;
    Ok(lines)
}
