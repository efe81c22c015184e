//! Window functions over rows that come and go, in any order: what a partition's rows have is computed again when it changes.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{Expr, Window};
use tidemill_engine::PartitionFunction;
use tidemill_operators::changes::{Windowed, WindowedSpec, changelog_schema};
use tidemill_operators::top::OrderBy;

use super::changing;
use crate::expressions::window_function::PartitionValues;
use crate::translate::columns::{extended, schema_of};
use crate::translate::over::window_function;
use crate::translate::{Relation, Translator, user};

impl Translator {
    /// The rows of a relation with the values of window functions.
    pub(in crate::translate) fn changing_windows(
        &mut self,
        window: &Window,
        relation: Relation,
    ) -> Result<Relation> {
        let mut relation = self.changelog(relation)?;
        let mut left: Vec<usize> = (0..window.window_expr.len()).collect();
        let functions: Vec<WindowFunction> =
            window.window_expr.iter().map(window_function).collect::<Result<_>>()?;
        let inputs = window.input.schema().fields().len();
        let mut schema = window.input.schema().as_ref().clone();
        // Functions over equal windows are computed together, and each behind the columns that were there before.
        let mut places = vec![0; left.len()];
        while let Some(first) = left.first().copied() {
            let same = |index: &usize| {
                let (one, other) = (&functions[first].params, &functions[*index].params);
                one.partition_by == other.partition_by && one.order_by == other.order_by
            };
            let (together, others): (Vec<usize>, Vec<usize>) = left.iter().partition(|index| same(index));
            let expressions: Vec<(&Expr, &WindowFunction)> =
                together.iter().map(|index| (&window.window_expr[*index], &functions[*index])).collect();
            let before = schema.fields().len();
            (relation, schema) = self.windows_of_one_kind(relation, &schema, window, &expressions)?;
            for (offset, index) in together.iter().enumerate() {
                places[*index] = before + offset;
            }
            left = others;
        }
        let all: Vec<usize> = (0..inputs).chain(places).collect();
        let selected = self.select(relation, &all, &window.schema)?;
        Ok(Relation { schema: schema_of(&window.schema), ..selected })
    }

    /// Adds the values of functions over one kind of window, as columns at the end.
    fn windows_of_one_kind(
        &mut self,
        relation: Relation,
        schema: &DFSchema,
        window: &Window,
        functions: &[(&Expr, &WindowFunction)],
    ) -> Result<(Relation, DFSchema)> {
        let params = &functions[0].1.params;
        let columns = schema.fields().len();
        let by = (&params.partition_by[..], &params.order_by[..]);
        let (rows, partition, order) = self.divided_and_ordered(relation, schema, by)?;
        let values = functions.iter().map(|(expression, _)| {
            let values = PartitionValues::new(expression, window.input.schema())?;
            Ok(Arc::new(values) as Arc<dyn PartitionFunction>)
        });
        let names = functions.iter().map(|(expression, _)| expression.schema_name().to_string());
        let text = functions.iter().map(|(_, function)| function.fun.name().to_string());
        let text = format!("over changes: {}", text.collect::<Vec<_>>().join(", "));
        let values = Functions { functions: values.collect::<Result<_>>()?, names: names.collect(), text };
        let first = rows.schema.fields().len();
        let with_values = self.with_functions(rows, (partition, order), values)?;
        let places: Vec<usize> = (0..columns).chain(first..first + functions.len()).collect();
        let fields = schema.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
        let added = (first..first + functions.len())
            .map(|place| (None, Arc::clone(&with_values.schema.fields()[place])));
        let schema = DFSchema::new_with_metadata(fields.chain(added).collect(), Default::default())?;
        let relation = self.select(with_values, &places, &schema)?;
        Ok((relation, schema))
    }
    /// The rows of a relation with the values of functions over each partition's rows in order, as columns at the end.
    pub(super) fn with_functions(
        &mut self,
        rows: Relation,
        (partition, order): (Vec<usize>, Vec<OrderBy>),
        Functions { functions, names, text }: Functions,
    ) -> Result<Relation> {
        let partitions = self.partitions(partition.len());
        let computed = names.iter().zip(&functions);
        let computed = computed.map(|(name, function)| (name.clone(), function.data_type()));
        let output = extended(&rows.schema, computed);
        let spec = WindowedSpec {
            schema: Arc::clone(&rows.schema),
            changes: rows.is_changing(),
            partition: partition.clone(),
            order,
            functions,
            names,
            rows_max: self.rows_max(partitions),
        };
        Windowed::new(spec.clone()).map_err(user)?;
        let inputs = [(rows.stream, partition)];
        let (written, faults) = (changelog_schema(&output), self.faults.clone());
        let stream = self.operator(&text, &inputs, partitions, written, move |_| {
            let windowed = Windowed::new(spec.clone()).expect("checked when it was planned");
            Box::new(windowed.faults(faults.clone()))
        });
        Ok(changing(rows, stream, output))
    }
}

/// Functions over the ordered rows of each partition.
pub(super) struct Functions {
    pub functions: Vec<Arc<dyn PartitionFunction>>,
    /// The names of their columns.
    pub names: Vec<String>,
    /// What they are, for people.
    pub text: String,
}
