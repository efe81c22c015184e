//! Users' aggregates: our trait, under a name that DataFusion's planner knows.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator as ForeignAccumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use tidemill_operators::Aggregate;

/// An aggregate of the user's that DataFusion only plans; we run it.
pub(crate) struct OwnAggregate {
    name: String,
    signature: Signature,
    function: Arc<dyn Aggregate>,
}

impl OwnAggregate {
    /// The function under a name, for arguments of exactly these types.
    pub fn function(name: &str, arguments: Vec<DataType>, function: Arc<dyn Aggregate>) -> AggregateUDF {
        let signature = Signature::exact(arguments, Volatility::Immutable);
        AggregateUDF::new_from_impl(OwnAggregate { name: name.to_string(), signature, function })
    }
}

/// The function behind one that a user registered.
pub(crate) fn own(function: &AggregateUDF) -> Option<Arc<dyn Aggregate>> {
    let implementation = function.inner().as_ref() as &dyn Any;
    implementation.downcast_ref::<OwnAggregate>().map(|own| Arc::clone(&own.function))
}

impl fmt::Debug for OwnAggregate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OwnAggregate").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for OwnAggregate {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.function, &other.function)
    }
}

impl Eq for OwnAggregate {}

impl Hash for OwnAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl AggregateUDFImpl for OwnAggregate {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.function.result_type())
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn ForeignAccumulator>> {
        exec_err!("{} runs on streams only", self.name)
    }
}
