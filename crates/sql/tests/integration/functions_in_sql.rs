//! Functions that are defined in SQL: a call means the same as its body, written out by hand; and hostile definitions.

use std::fmt::Write;

use tidemill_sql::{Parameter, ParameterType, Planner, Reply, divide, parse};
use tidemill_testing::random::Random;

fn execute(planner: &mut Planner, text: &str) -> Result<Option<String>, String> {
    let mut rows = None;
    for statement in parse(text, "test").map_err(|error| error.to_string())? {
        match planner.execute(&statement).map_err(|error| error.to_string())? {
            Reply::Rows(batch) => rows = Some(format!("{:?}", batch.columns())),
            Reply::Query(_) => panic!("the query reads only tables: {text}"),
            _ => {}
        }
    }
    Ok(rows)
}

fn done(planner: &mut Planner, text: &str) -> Option<String> {
    execute(planner, text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn refused(planner: &mut Planner, text: &str) -> String {
    match execute(planner, text) {
        Err(error) => error,
        Ok(_) => panic!("this was accepted: {text}"),
    }
}

/// An expression: of parameters or columns, and of calls.
#[derive(Clone)]
enum Tree {
    Name(usize),
    Number(i64),
    Joined(&'static str, Box<[Tree; 2]>),
    Chosen(Box<[Tree; 3]>),
    Call(usize, Vec<Tree>),
}

struct Defined {
    types: Vec<&'static str>,
    result: &'static str,
    body: Tree,
}

const TYPES: [&str; 4] = ["BIGINT", "INT", "DOUBLE", "SMALLINT"];

/// The names of the parameters of every function are those of the columns, in another order.
const COLUMNS: [&str; 3] = ["a", "b", "c"];
const PARAMETERS: [&str; 3] = ["c", "a", "b"];

fn tree(random: &mut Random, depth: usize, defined: &[Defined]) -> Tree {
    match random.index(if depth == 0 { 3 } else { 8 }) {
        0 | 1 => Tree::Name(random.index(3)),
        2 => Tree::Number(random.index(7) as i64 - 2),
        3 | 4 => {
            let operator = ["+", "-", "*", "/"][random.index(4)];
            Tree::Joined(operator, Box::new([(); 2].map(|()| tree(random, depth - 1, defined))))
        }
        5 => Tree::Chosen(Box::new([(); 3].map(|()| tree(random, depth - 1, defined)))),
        _ if defined.is_empty() => Tree::Name(random.index(3)),
        _ => {
            let function = random.index(defined.len());
            let arguments = defined[function].types.iter().map(|_| tree(random, depth - 1, defined));
            Tree::Call(function, arguments.collect())
        }
    }
}

/// The text of an expression; calls as calls, or written out.
fn text(tree: &Tree, names: &[String], defined: &[Defined], is_written_out: bool) -> String {
    let of = |tree: &Tree| text(tree, names, defined, is_written_out);
    match tree {
        Tree::Name(index) => names[*index].clone(),
        Tree::Number(number) => format!("({number})"),
        Tree::Joined(operator, sides) => format!("({} {operator} {})", of(&sides[0]), of(&sides[1])),
        Tree::Chosen(parts) => {
            format!("(CASE WHEN {} > {} THEN {} END)", of(&parts[0]), of(&parts[1]), of(&parts[2]))
        }
        Tree::Call(function, arguments) if !is_written_out => {
            let arguments: Vec<String> = arguments.iter().map(of).collect();
            format!("f{function}({})", arguments.join(", "))
        }
        Tree::Call(function, arguments) => {
            let Defined { types, result, body } = &defined[*function];
            let values = arguments.iter().zip(types);
            let values: Vec<String> =
                values.map(|(argument, kind)| format!("CAST({} AS {kind})", of(argument))).collect();
            format!("CAST({} AS {result})", text(body, &values, defined, true))
        }
    }
}

fn names(of: [&str; 3]) -> Vec<String> {
    of.map(str::to_owned).to_vec()
}

/// Every parameter must be used.
fn with_all(body: Tree) -> Tree {
    (0..3).fold(body, |body, index| Tree::Joined("+", Box::new([body, Tree::Name(index)])))
}

#[test]
fn a_call_means_its_body() {
    let mut random = Random::new(7);
    let (mut answered, mut failed) = (0, 0);
    for _ in 0..12 {
        let mut planner = Planner::new();
        let mut defined: Vec<Defined> = Vec::new();
        for number in 0..3 {
            let body = with_all(tree(&mut random, 2, &defined));
            let types: Vec<&str> = (0..3).map(|_| TYPES[random.index(4)]).collect();
            let result = TYPES[random.index(4)];
            let written = text(&body, &names(PARAMETERS), &defined, false);
            let declared = PARAMETERS.iter().zip(&types).map(|(name, kind)| format!("{name} {kind}"));
            let declared = declared.collect::<Vec<_>>().join(", ");
            let create = format!("CREATE FUNCTION f{number}({declared}) RETURNS {result} AS $$ {written} $$");
            done(&mut planner, &create);
            defined.push(Defined { types, result, body });
        }
        for _ in 0..5 {
            let query = tree(&mut random, 2, &defined);
            let ask = |is_written_out| {
                let value = text(&query, &names(COLUMNS), &defined, is_written_out);
                format!(
                    "SELECT {value} AS v FROM (VALUES (1, 2, 3.5), (-4, NULL, 0.25), (7, 5, 2)) AS t(a, b, c)"
                )
            };
            let (called, by_hand) = (execute(&mut planner, &ask(false)), execute(&mut planner, &ask(true)));
            match (called, by_hand) {
                (Ok(called), Ok(by_hand)) => {
                    assert_eq!(called, by_hand, "{}\n{}", ask(false), ask(true));
                    answered += 1;
                }
                (Err(_), Err(_)) => failed += 1,
                (called, by_hand) => panic!("{}\n{called:?}\n{by_hand:?}", ask(false)),
            }
        }
    }
    assert!(answered > 20, "{answered} were answered and {failed} failed");
}

#[test]
fn functions_that_double_are_refused_before_they_take_memory() {
    let mut planner = Planner::new();
    done(&mut planner, "CREATE FUNCTION f0(x BIGINT) RETURNS BIGINT AS 'x + x'");
    let mut last = None;
    for number in 1..40 {
        let below = number - 1;
        let create = format!("CREATE FUNCTION f{number}(x BIGINT) RETURNS BIGINT AS 'f{below}(f{below}(x))'");
        if let Err(error) = execute(&mut planner, &create) {
            last = Some(error);
            break;
        }
    }
    let error = last.expect("one of them is too large");
    assert!(error.contains("more than 10000 nodes"), "{error}");
    let mut nested = "1".to_owned();
    for _ in 0..40 {
        nested = format!("f0({nested})");
    }
    let error = refused(&mut planner, &format!("SELECT {nested}"));
    assert!(error.contains("add more than 10000 nodes"), "{error}");
}

#[test]
fn rows_that_double_are_refused() {
    let mut planner = Planner::new();
    done(&mut planner, "CREATE FUNCTION r0() RETURNS TABLE (n BIGINT) AS 'SELECT 1'");
    let error = (1..40).find_map(|number| {
        let below = number - 1;
        let create = format!(
            "CREATE FUNCTION r{number}() RETURNS TABLE (n BIGINT) AS
             'SELECT * FROM r{below}() UNION ALL SELECT * FROM r{below}()'"
        );
        execute(&mut planner, &create).err()
    });
    let error = error.expect("one of them is too large");
    assert!(error.contains("more than 4000 steps"), "{error}");
}

/// Runs a test with the stack of a server's client: deep trees are planned there.
fn with_stack_of_a_client(test: fn()) {
    let thread = std::thread::Builder::new().stack_size(16 * 1024 * 1024).spawn(test).unwrap();
    thread.join().unwrap();
}

#[test]
fn chains_end_at_a_depth_that_a_stack_can_hold() {
    with_stack_of_a_client(deep_chains);
}

fn deep_chains() {
    let mut planner = Planner::new();
    let long = vec!["x"; 400].join(" + ");
    done(&mut planner, &format!("CREATE FUNCTION long(x BIGINT) RETURNS BIGINT AS '{long}'"));
    let error = refused(
        &mut planner,
        "CREATE FUNCTION longer(x BIGINT) RETURNS BIGINT AS 'long(1) + x + long(long(x))'",
    );
    assert!(error.contains("nodes") || error.contains("levels"), "{error}");
    let chain = vec!["x"; 5_000].join(" + ");
    let error = refused(&mut planner, &format!("CREATE FUNCTION h(x BIGINT) RETURNS BIGINT AS '{chain}'"));
    assert!(error.contains("without a comma or parenthesis"), "{error}");
}

#[test]
fn chains_of_rows_end() {
    with_stack_of_a_client(chains_of_rows);
}

fn chains_of_rows() {
    let mut planner = Planner::new();
    done(&mut planner, "CREATE FUNCTION r0() RETURNS TABLE (n BIGINT) AS 'SELECT 1'");
    let error = (1..200).find_map(|number| {
        let below = number - 1;
        let create =
            format!("CREATE FUNCTION r{number}() RETURNS TABLE (n BIGINT) AS 'SELECT * FROM r{below}()'");
        execute(&mut planner, &create).err()
    });
    let error = error.expect("the chain ends");
    assert!(error.contains("more than 30 functions call each other in a row"), "{error}");
}

#[test]
fn a_function_has_at_most_100_parameters() {
    let create = |count: usize| {
        let (mut declared, mut body) = (String::new(), String::new());
        for number in 0..count {
            let comma = if number == 0 { "" } else { ", " };
            write!(declared, "{comma}p{number} INT").unwrap();
            write!(body, "{}p{number}", if number == 0 { "" } else { " + " }).unwrap();
        }
        format!("CREATE FUNCTION f(\n{declared}) RETURNS BIGINT AS\n'{body}'")
    };
    let mut planner = Planner::new();
    let error = refused(&mut planner, &create(1_000));
    assert!(error.contains("at most 100 parameters"), "{error}");
    done(&mut planner, &create(100));
    let ones = vec!["1"; 100].join(", ");
    assert_eq!(
        done(&mut planner, &format!("SELECT f({ones})")),
        done(&mut planner, "SELECT CAST(100 AS BIGINT)")
    );
}

#[test]
fn prepared_statements_pass_their_parameters() {
    let mut planner = Planner::new();
    done(&mut planner, "CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT AS 'x + x'");
    done(
        &mut planner,
        "CREATE FUNCTION above(least BIGINT) RETURNS TABLE (n BIGINT) AS
         'SELECT value FROM generate_series(1, 5) AS s(value) WHERE value >= least'",
    );
    for (text, expected) in [
        ("SELECT twice($1)", "SELECT CAST(8 AS BIGINT)"),
        ("SELECT n FROM above($1)", "SELECT value FROM generate_series(4, 5) AS s(value)"),
    ] {
        let statement = divide(text, "prepared").unwrap()[0].read().unwrap();
        assert_eq!(planner.parameter_types(&statement, &[None]), [ParameterType::BigInt], "{text}");
        let four = Parameter { kind: ParameterType::BigInt, value: Some("4".to_owned()) };
        let bound = statement.bind(&[Some(four)]).unwrap();
        let Ok(Reply::Rows(rows)) = planner.execute(&bound) else { panic!("{text}") };
        assert_eq!(Some(format!("{:?}", rows.columns())), done(&mut planner, expected), "{text}");
    }
}
