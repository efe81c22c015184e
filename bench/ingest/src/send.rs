//! The sending process: makes all messages first, then sends them.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;

use crate::memory::now_ns;
use crate::{points, report};

/// How much is sent at once when nothing keeps the pace.
const PIECE_BYTES: usize = 256 << 10;

/// When messages are due.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub start_ns: u64,
    /// Messages per second.
    pub rate: u64,
}

impl Pace {
    pub fn due_ns(&self, message: u64) -> u64 {
        self.start_ns + (u128::from(message) * 1_000_000_000 / u128::from(self.rate)) as u64
    }
}

/// Sends, and prints when it began and how much processor time it took. Rate 0: as fast as it can.
pub fn run(address: &str, messages: u64, sensors: u64, rate: u64) -> Result<()> {
    let text = points::text(0, messages, sensors);
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    let processor_seconds = report::processor_seconds();
    let start_ns = now_ns();
    match rate {
        0 => text.chunks(PIECE_BYTES).try_for_each(|piece| socket.write_all(piece))?,
        rate => paced(&mut socket, &text, messages, Pace { start_ns, rate })?,
    }
    drop(socket);
    println!("{start_ns} {:.1}", report::processor_seconds() - processor_seconds);
    Ok(())
}

/// Sends everything that is due each time it wakes.
fn paced(socket: &mut TcpStream, text: &[u8], messages: u64, pace: Pace) -> Result<()> {
    let (mut sent, mut at) = (0, 0);
    while sent < messages {
        let now_ns = now_ns();
        let (mut due, mut end) = (sent, at);
        while due < messages && pace.due_ns(due) <= now_ns {
            end += text[end..].iter().position(|byte| *byte == b'\n').map_or(0, |length| length + 1);
            due += 1;
        }
        socket.write_all(&text[at..end])?;
        (sent, at) = (due, end);
        if sent < messages {
            std::thread::sleep(
                Duration::from_nanos(pace.due_ns(sent).saturating_sub(now_ns))
                    .max(Duration::from_micros(200)),
            );
        }
    }
    Ok(())
}
