//! The functions that queries may call: DataFusion's, a few of our own, and the user's.

pub(super) mod buckets;
pub(super) mod byte_parts;
pub(super) mod calls;
pub(super) mod degrees;
pub(super) mod edit_distance;
pub(super) mod field_names;
pub(crate) mod fourier;
pub(super) mod fourier_functions;
pub(super) mod hop_starts;
pub(super) mod json;
pub(super) mod keyed_hashes;
pub(super) mod list_functions;
pub(super) mod matched_groups;
pub(super) mod number_patterns;
pub(super) mod place_functions;
pub(super) mod plain_function;
pub(super) mod region_functions;
pub(super) mod split_texts;
pub(super) mod times;
pub(super) mod type_names_of_values;
pub(super) mod uuids;
pub(super) mod vectors;
pub(crate) mod windows;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue, exec_err, plan_datafusion_err, plan_err};
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility, WindowUDF, cast,
};

use crate::aggregates::ordered_sets::ordered_sets;
use crate::defined_functions::LoadedFunctions;
use tidemill_trees::nodes::Tree;

/// The closing time of the cycle.
pub(super) const NOW: &str = "now";
/// The date of the closing time.
pub(super) const CURRENT_DATE: &str = "current_date";
/// The time of day of the closing time.
pub(super) const CURRENT_TIME: &str = "current_time";
/// `tumble(time, size)` outside of FROM: the start of the window.
pub(crate) const WINDOW_START: &str = "tumble";

/// In PostgreSQL they differ in what happens within a transaction; here each cycle has one time.
const OTHER_NAMES_OF_NOW: [&str; 5] = [
    "clock_timestamp",
    "current_timestamp",
    "localtimestamp",
    "statement_timestamp",
    "transaction_timestamp",
];

/// Functions of union types, which SQL cannot create.
const NOT_IN_SQL: [&str; 2] = ["union_extract", "union_tag"];

/// Names of functions in PostgreSQL, and the names of the same in DataFusion.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("array_remove", "array_remove_all"),
    ("list_remove", "array_remove_all"),
    ("array_replace", "array_replace_all"),
    ("list_replace", "array_replace_all"),
    ("gen_random_uuid", "uuid"),
    ("len", "length"),
    ("sign", "signum"),
    ("truncate", "trunc"),
];

/// The same of aggregates, with those that other systems have.
const OTHER_NAMES_OF_AGGREGATES: [(&str, &str); 6] = [
    ("approx_count_distinct", "approx_distinct"),
    ("collect_list", "array_agg"),
    ("every", "bool_and"),
    ("listagg", "string_agg"),
    ("some", "bool_or"),
    ("variance", "var"),
];

/// See the module.
#[derive(Clone)]
pub(crate) struct Functions {
    pub scalar: HashMap<String, Arc<ScalarUDF>>,
    pub aggregate: HashMap<String, Arc<AggregateUDF>>,
    pub window: HashMap<String, Arc<WindowUDF>>,
    /// Those whose code is loaded, by their names in plans.
    pub loaded: LoadedFunctions,
    pub planners: Vec<Arc<dyn ExprPlanner>>,
}

impl Default for Functions {
    fn default() -> Self {
        let mut functions = Functions {
            scalar: HashMap::new(),
            aggregate: HashMap::new(),
            window: HashMap::new(),
            loaded: LoadedFunctions::default(),
            planners: SessionStateDefaults::default_expr_planners(),
        };
        for function in SessionStateDefaults::default_scalar_functions() {
            let function = match function.name() {
                "levenshtein" => Arc::new(edit_distance::levenshtein(&function)),
                "character_length" | "octet_length" => Arc::new(byte_parts::length_of(&function)),
                "substr" => {
                    let function = Arc::new(byte_parts::part_of(&function));
                    functions.planners.insert(0, Arc::new(byte_parts::Substring(Arc::clone(&function))));
                    function
                }
                "array_length" => Arc::new(list_functions::length_of(function.as_ref().clone())),
                _ => function,
            };
            functions.add_bounded(function);
        }
        for function in SessionStateDefaults::default_aggregate_functions() {
            functions.add_aggregate(function);
        }
        for function in ordered_sets() {
            functions.add_aggregate(Arc::new(function));
        }
        for function in SessionStateDefaults::default_window_functions() {
            functions.window.insert(function.name().to_string(), function);
        }
        // No value that a query can have is of their type.
        NOT_IN_SQL.iter().for_each(|name| drop(functions.scalar.remove(*name)));
        functions.add_scalar(Arc::new(ScalarUDF::new_from_impl(CycleTime::now())));
        functions.add_scalar(Arc::new(ScalarUDF::new_from_impl(CycleTime::current_date())));
        functions.add_scalar(Arc::new(ScalarUDF::new_from_impl(CycleTime::current_time())));
        functions.add_bounded(Arc::new(matched_groups::regexp_match()));
        functions.add_bounded(Arc::new(split_texts::function()));
        functions.add_scalar(Arc::new(type_names_of_values::pg_typeof()));
        functions.add_other_names();
        // Before DataFusion's: the first planner that takes an operator plans it.
        functions.planners.insert(0, Arc::new(super::datafusion_repairs::division::DecimalDivision));
        functions.planners.insert(0, Arc::new(times::scaled_intervals::ScaledIntervals));
        functions.planners.insert(0, Arc::new(super::casts::untyped_texts::TextOperands));
        functions.planners.insert(0, Arc::new(times::time_parts::Extract));
        functions.add_scalar(Arc::new(times::time_parts::function()));
        functions.add_scalar(Arc::new(times::truncated_times::function()));
        functions.planners.insert(0, Arc::new(field_names::FieldNames));
        functions.planners.insert(0, Arc::new(json::operators::JsonOperators));
        functions.add_scalar(Arc::new(window_start()));
        let own = fourier_functions::functions().into_iter().chain(region_functions::functions());
        let own = own
            .chain(json::built::functions())
            .chain(json::read::functions())
            .chain(json::edited::functions());
        let own = own.chain(degrees::functions()).chain(number_patterns::functions());
        let own = own.chain(keyed_hashes::functions()).chain(buckets::functions()).chain(uuids::functions());
        let own = own.chain(times::time_differences::functions()).chain(times::made_times::functions());
        for function in own.chain(place_functions::functions()) {
            functions.add_scalar(Arc::new(function));
        }
        functions
    }
}

impl Functions {
    /// Gives functions the names that they have in PostgreSQL. There `array_remove` and `array_replace` mean all items, and not the first.
    fn add_other_names(&mut self) {
        for name in super::casts::untyped_texts::CHOICES {
            if let Some(function) = self.scalar.get(name).cloned() {
                let choice = super::casts::untyped_texts::choice(function.as_ref().clone());
                self.add_scalar(Arc::new(choice));
            }
        }
        if let Some(function) = self.scalar.get("array_remove_all").cloned() {
            self.add_scalar(Arc::new(list_functions::removing(function.as_ref().clone())));
        }
        for (name, meant) in OTHER_NAMES {
            if let Some(function) = self.scalar.get(meant).cloned() {
                self.scalar.insert(name.to_owned(), function);
            }
        }
        for (name, meant) in OTHER_NAMES_OF_AGGREGATES {
            if let Some(function) = self.aggregate.get(meant).cloned() {
                self.aggregate.insert(name.to_owned(), function);
            }
        }
    }

    /// Adds a scalar function with a limit on what it makes.
    fn add_bounded(&mut self, function: Arc<ScalarUDF>) {
        let bounded = super::limits::bounded_functions::bounded(&function);
        self.add_scalar(bounded.map_or(function, Arc::new));
    }

    /// Adds a scalar function under its name and aliases.
    pub fn add_scalar(&mut self, function: Arc<ScalarUDF>) {
        for alias in function.aliases() {
            self.scalar.insert(alias.clone(), Arc::clone(&function));
        }
        self.scalar.insert(function.name().to_string(), function);
    }

    /// The aggregate of a name, which may be that in plans.
    pub fn aggregate(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.aggregate.get(name).cloned().or_else(|| self.loaded.aggregate(name))
    }

    /// Adds an aggregate under its name and aliases.
    pub fn add_aggregate(&mut self, function: Arc<AggregateUDF>) {
        for alias in function.aliases() {
            self.aggregate.insert(alias.clone(), Arc::clone(&function));
        }
        self.aggregate.insert(function.name().to_string(), function);
    }
}

/// `now()`, `current_date` and `current_time`: replaced by a column that holds the cycle's closing time before anything
/// is evaluated. They are volatile, so that planning does not compute them once.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CycleTime {
    name: &'static str,
    aliases: Vec<String>,
    data_type: DataType,
    signature: Signature,
}

impl CycleTime {
    fn now() -> Self {
        CycleTime {
            name: NOW,
            aliases: OTHER_NAMES_OF_NOW.map(str::to_owned).into(),
            data_type: DataType::Timestamp(TimeUnit::Nanosecond, None),
            signature: Signature::nullary(Volatility::Volatile),
        }
    }

    fn current_date() -> Self {
        CycleTime {
            name: CURRENT_DATE,
            aliases: vec!["today".into()],
            data_type: DataType::Date32,
            signature: Signature::nullary(Volatility::Volatile),
        }
    }

    fn current_time() -> Self {
        CycleTime {
            name: CURRENT_TIME,
            aliases: Vec::new(),
            data_type: DataType::Time64(TimeUnit::Nanosecond),
            signature: Signature::nullary(Volatility::Volatile),
        }
    }
}

impl ScalarUDFImpl for CycleTime {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{}() can only be computed while a cycle is processed", self.name)
    }
}

/// An expression in which `now()`, `current_date` and `current_time` are computed from `now`, a timestamp.
pub(crate) fn with_now(expression: Expr, now: &Expr) -> Result<Transformed<Expr>> {
    expression.rewrite_up(|part| match &part {
        Expr::ScalarFunction(call) if call.func.name() == NOW => Ok(Transformed::yes(now.clone())),
        Expr::ScalarFunction(call) if call.func.name() == CURRENT_DATE => {
            Ok(Transformed::yes(cast(now.clone(), DataType::Date32)))
        }
        Expr::ScalarFunction(call) if call.func.name() == CURRENT_TIME => {
            Ok(Transformed::yes(cast(now.clone(), DataType::Time64(TimeUnit::Nanosecond))))
        }
        _ => Ok(Transformed::no(part)),
    })
}

/// Whether an expression reads the closing time of the cycle.
pub(crate) fn reads_clock(expression: &Expr) -> Result<bool> {
    expression.contains(|part| Ok(is_clock(part)))
}

/// Whether an expression is the closing time of the cycle, or a part of it.
pub(super) fn is_clock(part: &Expr) -> bool {
    matches!(part, Expr::ScalarFunction(call) if [NOW, CURRENT_DATE, CURRENT_TIME].contains(&call.func.name()))
}

/// `tumble(time, size)` as a scalar function.
pub(crate) fn window_start() -> ScalarUDF {
    ScalarUDF::new_from_impl(WindowStart::default())
}

/// The start of the window of a given size that contains a time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WindowStart {
    signature: Signature,
}

impl Default for WindowStart {
    fn default() -> Self {
        let signature = Signature::new(TypeSignature::Any(2), Volatility::Immutable);
        WindowStart { signature }
    }
}

impl ScalarUDFImpl for WindowStart {
    fn name(&self) -> &str {
        WINDOW_START
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::Timestamp(_, zone), DataType::Interval(_)] => {
                Ok(DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()))
            }
            _ => plan_err!(
                "tumble takes a timestamp and an interval: tumble(event_time, INTERVAL '10 seconds')"
            ),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ColumnarValue::Scalar(size) = &args.args[1] else {
            return exec_err!("the window's size must be a constant");
        };
        let size_ns = interval_ns(size)?;
        let times = args.args[0].cast_to(&args.return_field.data_type().clone(), None)?;
        let rows = args.number_rows;
        let zone = match args.return_field.data_type() {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        let times = times.into_array(rows)?;
        Ok(ColumnarValue::Array(crate::logical::functions::windows::starts(&times, size_ns, 0, zone)?))
    }
}

/// The length of a window: an interval literal longer than 0, without months.
pub(crate) fn interval_ns(value: &ScalarValue) -> Result<i64> {
    match length_ns(value)? {
        length_ns if length_ns > 0 => Ok(length_ns),
        _ => plan_err!("an interval must be longer than 0, found {value}"),
    }
}

/// The length of an interval literal that has one: days and smaller units, no months.
pub(crate) fn length_ns(value: &ScalarValue) -> Result<i64> {
    let day_ns = 86_400_000_000_000_i64;
    let length = match value {
        ScalarValue::IntervalDayTime(Some(interval)) => {
            i64::from(interval.days).checked_mul(day_ns).and_then(|days_ns| {
                days_ns.checked_add(i64::from(interval.milliseconds).checked_mul(1_000_000)?)
            })
        }
        ScalarValue::IntervalMonthDayNano(Some(interval)) if interval.months == 0 => {
            i64::from(interval.days).checked_mul(day_ns).and_then(|ns| ns.checked_add(interval.nanoseconds))
        }
        ScalarValue::IntervalMonthDayNano(Some(_)) | ScalarValue::IntervalYearMonth(_) => {
            return plan_err!(
                "the length of a window must not be given in months or years, because these vary in length"
            );
        }
        ScalarValue::DurationNanosecond(length) => *length,
        _ => return plan_err!("expected an interval such as INTERVAL '10 seconds', found {value}"),
    };
    length.ok_or_else(|| plan_datafusion_err!("an interval must be shorter than 292 years, found {value}"))
}
