//! How deep parentheses and types are nested, counted before anything is parsed: the parser recurses for each level, and so
//! does what drops its tree.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::is_word;

/// The most brackets of any kind within each other.
const MAX_BRACKETS: usize = 100;

/// The most types within each other. What stores a type cannot read deeper ones back.
pub(crate) const MAX_TYPES: usize = 30;

/// The index of the token that begins one level too many, and what is wrong.
pub(super) fn too_nested(tokens: &[TokenWithSpan]) -> Option<(usize, String)> {
    // Types are counted separately within each bracket.
    let (mut outer, mut types) = (Vec::new(), Types::default());
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &tokens[before].token);
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                outer.push(std::mem::take(&mut types));
                if outer.len() > MAX_BRACKETS {
                    return Some((
                        at,
                        format!("this statement is nested too deep: more than {MAX_BRACKETS} brackets"),
                    ));
                }
            }
            Token::RBracket => {
                types = outer.pop().unwrap_or_default();
                types.listed();
            }
            Token::RParen | Token::RBrace => types = outer.pop().unwrap_or_default(),
            Token::Lt if before.is_some_and(begins_type) => types.open.push(0),
            Token::Gt => types.close(),
            Token::ShiftRight => (0..2).for_each(|_| types.close()),
            Token::Comma => types.next(),
            // `INTERVAL INTERVAL` is read by a recursion that the parser does not limit.
            Token::Word(_) if is_word(&token.token, "INTERVAL") && before.is_some_and(is_interval) => {
                return Some((at, "expected the text of an INTERVAL, found `INTERVAL`".to_owned()));
            }
            _ => types.inner = 0,
        }
        if types.open.len().max(types.inner) > MAX_TYPES {
            return Some((at, format!("a type has more than {MAX_TYPES} levels")));
        }
    }
    None
}

fn begins_type(token: &Token) -> bool {
    ["ARRAY", "STRUCT"].iter().any(|word| is_word(token, word))
}

fn is_interval(token: &Token) -> bool {
    is_word(token, "INTERVAL")
}

/// The types that are open, such as `STRUCT<a ARRAY<`.
#[derive(Default)]
struct Types {
    /// For each open one, the levels of the deepest type in it so far.
    open: Vec<usize>,
    /// The levels of the type that was read last, without the innermost.
    inner: usize,
}

impl Types {
    /// After `[]` or `[7]`, which may also be the element of a list.
    fn listed(&mut self) {
        self.inner += 1;
    }

    fn next(&mut self) {
        if let Some(deepest) = self.open.last_mut() {
            *deepest = (*deepest).max(self.inner);
        }
        self.inner = 0;
    }

    /// After `>`, which may also be a comparison.
    fn close(&mut self) {
        if let Some(deepest) = self.open.pop() {
            self.inner = self.inner.max(deepest) + 1;
        } else {
            self.inner = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BRACKETS, MAX_TYPES};
    use crate::{Planner, parse};

    /// What a thread gets that asks for nothing else; those that plan for clients have more.
    const SMALLEST_STACK_BYTES: usize = 2 << 20;

    fn on_smallest_stack(body: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().stack_size(SMALLEST_STACK_BYTES);
        thread.spawn(body).unwrap().join().unwrap();
    }

    /// A text between repetitions of two others.
    fn around(open: &str, middle: &str, close: &str, levels: usize) -> String {
        format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
    }

    /// What the grammar lets be nested: before, within and behind.
    const NESTED: [(&str, &str, &str); 45] = [
        ("SELECT ", "(", ")"),
        ("SELECT ", "- ", ""),
        ("SELECT ", "NOT ", ""),
        ("SELECT 1", "", "+1"),
        ("SELECT 1", "", "::INT"),
        ("SELECT 1", "", " IS NULL"),
        ("SELECT 1", "", " BETWEEN 1 AND 2"),
        ("SELECT a", "", "[1]"),
        ("SELECT a", "", ".b"),
        ("SELECT now()", "", " AT TIME ZONE 'UTC'"),
        ("SELECT 'a'", "", " COLLATE x"),
        ("SELECT 'a'", "", " LIKE 'a'"),
        ("SELECT 1", "", " UNION ALL SELECT 1"),
        ("SELECT * FROM t", "", " JOIN t ON true"),
        ("SELECT * FROM t", "", " PIVOT (sum(a) FOR b IN (1))"),
        ("SELECT ", "INTERVAL ", ""),
        ("SELECT ", "x -> ", ""),
        ("", "EXPLAIN ", ""),
        ("SELECT ", "abs(", ")"),
        ("SELECT ", "CAST(", " AS INT)"),
        ("SELECT ", "EXTRACT(DAY FROM ", ")"),
        ("SELECT ", "SUBSTRING(", ")"),
        ("SELECT ", "TRIM(", ")"),
        ("SELECT ", "POSITION('a' IN ", ")"),
        ("SELECT ", "[", "]"),
        ("SELECT ", "ARRAY[", "]"),
        ("SELECT ", "{'a': ", "}"),
        ("SELECT ", "MAP {'a': ", "}"),
        ("SELECT ", "STRUCT(", ")"),
        ("SELECT ", "CASE WHEN true THEN ", " END"),
        ("SELECT ", "1 IN (", ")"),
        ("SELECT ", "EXISTS (SELECT ", ")"),
        ("SELECT ", "(SELECT ", ")"),
        ("SELECT * FROM ", "(SELECT * FROM ", ")"),
        ("SELECT * FROM ", "(", " JOIN t ON true)"),
        ("SELECT * FROM ", "UNNEST(", ")"),
        ("", "WITH a AS (", ") SELECT 2"),
        ("SELECT 1 GROUP BY ", "ROLLUP(", ")"),
        ("VALUES ", "(", ")"),
        ("SELECT x::INT", "", "[]"),
        ("SELECT NULL::", "ARRAY<", ">"),
        ("SELECT NULL::", "STRUCT<a ", ">"),
        ("SELECT NULL::", "MAP(INT, ", ")"),
        ("SELECT NULL::", "Nullable(", ")"),
        ("SELECT NULL::", "Tuple(", ")"),
    ];

    #[test]
    fn no_nesting_ends_the_process_or_takes_long() {
        on_smallest_stack(|| {
            for (before, open, close) in NESTED {
                for levels in [49, 10 * MAX_BRACKETS, 40 * MAX_BRACKETS, 30_000] {
                    // Without its end, and with something wrong in the middle, too: then the parser tries all it can.
                    for (middle, close) in
                        [("1", close), ("1", ""), ("1 )) 1", close), ("t", close), ("1 2", close)]
                    {
                        let text = format!("{before}{}", around(open, middle, close, levels));
                        let _ = parse(&text, "nested").map(drop);
                    }
                }
            }
        });
    }

    #[test]
    fn nesting_around_long_chains_is_as_deep_as_these() {
        on_smallest_stack(|| {
            let chain = |levels: usize| around("(", "1", &format!("{})", "+1".repeat(1900)), levels);
            for text in [format!("SELECT {}", chain(40)), format!("SELECT [{}, 1]", chain(40))] {
                let message = parse(&text, "nested").unwrap_err().to_string();
                assert!(message.contains("more than 4000 words"), "{message}");
            }
        });
    }

    #[test]
    fn types_are_nested_so_deep_and_no_deeper() {
        on_smallest_stack(|| {
            let deepest = |levels: usize| {
                let lists = "[]".repeat(levels / 2);
                let structs = around("STRUCT<a ", "INT", ">", levels - levels / 2);
                format!("CREATE SOURCE s (a {structs}{lists}) WITH (path = 'x.json', format = 'json')")
            };
            let mut planner = Planner::new();
            planner.execute(&parse(&deepest(MAX_TYPES), "nested").unwrap()[0]).unwrap();
            let message = parse(&deepest(MAX_TYPES + 2), "nested").unwrap_err().to_string();
            assert!(message.contains(&format!("a type has more than {MAX_TYPES} levels")), "{message}");
            // Comparisons, lists of values and elements of lists do not count.
            let compared = format!("SELECT {}", vec!["a[1] < [2]"; 100].join(" AND "));
            assert!(parse(&compared, "compared").is_ok());
        });
    }
}
