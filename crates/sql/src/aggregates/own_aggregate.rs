//! Our own and users' aggregates: our trait, under a name that DataFusion's planner knows. Streams run them directly;
//! DataFusion runs them over what remains when the input has ended.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator as ForeignAccumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature,
    Volatility,
};
use tidemill_operators::Aggregate;

use crate::aggregates::own_accumulator::{ManyGroups, SingleGroup, state_fields};

/// An aggregate that implements our trait.
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

    /// The function under a name, for this many arguments with known types.
    pub fn of_any(name: &str, arguments: usize, function: Arc<dyn Aggregate>) -> AggregateUDF {
        let signature = Signature::any(arguments, Volatility::Immutable);
        AggregateUDF::new_from_impl(OwnAggregate { name: name.to_string(), signature, function })
    }
}

/// Our function behind one that a user registered.
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

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn ForeignAccumulator>> {
        if args.is_distinct {
            return exec_err!("{}(DISTINCT ...) is not supported; aggregate over SELECT DISTINCT", self.name);
        }
        Ok(Box::new(SingleGroup::new(self.function.as_ref())))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(state_fields(self.function.as_ref(), args.name))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(ManyGroups::new(Arc::clone(&self.function))))
    }
}
