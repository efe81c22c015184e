//! `LANGUAGE wasm AS code [, 'symbol']`: the code of a function that is loaded.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::{Options, TypedName};
use crate::text::Span;

/// Code that is loaded, and the function of it that is called.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionCode {
    /// The code, or where it is.
    pub code: Code,
    /// Where that is written.
    pub code_span: Span,
    /// The name that the code exports the function by, with its place; `None`: that of the function.
    pub symbol: Option<(String, Span)>,
    /// What is kept for each group of an aggregate, or for each key of a function of rows; none for a function of values.
    pub state: Vec<TypedName>,
    /// What an instance may use.
    pub options: Options,
}

/// Code, or where it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Code {
    /// A file, which is read when the function is defined.
    File(String),
    /// A module, as text or binary.
    Bytes(Arc<[u8]>),
}

/// Whether `LANGUAGE wasm` stands here or behind the code.
pub(super) fn is_next(cursor: &Cursor<'_>) -> bool {
    cursor.finds(&["LANGUAGE", "WASM"])
}

/// Reads the code, with the language before or behind it.
pub(crate) fn read(cursor: &mut Cursor<'_>, options: Options) -> Result<FunctionCode, TextError> {
    let is_before = cursor.take(&["LANGUAGE", "WASM"]);
    if !cursor.take(&["AS"]) {
        return Err(cursor.unexpected("AS and the file of the module"));
    }
    let first = cursor.here();
    let code = code(cursor)?;
    let code_span = cursor.since(first);
    let symbol = if cursor.take_symbol(&Token::Comma) {
        Some(text(cursor, "the name that the module exports the function by, in '...'")?)
    } else {
        None
    };
    if !is_before {
        cursor.expect("LANGUAGE")?;
        cursor.expect("WASM")?;
    }
    cursor.finish("function")?;
    Ok(FunctionCode { code, code_span, symbol, state: Vec::new(), options })
}

fn code(cursor: &mut Cursor<'_>) -> Result<Code, TextError> {
    if cursor.take(&["DECODE"]) {
        return decoded(cursor);
    }
    let (text, _) = text(cursor, "a file in '...', a module in $$...$$, or decode('...', 'base64')")?;
    if text.trim_start().starts_with('(') {
        Ok(Code::Bytes(text.into_bytes().into()))
    } else {
        Ok(Code::File(text))
    }
}

/// Reads `('...', 'base64')` or `('...', 'hex')`.
fn decoded(cursor: &mut Cursor<'_>) -> Result<Code, TextError> {
    cursor.expect_symbol(&Token::LParen)?;
    let (encoded, place) = text(cursor, "the bytes of the module in '...'")?;
    cursor.expect_symbol(&Token::Comma)?;
    let (encoding, encoding_place) = text(cursor, "'base64' or 'hex'")?;
    cursor.expect_symbol(&Token::RParen)?;
    let bytes = match encoding.to_ascii_lowercase().as_str() {
        "base64" => STANDARD.decode(encoded.split_whitespace().collect::<String>()).ok(),
        "hex" => from_hex(&encoded),
        _ => {
            let message = format!("there is no encoding '{encoding}'");
            return Err(
                TextError::new(cursor.script(), encoding_place, message).with_hint("write 'base64' or 'hex'")
            );
        }
    };
    let bytes = bytes.ok_or_else(|| {
        TextError::new(cursor.script(), place, format!("this text is not encoded in {encoding}"))
            .with_hint("encode the bytes of the .wasm file, for example with the program base64")
    })?;
    Ok(Code::Bytes(bytes.into()))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x").unwrap_or(text).as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}

fn text(cursor: &mut Cursor<'_>, what: &str) -> Result<(String, Span), TextError> {
    let place = cursor.here();
    let TokenWithSpan { token, .. } = cursor.peek().clone();
    let text = match token {
        Token::SingleQuotedString(text) => text,
        Token::DollarQuotedString(text) => text.value,
        _ => return Err(cursor.unexpected(what)),
    };
    cursor.advance();
    Ok((text, place))
}
