//! Definitions whose code is in a file: the file, and the same definition with its bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::statement::{Code, FunctionBody, Span, Statement, StatementKind};

impl Statement {
    /// The file that the statement loads code from, with its place.
    pub(crate) fn code_file(&self) -> Option<(&str, Span)> {
        let StatementKind::CreateFunction(create) = &self.kind else { return None };
        match &create.body {
            FunctionBody::Code(code) => match &code.code {
                Code::File(path) => Some((path, code.code_span)),
                Code::Bytes(_) => None,
            },
            FunctionBody::Expression(_) | FunctionBody::Query(_) => None,
        }
    }

    /// The same definition, with the code in place of its file.
    pub(crate) fn with_code(&self, bytes: &[u8]) -> Statement {
        let mut whole = self.clone();
        if let StatementKind::CreateFunction(create) = &mut whole.kind
            && let FunctionBody::Code(code) = &mut create.body
        {
            code.code = Code::Bytes(bytes.into());
            let (start, place) = (self.span.start.byte as usize, code.code_span.bytes());
            let inline = format!("decode('{}', 'base64')", STANDARD.encode(bytes));
            whole.text.replace_range(place.start - start..place.end - start, &inline);
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::FunctionCode;
    use crate::{TextError, parse};

    fn read(text: &str) -> Result<FunctionCode, TextError> {
        let statement = parse(text, "test")?.remove(0);
        match statement.kind {
            StatementKind::CreateFunction(create) => match create.body {
                FunctionBody::Code(code) => Ok(*code),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn code_is_a_file_a_text_or_bytes() {
        let head = "CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE";
        let of = |rest: &str| read(&format!("{head} {rest}")).unwrap();
        let file = of("LANGUAGE wasm AS 'a/b.wasm', 'g'");
        assert_eq!(file.code, Code::File("a/b.wasm".to_owned()));
        assert_eq!(file.symbol.map(|(symbol, _)| symbol).as_deref(), Some("g"));
        assert_eq!(of("AS 'b.wasm' LANGUAGE WASM").code, Code::File("b.wasm".to_owned()));
        let bytes = Code::Bytes(b"\0asm"[..].into());
        for inline in
            ["decode('AGFzbQ==', 'base64')", "DECODE('AGFz\nbQ==', 'BASE64')", "decode('\\x0061736d', 'hex')"]
        {
            assert_eq!(of(&format!("LANGUAGE wasm AS {inline}")).code, bytes, "{inline}");
        }
        assert_eq!(of("LANGUAGE wasm AS $$ (module)$$").code, Code::Bytes(b" (module)"[..].into()));
        assert_eq!(
            of("LANGUAGE wasm AS 'f.wasm' WITH (fuel = 5)").options.integer("fuel", 1..=9).unwrap(),
            Some(5)
        );
        for wrong in [
            "LANGUAGE wasm AS decode('AGFzbQ=', 'base64')",
            "LANGUAGE wasm AS decode('0', 'hex')",
            "LANGUAGE wasm AS decode('00', 'octal')",
            "LANGUAGE wasm AS 'a' 'b'",
            "LANGUAGE wasm AS 'a', b",
            "LANGUAGE wasm RETURN x",
            "LANGUAGE wasm",
            "LANGUAGE wasm AS 'a' LANGUAGE wasm",
        ] {
            assert!(read(&format!("{head} {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_code_takes_the_place_of_its_file() {
        let head = "CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE LANGUAGE wasm AS";
        let text = format!("SHOW SINKS; {head} 'ä''s.wasm', 'g' WITH (fuel = 9)");
        let statement = parse(&text, "test").unwrap().remove(1);
        assert_eq!(statement.code_file().map(|(path, _)| path), Some("ä's.wasm"));
        let whole = statement.with_code(b"\0asm");
        assert_eq!(whole.text, format!("{head} decode('AGFzbQ==', 'base64'), 'g' WITH (fuel = 9)"));
        assert_eq!(whole.code_file(), None);
        let again = read(&whole.text).unwrap();
        assert_eq!(again.code, Code::Bytes(b"\0asm"[..].into()));
    }
}
