//! What clients are sent.

use std::io::{self, Write};

use crate::postgres::values::Column;
use crate::report::{Report, Severity};

/// How many bytes are collected before they are sent.
const BYTES_KEPT: usize = 64 * 1024;

/// How far a client's transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionStatus {
    /// There is none.
    None = b'I' as isize,
    Open = b'T' as isize,
    /// A statement in it has failed, and it can only be ended.
    Failed = b'E' as isize,
}

/// Writes messages to a client. What is written is sent when there is enough of it, or with [`flush`](Writer::flush).
pub(crate) struct Writer<W> {
    stream: W,
    bytes: Vec<u8>,
    /// How many of these were sent.
    sent: usize,
}

impl<W: Write> Writer<W> {
    pub fn new(stream: W) -> Self {
        Writer { stream, bytes: Vec::with_capacity(1024), sent: 0 }
    }

    /// To whom it writes.
    pub fn stream(&self) -> &W {
        &self.stream
    }

    /// Sends everything. After an error it can be called again: what was not sent is kept.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.bytes.len() {
            match self.stream.write(&self.bytes[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        self.stream.flush()
    }

    /// A message of this kind.
    fn message(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.bytes.push(kind);
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        write(&mut self.bytes);
        let length = u32::try_from(self.bytes.len() - start).ok().filter(|length| *length <= i32::MAX as u32);
        let length = length.ok_or_else(|| io::Error::other("a message of more than 2 GiB cannot be sent"))?;
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
        if self.bytes.len() >= BYTES_KEPT { self.flush() } else { Ok(()) }
    }

    /// The answer to a wish for encryption.
    pub fn encryption(&mut self, is_given: bool) -> io::Result<()> {
        self.bytes.push(if is_given { b'S' } else { b'N' });
        self.flush()
    }

    pub fn authentication_ok(&mut self) -> io::Result<()> {
        self.message(b'R', |bytes| bytes.extend(0_i32.to_be_bytes()))
    }

    /// The mechanisms by which a client may prove who it is.
    pub fn sasl_mechanisms(&mut self, names: &[&str]) -> io::Result<()> {
        self.message(b'R', |bytes| {
            bytes.extend(10_i32.to_be_bytes());
            names.iter().for_each(|name| text(bytes, name));
            bytes.push(0);
        })
    }

    pub fn sasl_continue(&mut self, message: &str) -> io::Result<()> {
        self.message(b'R', |bytes| {
            bytes.extend(11_i32.to_be_bytes());
            bytes.extend(message.as_bytes());
        })
    }

    pub fn sasl_final(&mut self, message: &str) -> io::Result<()> {
        self.message(b'R', |bytes| {
            bytes.extend(12_i32.to_be_bytes());
            bytes.extend(message.as_bytes());
        })
    }

    /// The protocol's newest minor version, and the options that are not understood.
    pub fn negotiate(&mut self, options: &[&str]) -> io::Result<()> {
        self.message(b'v', |bytes| {
            bytes.extend((3_i32 << 16).to_be_bytes());
            bytes.extend((options.len() as i32).to_be_bytes());
            options.iter().for_each(|option| text(bytes, option));
        })
    }

    pub fn parameter(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.message(b'S', |bytes| {
            text(bytes, name);
            text(bytes, value);
        })
    }

    /// What cancels the queries of this connection.
    pub fn cancel_key(&mut self, process: i32, secret: i32) -> io::Result<()> {
        self.message(b'K', |bytes| {
            bytes.extend(process.to_be_bytes());
            bytes.extend(secret.to_be_bytes());
        })
    }

    pub fn ready(&mut self, status: TransactionStatus) -> io::Result<()> {
        self.message(b'Z', |bytes| bytes.push(status as u8))?;
        self.flush()
    }

    pub fn columns(&mut self, columns: &[Column]) -> io::Result<()> {
        self.message(b'T', |bytes| {
            bytes.extend((columns.len() as u16).to_be_bytes());
            for column in columns {
                text(bytes, &column.name);
                // Of no table.
                bytes.extend([0; 6]);
                bytes.extend(column.kind.oid().to_be_bytes());
                bytes.extend(column.kind.size().to_be_bytes());
                bytes.extend(column.modifier.to_be_bytes());
                bytes.extend(u16::from(column.is_binary).to_be_bytes());
            }
        })
    }

    /// A row of `count` values. `value` writes one of them, and says whether there is one.
    pub fn row(
        &mut self,
        count: usize,
        mut value: impl FnMut(usize, &mut Vec<u8>) -> bool,
    ) -> io::Result<()> {
        self.message(b'D', |bytes| {
            bytes.extend((count as u16).to_be_bytes());
            for index in 0..count {
                let start = bytes.len();
                bytes.extend((-1_i32).to_be_bytes());
                if value(index, bytes) {
                    let length = (bytes.len() - start - 4) as i32;
                    bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
                }
            }
        })
    }

    pub fn complete(&mut self, tag: &str) -> io::Result<()> {
        self.message(b'C', |bytes| text(bytes, tag))
    }

    /// Lines of a copy follow, with this many columns, as text.
    pub fn copy_out(&mut self, columns: usize, is_binary: bool) -> io::Result<()> {
        self.copy(b'H', columns, is_binary)
    }

    /// The client is to send the rows of a copy.
    pub fn copy_in(&mut self, columns: usize, is_binary: bool) -> io::Result<()> {
        self.copy(b'G', columns, is_binary)
    }

    fn copy(&mut self, kind: u8, columns: usize, is_binary: bool) -> io::Result<()> {
        self.message(kind, |bytes| {
            bytes.push(is_binary.into());
            bytes.extend((columns as u16).to_be_bytes());
            bytes.extend(std::iter::repeat_n([0, u8::from(is_binary)], columns).flatten());
        })
    }

    pub fn copy_data(&mut self, lines: &[u8]) -> io::Result<()> {
        self.message(b'd', |bytes| bytes.extend(lines))
    }

    pub fn copy_done(&mut self) -> io::Result<()> {
        self.message(b'c', |_| {})
    }

    pub fn empty_query(&mut self) -> io::Result<()> {
        self.message(b'I', |_| {})
    }

    pub fn parse_complete(&mut self) -> io::Result<()> {
        self.message(b'1', |_| {})
    }

    pub fn bind_complete(&mut self) -> io::Result<()> {
        self.message(b'2', |_| {})
    }

    pub fn close_complete(&mut self) -> io::Result<()> {
        self.message(b'3', |_| {})
    }

    pub fn no_data(&mut self) -> io::Result<()> {
        self.message(b'n', |_| {})
    }

    pub fn suspended(&mut self) -> io::Result<()> {
        self.message(b's', |_| {})
    }

    pub fn parameter_types(&mut self, types: &[u32]) -> io::Result<()> {
        self.message(b't', |bytes| {
            bytes.extend((types.len() as u16).to_be_bytes());
            types.iter().for_each(|oid| bytes.extend(oid.to_be_bytes()));
        })
    }

    pub fn report(&mut self, report: &Report) -> io::Result<()> {
        let kind = match report.severity {
            Severity::Notice | Severity::Warning => b'N',
            Severity::Error | Severity::Fatal => b'E',
        };
        self.message(kind, |bytes| {
            let position = report.position.map(|position| position.to_string());
            let severity = report.severity.word();
            let fields = [
                (b'S', Some(severity)),
                (b'V', Some(severity)),
                (b'C', Some(report.code)),
                (b'M', Some(&*report.message)),
                (b'H', report.hint.as_deref()),
                (b'P', position.as_deref()),
            ];
            for (field, value) in fields {
                if let Some(value) = value {
                    bytes.push(field);
                    text(bytes, value);
                }
            }
            bytes.push(0);
        })
    }
}

/// A text, which ends at the first zero byte.
fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(text.bytes().take_while(|byte| *byte != 0));
    bytes.push(0);
}
