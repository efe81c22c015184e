//! Calls of functions, and their windows.

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, NullTreatment, Spanned, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec,
    WindowType,
};

use super::{Checked, Clauses, PLANNED};

impl Clauses<'_> {
    pub(super) fn call(&self, call: &Function) -> Checked {
        let Function {
            name,
            // `{fn name()}`: another notation for the same.
            uses_odbc_syntax: _,
            parameters,
            args,
            filter: _,
            null_treatment,
            over,
            within_group,
        } = call;
        match parameters {
            FunctionArguments::None => {}
            FunctionArguments::Subquery(_) | FunctionArguments::List(_) => {
                let message = format!("{name} has two lists of arguments");
                self.node(call, message, &format!("write one list: {name}(column, value)"))?;
            }
        }
        match args {
            FunctionArguments::None => {}
            FunctionArguments::Subquery(query) => {
                let message = format!("{name}(SELECT ...) is not part of the language");
                self.node(query.as_ref(), message, "put the query into its own parentheses")?;
            }
            FunctionArguments::List(list) => self.arguments(list, call)?,
        }
        match null_treatment {
            None | Some(NullTreatment::IgnoreNulls | NullTreatment::RespectNulls) => {}
        }
        self.orders(within_group)?;
        match over {
            None | Some(WindowType::NamedWindow(_)) => PLANNED,
            Some(WindowType::WindowSpec(spec)) => self.window(spec),
        }
    }

    fn arguments(&self, list: &FunctionArgumentList, call: &Function) -> Checked {
        let FunctionArgumentList { duplicate_treatment, args, clauses } = list;
        match duplicate_treatment {
            None | Some(DuplicateTreatment::Distinct | DuplicateTreatment::All) => {}
        }
        for arg in args {
            let value = match arg {
                FunctionArg::Named { name: _, arg, operator: _ } => arg,
                FunctionArg::ExprNamed { name: _, arg, operator: _ } => arg,
                FunctionArg::Unnamed(arg) => arg,
            };
            match value {
                FunctionArgExpr::QualifiedWildcard(_) | FunctionArgExpr::Wildcard if args.len() > 1 => {
                    self.node(call, "* beside other arguments of a function", "name the columns")?;
                }
                FunctionArgExpr::Expr(_)
                | FunctionArgExpr::QualifiedWildcard(_)
                | FunctionArgExpr::Wildcard => {}
                FunctionArgExpr::WildcardWithOptions(_) => {
                    self.node(call, "* with EXCLUDE or similar inside a function", "name the columns")?;
                }
            }
        }
        clauses.iter().try_for_each(|clause| {
            let (words, hint): (&[&str], _) = match clause {
                FunctionArgumentClause::IgnoreOrRespectNulls(
                    NullTreatment::IgnoreNulls | NullTreatment::RespectNulls,
                ) => return PLANNED,
                FunctionArgumentClause::OrderBy(orders) => return self.orders(orders),
                FunctionArgumentClause::Limit(_) => {
                    (&["LIMIT"], "take part of the result: array_slice(list, 1, n)")
                }
                FunctionArgumentClause::OnOverflow(_) => (&["ON", "OVERFLOW"], "remove it"),
                FunctionArgumentClause::Having(_) => {
                    (&["HAVING"], "number the rows with ROW_NUMBER() in a subquery, and keep the first")
                }
                FunctionArgumentClause::Separator(_) => {
                    (&["SEPARATOR"], "write it as the second argument: string_agg(text, ', ')")
                }
                FunctionArgumentClause::JsonNullClause(_) => (&["ON", "NULL"], "remove it"),
                FunctionArgumentClause::JsonReturningClause(_) => {
                    (&["RETURNING"], "write CAST(... AS ...) around the call")
                }
            };
            let message = format!(
                "{} inside the arguments of {} is not part of the language",
                words.join(" "),
                call.name
            );
            self.words(call.span(), words, message, hint)
        })
    }

    /// A window definition.
    pub(super) fn window(&self, window: &WindowSpec) -> Checked {
        let WindowSpec { window_name, partition_by: _, order_by, window_frame } = window;
        if let Some(name) = window_name {
            let message = format!("a window that extends the window {name} is not part of the language");
            self.words(
                name.span,
                &[],
                message,
                "write the window in full: OVER (PARTITION BY ... ORDER BY ...)",
            )?;
        }
        self.orders(order_by)?;
        let Some(WindowFrame { units, start_bound, end_bound }) = window_frame else { return PLANNED };
        match units {
            WindowFrameUnits::Rows | WindowFrameUnits::Range | WindowFrameUnits::Groups => {}
        }
        for bound in [Some(start_bound), end_bound.as_ref()].into_iter().flatten() {
            match bound {
                WindowFrameBound::CurrentRow
                | WindowFrameBound::Preceding(_)
                | WindowFrameBound::Following(_) => {}
            }
        }
        PLANNED
    }
}
