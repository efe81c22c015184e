//! The parameters of an address.

use hyper::StatusCode;

use super::answer::Refusal;
use crate::report::INVALID_PARAMETER_VALUE;

/// The parameters of an address, decoded.
pub(super) fn parameters(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let decoded = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decoded(name)?, decoded(value)?))
    });
    decoded.collect()
}

fn decoded(text: &str) -> Result<String, Refusal> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(bad("a % in the address is not followed by two hexadecimal digits"));
                };
                (high * 16 + low) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| bad("the address is not UTF-8 text"))
}

/// Refuses a request that is wrong.
pub(super) fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_decoded() {
        let pairs = parameters("query=SELECT+%27%C3%A4%26%27&rows_max=7&x").unwrap();
        let expected = [("query", "SELECT 'ä&'"), ("rows_max", "7"), ("x", "")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for wrong in ["a=%", "a=%2", "a=%zz", "a=%+1", "a=%ff"] {
            assert!(parameters(wrong).is_err(), "{wrong}");
        }
    }
}
