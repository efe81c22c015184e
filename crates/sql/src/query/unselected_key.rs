//! Tables whose key is not selected: `SELECT count(*) FROM clicks GROUP BY page`. Only the key says which row a changed one
//! replaces, so whoever shows the table needs it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, SubqueryAlias};

use crate::logical::same_name;
use crate::translate::{Kind, StateLimits, Translator, as_column, column_at};

/// A query with columns at its end that it did not select: those of its key that were missing.
pub(crate) struct WithKey {
    pub query: LogicalPlan,
    /// How many columns were added.
    pub added: usize,
    /// The indexes of the key's columns.
    key: Vec<usize>,
}

impl WithKey {
    /// Adds the key to a query that gives a table without it; `None` if it cannot be added.
    pub fn add(query: &LogicalPlan, limits: &StateLimits) -> Result<Option<WithKey>> {
        match query {
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(WithKey { query, added, key }) = WithKey::add(&alias.input, limits)? else {
                    return Ok(None);
                };
                let alias = SubqueryAlias::try_new(Arc::new(query), alias.alias.clone())?;
                Ok(Some(WithKey { query: LogicalPlan::SubqueryAlias(alias), added, key }))
            }
            LogicalPlan::Projection(projection) => match keyed_input(&projection.input, limits)? {
                Some((input, key)) => WithKey::select(&projection.expr, input, &key).map(Some),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Selects these columns of a plan, and then the others of its key.
    fn select(selected: &[Expr], input: LogicalPlan, key: &[usize]) -> Result<WithKey> {
        let schema = input.schema();
        let mut columns = selected.to_vec();
        let mut places: Vec<_> = selected.iter().map(|column| as_column(column, schema)).collect();
        for index in key {
            if !places.contains(&Some(*index)) {
                let name = same_name(schema.field(*index).name(), columns.len());
                columns.push(column_at(schema, *index).alias(name));
                places.push(Some(*index));
            }
        }
        let key = key.iter().filter_map(|index| places.iter().position(|place| *place == Some(*index)));
        let (key, added) = (key.collect(), columns.len() - selected.len());
        let query = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(input))?);
        Ok(WithKey { query, added, key })
    }
}

/// A plan whose columns contain its key, and the key's; the plan is this one, or this one with its key added.
fn keyed_input(input: &LogicalPlan, limits: &StateLimits) -> Result<Option<(LogicalPlan, Vec<usize>)>> {
    let kind = Translator::new("key", &[input], limits.clone())?.output(input)?.kind;
    Ok(match kind {
        Kind::Stream | Kind::Changing => None,
        Kind::Table { keys: Some(key) } => Some((input.clone(), key)),
        Kind::Table { keys: None } => WithKey::add(input, limits)?.map(|keyed| (keyed.query, keyed.key)),
    })
}

#[cfg(test)]
mod tests {
    use crate::{Planner, Reply, parse};

    /// The columns of a query's output, the indexes of its key, and how many columns were not selected.
    fn output(query: &str) -> (Vec<String>, Option<Vec<usize>>, usize) {
        let statement = parse(query, "test").unwrap().remove(0);
        let reply = Planner::new().execute(&statement).unwrap_or_else(|error| panic!("{error}\n{query}"));
        let Reply::Query(prepared) = reply else { panic!("no query: {query}") };
        let output = &prepared.outputs()[0];
        let names = output.schema.fields().iter().map(|field| field.name().clone()).collect();
        (names, output.table_key.clone().expect("it is a table"), output.unselected)
    }

    const NESTED: &str = "(SELECT value % 3 AS rest, value % 2 AS odd, count(*) AS n \
                          FROM sequence(rate => 1000) GROUP BY 1, 2) AS counts";

    #[test]
    fn the_key_follows_the_selected_columns() {
        let [rest, odd] = ["sequence.value % 3", "sequence.value % 2"];
        for (query, names, key) in [
            ("SELECT count(*) AS n FROM sequence(rate => 9) GROUP BY value % 3", vec!["n", rest], vec![1]),
            (&format!("SELECT n FROM {NESTED}"), vec!["n", rest, odd], vec![1, 2]),
            // Selected in part; under a name that is taken; through two levels; behind a filter.
            (&format!("SELECT odd, n FROM {NESTED}"), vec!["odd", "n", rest], vec![2, 0]),
            ("SELECT count(*) AS value FROM sequence(rate => 9) GROUP BY value", vec!["value"; 2], vec![1]),
            (
                &format!("SELECT m + 1 AS m FROM (SELECT n * 2 AS m FROM {NESTED}) AS doubled"),
                vec!["m", rest, odd],
                vec![1, 2],
            ),
            (&format!("SELECT n FROM {NESTED} WHERE rest > 0"), vec!["n", rest, odd], vec![1, 2]),
        ] {
            let names = names.into_iter().map(str::to_owned).collect();
            let unselected = key.iter().filter(|index| **index > 0).count();
            assert_eq!(output(query), (names, Some(key), unselected), "{query}");
        }
    }

    #[test]
    fn a_key_that_was_selected_is_not_added() {
        let counts = "SELECT value % 3 AS rest, count(*) AS n FROM sequence(rate => 9) GROUP BY 1";
        assert_eq!(output(counts), (vec!["rest".into(), "n".into()], Some(vec![0]), 0));
        let all = "SELECT count(*) AS n FROM sequence(rate => 9)";
        assert_eq!(output(all), (vec!["n".into()], Some(Vec::new()), 0));
    }
}
