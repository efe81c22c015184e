//! The contents of FROM: tables, functions, subqueries, joins.

use datafusion::sql::sqlparser::ast::{
    Join, JoinConstraint, JoinOperator, TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs,
    TableIndexHintType, TableIndexHints, TableSample, TableSampleKind, TableSampleModifier, TableVersion,
};

use super::{Checked, Clauses, PLANNED};
use crate::statement::parser::system_time::is_of_the_row;

pub(super) const SAMPLE: &str = "filter by a hash of a column, which selects the same rows in every run: WHERE \
    md5(CAST(id AS VARCHAR)) < '1a' keeps about a tenth";
pub(super) const PIVOT: &str =
    "write one aggregate with a FILTER for each column: sum(x) FILTER (WHERE k = 'a') AS a";
pub(super) const UNPIVOT: &str = "write one SELECT for each column, and combine them with UNION ALL";

const NUMBERED: &str =
    "it numbers the items of lists only; the window function row_number numbers other rows";

impl Clauses<'_> {
    pub(super) fn relation(&self, relation: &TableFactor) -> Checked {
        let alias = match relation {
            TableFactor::Table {
                name: _,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                if let Some(TableFunctionArgs { args: _, settings: Some(_) }) = args {
                    self.clause(relation, &["SETTINGS"], "write SET name = value before the query")?;
                }
                if !with_hints.is_empty() {
                    self.clause(relation, &["WITH"], "remove the hint: nothing is locked")?;
                }
                if let Some(version) = version {
                    self.version(version, relation)?;
                }
                if args.is_none() {
                    self.ordinality(*with_ordinality, relation)?;
                }
                if !partitions.is_empty() && !is_of_the_row(partitions) {
                    self.clause(relation, &["PARTITION"], "write a condition in WHERE")?;
                }
                if json_path.is_some() {
                    self.node(
                        relation,
                        "a path after the name of a source",
                        "select from the column in SELECT",
                    )?;
                }
                self.index_hints(index_hints, relation)?;
                self.sample(sample.as_ref(), relation)?;
                alias
            }
            TableFactor::Derived { lateral: _, subquery: _, alias, sample } => {
                self.sample(sample.as_ref(), relation)?;
                alias
            }
            TableFactor::TableFunction { expr, alias: _ } => {
                return self.node(expr, "a bare TABLE(...) in FROM", "write only the function or the name");
            }
            TableFactor::Function { lateral: _, name: _, args: _, with_ordinality, alias } => {
                self.ordinality(*with_ordinality, relation)?;
                alias
            }
            TableFactor::UNNEST {
                alias,
                array_exprs: _,
                with_offset,
                with_offset_alias,
                with_ordinality: _,
            } => {
                if *with_offset || with_offset_alias.is_some() {
                    self.clause(relation, &["WITH", "OFFSET"], "remove it")?;
                }
                alias
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                table_with_joins.joins.iter().try_for_each(|join| self.join(join))?;
                alias
            }
            TableFactor::Pivot {
                table: _,
                aggregate_functions: _,
                value_column: _,
                value_source: _,
                default_on_null: _,
                alias: _,
            } => return self.clause(relation, &["PIVOT"], PIVOT),
            TableFactor::Unpivot { table: _, value: _, name: _, columns: _, null_inclusion: _, alias: _ } => {
                return self.clause(relation, &["UNPIVOT"], UNPIVOT);
            }
            TableFactor::MatchRecognize {
                table: _,
                partition_by: _,
                order_by: _,
                measures: _,
                rows_per_match: _,
                after_match_skip: _,
                pattern: _,
                symbols: _,
                alias: _,
            } => {
                let hint =
                    "compare consecutive rows with lag(...) OVER (PARTITION BY key ORDER BY event_time)";
                return self.clause(relation, &["MATCH_RECOGNIZE"], hint);
            }
            TableFactor::JsonTable { json_expr: _, json_path: _, columns: _, alias: _ } => {
                return self.clause(relation, &["JSON_TABLE"], "declare the columns of the source");
            }
            TableFactor::OpenJsonTable { json_expr: _, json_path: _, columns: _, alias: _ } => {
                return self.clause(relation, &["OPENJSON"], "declare the columns of the source");
            }
            TableFactor::XmlTable { namespaces: _, row_expression: _, passing: _, columns: _, alias: _ } => {
                return self.clause(relation, &["XMLTABLE"], "convert the rows before they reach Tidemill");
            }
            TableFactor::SemanticView {
                name: _,
                dimensions: _,
                metrics: _,
                facts: _,
                where_clause: _,
                alias: _,
            } => return self.clause(relation, &["SEMANTIC_VIEW"], "write the query in full"),
        };
        alias.as_ref().map_or(PLANNED, |alias| self.alias(alias))
    }

    pub(super) fn alias(&self, alias: &TableAlias) -> Checked {
        let TableAlias { explicit: _, name, columns, at } = alias;
        for TableAliasColumnDef { name, data_type } in columns {
            if data_type.is_some() {
                let message = format!("a type for column {name} of an alias is not part of the language");
                self.words(name.span, &[], message, "write only the name, and CAST(... AS ...) in SELECT")?;
            }
        }
        match at {
            None => PLANNED,
            Some(_) => self.words(name.span, &["AT"], "AT is not part of the language".into(), "remove it"),
        }
    }

    fn sample(&self, sample: Option<&TableSampleKind>, relation: &TableFactor) -> Checked {
        let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
            sample
        else {
            return PLANNED;
        };
        let TableSample { modifier, name: _, quantity: _, seed: _, bucket: _, offset: _ } = sample.as_ref();
        match modifier {
            TableSampleModifier::Sample => self.clause(relation, &["SAMPLE"], SAMPLE),
            TableSampleModifier::TableSample => self.clause(relation, &["TABLESAMPLE"], SAMPLE),
        }
    }

    fn ordinality(&self, with_ordinality: bool, relation: &TableFactor) -> Checked {
        if with_ordinality { self.clause(relation, &["WITH", "ORDINALITY"], NUMBERED) } else { PLANNED }
    }

    fn version(&self, version: &TableVersion, relation: &TableFactor) -> Checked {
        let hint = "remove it: a source is read as its rows arrive, and a table as it was at the start";
        match version {
            TableVersion::ForSystemTimeAsOf(_) => {
                self.clause(relation, &["FOR", "SYSTEM_TIME", "AS", "OF"], hint)
            }
            TableVersion::TimestampAsOf(_) => self.clause(relation, &["TIMESTAMP", "AS", "OF"], hint),
            TableVersion::VersionAsOf(_) => self.clause(relation, &["VERSION", "AS", "OF"], hint),
            TableVersion::Function(_) => {
                self.node(relation, "a version of a source is not part of the language", hint)
            }
            TableVersion::Changes { changes: _, at: _, end: _ } => self.clause(relation, &["CHANGES"], hint),
        }
    }

    fn index_hints(&self, hints: &[TableIndexHints], relation: &TableFactor) -> Checked {
        hints.iter().try_for_each(|hint| {
            let TableIndexHints { hint_type, index_type: _, for_clause: _, index_names: _ } = hint;
            let word = match hint_type {
                TableIndexHintType::Use => "USE",
                TableIndexHintType::Ignore => "IGNORE",
                TableIndexHintType::Force => "FORCE",
            };
            self.clause(relation, &[word], "remove the hint: there are no indexes")
        })
    }

    pub(super) fn join(&self, join: &Join) -> Checked {
        let Join { relation, global, join_operator } = join;
        if *global {
            let message = "GLOBAL is not part of the language".to_owned();
            let hint = "remove it: a query does not state how rows are divided among workers";
            self.anywhere(&["GLOBAL"], message, hint)?;
        }
        let refused = |words: &str, hint: &str| {
            self.node(relation, format!("{words} is not part of the language"), hint)
        };
        match join_operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint)
            | JoinOperator::LeftSemi(constraint)
            | JoinOperator::RightSemi(constraint)
            | JoinOperator::LeftAnti(constraint)
            | JoinOperator::RightAnti(constraint) => match constraint {
                JoinConstraint::On(_) | JoinConstraint::Using(_) | JoinConstraint::Natural => PLANNED,
                JoinConstraint::None => {
                    let hint = "add ON a.key = b.key or USING (key), or write CROSS JOIN to pair all rows";
                    self.node(relation, "the join has no condition that says which rows match", hint)
                }
            },
            JoinOperator::CrossJoin(JoinConstraint::None) => PLANNED,
            JoinOperator::CrossJoin(
                JoinConstraint::On(_) | JoinConstraint::Using(_) | JoinConstraint::Natural,
            ) => self.node(relation, "CROSS JOIN takes no condition", "write JOIN ... ON"),
            JoinOperator::Semi(_) => refused("SEMI JOIN", "write LEFT SEMI JOIN"),
            JoinOperator::Anti(_) => refused("ANTI JOIN", "write LEFT ANTI JOIN"),
            JoinOperator::CrossApply => refused("CROSS APPLY", "write JOIN ... ON"),
            JoinOperator::OuterApply => refused("OUTER APPLY", "write LEFT JOIN ... ON"),
            JoinOperator::AsOf { match_condition: _, constraint: _ } => refused(
                "ASOF JOIN",
                "take the newest match of each row, over input that ends or views that keep it: SELECT a.id, \
                 last_value(b.price ORDER BY b.at) AS price FROM a LEFT JOIN b ON b.key = a.key AND b.at <= a.at \
                 GROUP BY a.id",
            ),
            JoinOperator::StraightJoin(_) => refused("STRAIGHT_JOIN", "write JOIN"),
            JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
                refused("ARRAY JOIN", "write SELECT unnest(list)")
            }
        }
    }
}
