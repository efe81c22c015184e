//! Joins of a stream with a table that does not change.

mod dictionary;
mod index;
mod pieces;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::take::{take, take_arrays};
use tidemill_core::error::Cause;
use tidemill_core::memory::bytes_of_rows;
use tidemill_core::{Cut, Expression, MemoryAccount, MemoryBudget, Transform, Transformed};

use self::dictionary::DictionaryCache;
use self::index::{Index, is_dictionary};
use self::pieces::Pieces;
use crate::join::{JoinKind, condition, joined_schema, right_field};
use crate::keys::{KeyTable, NO_KEY, value_type};
use crate::stored_rows::kernel_error;

/// What to look up.
#[derive(Clone, Debug)]
pub struct LookupSpec {
    /// The columns of the stream.
    pub stream: SchemaRef,
    /// The table, shared by all workers.
    pub dimension: Arc<Dimension>,
    /// The stream's columns that must equal the table's key columns, pairwise and with equal types (a dictionary counts
    /// as its values). NULL equals nothing.
    pub keys: Vec<usize>,
    /// Which rows are kept.
    pub kind: LookupKind,
    /// An additional condition: Boolean, over all of the stream's columns followed by all of the table's. NULL is not a
    /// match.
    pub residual: Option<Arc<dyn Expression>>,
    /// The memory for joined rows.
    pub memory: MemoryBudget,
    /// The columns of the output.
    pub output: Vec<LookupColumn>,
}

/// Which rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupKind {
    /// Each row, once for each of its matches.
    Inner,
    /// The same, plus rows without a match, with NULLs in the columns of the table.
    Left,
    /// Rows with a match, once each: `EXISTS`, `IN`. The output has only columns of the stream.
    Exists,
    /// Rows without a match: `NOT EXISTS`. The output has only columns of the stream.
    NotExists,
    /// Rows without a match and without a NULL in their key, and all rows if the table is empty: `NOT IN` a list
    /// without NULL. The output has only columns of the stream.
    NotIn,
}

/// A column of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupColumn {
    /// The stream's column with this index.
    Stream(usize),
    /// The table's column with this index.
    Dimension(usize),
}

/// The columns of the output.
pub fn output_schema(spec: &LookupSpec) -> SchemaRef {
    let field = |column: &LookupColumn| match *column {
        LookupColumn::Stream(index) => spec.stream.fields()[index].clone(),
        LookupColumn::Dimension(index) => {
            let kind = if spec.kind == LookupKind::Left { JoinKind::Left } else { JoinKind::Inner };
            right_field(&spec.dimension.table().schema_ref().fields()[index], kind)
        }
    };
    Arc::new(Schema::new(spec.output.iter().map(field).collect::<Vec<_>>()))
}

/// A table in which rows are looked up, indexed by its key. It may have several rows with the same key.
#[derive(Debug)]
pub struct Dimension {
    table: RecordBatch,
    keys: Vec<usize>,
    key_types: Vec<DataType>,
    index: Index,
    /// If some key has several rows, those of key `i` are `rows[starts[i]..starts[i + 1]]`.
    rows_of_keys: Option<RowsOfKeys>,
    /// What it holds, as long as it is there.
    account: Option<MemoryAccount>,
}

#[derive(Debug)]
struct RowsOfKeys {
    starts: Vec<u32>,
    rows: Vec<u32>,
}

impl Dimension {
    /// Indexes a table by these key columns. Rows with a NULL in their key match nothing.
    ///
    /// # Errors
    /// If there is no key, its types cannot be compared, or the table is too large.
    pub fn new(table: RecordBatch, keys: Vec<usize>) -> Result<Self, Cause> {
        if keys.is_empty() {
            return Err(Cause::bug("a lookup table has no key"));
        }
        if table.num_rows() >= NO_KEY as usize {
            let rows = table.num_rows();
            return Err(Cause::resource(format!(
                "a lookup table has {rows} rows, but must have fewer than 2^32"
            )));
        }
        let table = without_dictionaries(table, &keys)?;
        let mut numbering = KeyTable::new(table.schema_ref(), &keys, false)?;
        let numbers = numbering.intern(&table, &keys)?;
        let known = numbers.iter().filter(|number| **number != NO_KEY).count();
        let is_unique = known == numbering.len();
        let rows_of_keys = (!is_unique).then(|| RowsOfKeys::new(&numbers, numbering.len()));
        let entry = |(row, number): (usize, &u32)| match *number {
            NO_KEY => NO_KEY,
            _ if is_unique => row as u32,
            number => number,
        };
        let entries: Vec<u32> = numbers.iter().enumerate().map(entry).collect();
        let key_types = keys.iter().map(|key| table.column(*key).data_type().clone()).collect();
        let index = Index::new(&table, &keys, numbering, &entries)?;
        Ok(Dimension { table, keys, key_types, index, rows_of_keys, account: None })
    }

    /// Counts its rows and its index against a limit, as long as it is there.
    ///
    /// # Errors
    /// [`Cause::resource`] if the limit would be passed.
    pub fn counted(mut self, memory: &MemoryBudget) -> Result<Self, Cause> {
        let mut account = memory.account();
        account.grow("a table in which rows are looked up", self.bytes())?;
        self.account = Some(account);
        Ok(self)
    }

    /// About how many bytes its rows and its index take.
    fn bytes(&self) -> u64 {
        let numbers = self.rows_of_keys.as_ref().map_or(0, |of| of.starts.len() + of.rows.len());
        (bytes_of_rows(&self.table) + self.index.bytes() + numbers * size_of::<u32>()) as u64
    }

    /// How many pairs of these rows with its own are looked at at once.
    fn pairs_at_once(&self, rows: &RecordBatch) -> usize {
        let length = |rows: &RecordBatch| bytes_of_rows(rows) / rows.num_rows().max(1);
        pieces::pairs_at_once(length(rows) + length(&self.table))
    }

    /// Where to divide rows with these entries so that each piece has few enough pairs, or is one row.
    fn piece_ends(&self, entries: &[u32], pairs_at_once: usize) -> Vec<usize> {
        let Some(rows_of_keys) = &self.rows_of_keys else { return vec![entries.len()] };
        let (mut ends, mut pairs) = (Vec::new(), 0);
        for (row, entry) in entries.iter().enumerate() {
            pairs += if *entry == NO_KEY { 1 } else { rows_of_keys.of(*entry).len() };
            if pairs >= pairs_at_once {
                ends.push(row + 1);
                pairs = 0;
            }
        }
        if pairs > 0 || ends.is_empty() {
            ends.push(entries.len());
        }
        ends
    }

    /// The rows. Key columns that were dictionaries are replaced by their values.
    pub fn table(&self) -> &RecordBatch {
        &self.table
    }

    /// The key columns.
    pub fn keys(&self) -> &[usize] {
        &self.keys
    }
}

/// Replaces dictionaries among the keys by their values.
fn without_dictionaries(table: RecordBatch, keys: &[usize]) -> Result<RecordBatch, Cause> {
    let (schema, mut columns, _) = table.into_parts();
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    for key in keys {
        let wanted = value_type(columns[*key].data_type());
        if wanted != *columns[*key].data_type() {
            columns[*key] = cast(&columns[*key], &wanted).map_err(kernel_error)?;
            fields[*key] = Arc::new(fields[*key].as_ref().clone().with_data_type(wanted));
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(kernel_error)
}

impl RowsOfKeys {
    fn new(numbers: &[u32], keys: usize) -> Self {
        let mut rows: Vec<u32> =
            (0..numbers.len() as u32).filter(|row| numbers[*row as usize] != NO_KEY).collect();
        rows.sort_by_key(|row| numbers[*row as usize]);
        let start = |key| rows.partition_point(|row| numbers[*row as usize] < key) as u32;
        RowsOfKeys { starts: (0..=keys as u32).map(start).collect(), rows }
    }

    fn of(&self, key: u32) -> &[u32] {
        &self.rows[self.starts[key as usize] as usize..self.starts[key as usize + 1] as usize]
    }
}

/// Joins rows with those of a table that does not change.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
/// use tidemill_core::{Cut, MemoryBudget, Transform};
/// use tidemill_operators::lookup::{Dimension, Lookup, LookupColumn, LookupKind, LookupSpec};
///
/// let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
/// let names = Arc::new(StringArray::from(vec!["one", "two"])) as ArrayRef;
/// let numbers = RecordBatch::try_from_iter([("n", column(vec![1, 2])), ("name", names)]).unwrap();
/// let stream = RecordBatch::try_from_iter([("n", column(vec![2, 3, 1]))]).unwrap();
/// let mut lookup = Lookup::new(LookupSpec {
///     stream: stream.schema(),
///     dimension: Arc::new(Dimension::new(numbers, vec![0]).unwrap()),
///     keys: vec![0],
///     kind: LookupKind::Inner,
///     residual: None,
///     output: vec![LookupColumn::Stream(0), LookupColumn::Dimension(1)],
///     memory: MemoryBudget::unlimited(),
/// }).unwrap();
/// let joined = lookup.apply(&stream, &Cut::first()).unwrap();
/// assert_eq!(joined.causes, Some(vec![0, 2]));
/// assert_eq!(joined.rows.column(1).as_ref(), &StringArray::from(vec!["two", "one"]));
/// ```
#[derive(Debug)]
pub struct Lookup {
    spec: LookupSpec,
    schema: SchemaRef,
    dictionary: DictionaryCache,
}

/// Which rows are paired: rows of the stream, ascending (`None`: each once), and rows of the table ([`NO_KEY`]: NULLs).
struct Pairs {
    causes: Option<Vec<u32>>,
    matches: Vec<u32>,
}

impl Lookup {
    /// An instance.
    ///
    /// # Errors
    /// If the types of the keys differ.
    pub fn new(spec: LookupSpec) -> Result<Self, Cause> {
        let given: Vec<DataType> =
            spec.keys.iter().map(|key| value_type(spec.stream.field(*key).data_type())).collect();
        if given != spec.dimension.key_types {
            let wanted = &spec.dimension.key_types;
            return Err(Cause::bug(format!(
                "the keys of a join must have equal types, not {given:?} and {wanted:?}"
            )));
        }
        Ok(Lookup { schema: output_schema(&spec), spec, dictionary: DictionaryCache::default() })
    }

    /// The index entry of each row.
    fn entries(&mut self, rows: &RecordBatch) -> Result<Vec<u32>, Cause> {
        let index = &self.spec.dimension.index;
        match self.spec.keys.as_slice() {
            [key] if is_dictionary(rows.column(*key).data_type()) => {
                self.dictionary.find(index, rows.column(*key))
            }
            keys => index.find(rows, keys),
        }
    }

    /// All pairs with equal keys. Without an additional condition, also the unmatched rows of a left join.
    fn pairs(&self, entries: Vec<u32>) -> Pairs {
        let keeps_all = self.spec.kind == LookupKind::Left && self.spec.residual.is_none();
        match &self.spec.dimension.rows_of_keys {
            None if keeps_all || entries.iter().all(|entry| *entry != NO_KEY) => {
                Pairs { causes: None, matches: entries }
            }
            None => matched_only(&entries),
            Some(rows_of_keys) => all_matches(&entries, rows_of_keys, keeps_all),
        }
    }

    /// Keeps the pairs for which the additional condition holds.
    fn filter(
        &self,
        rows: &RecordBatch,
        residual: &dyn Expression,
        pairs: Pairs,
        cut: &Cut,
    ) -> Result<Pairs, Cause> {
        let table = &self.spec.dimension.table;
        let causes = pairs.causes.unwrap_or_else(|| (0..rows.num_rows() as u32).collect());
        let (causes, matches) = (UInt32Array::from(causes), UInt32Array::from(pairs.matches));
        let columns = [
            take_arrays(rows.columns(), &causes, None).map_err(kernel_error)?,
            take_arrays(table.columns(), &matches, None).map_err(kernel_error)?,
        ];
        let schema = joined_schema(&self.spec.stream, table.schema_ref(), JoinKind::Inner);
        let candidates = RecordBatch::try_new(schema, columns.concat()).map_err(kernel_error)?;
        let holds = condition(residual, &candidates, cut)?;
        let kept = |numbers: &UInt32Array| {
            holds.values().set_indices().map(|index| numbers.value(index)).collect::<Vec<u32>>()
        };
        let pairs = Pairs { causes: Some(kept(&causes)), matches: kept(&matches) };
        Ok(match self.spec.kind {
            LookupKind::Left => with_unmatched(pairs, rows.num_rows()),
            _ => pairs,
        })
    }

    /// The rows to keep according to the pairs, if these are not the pairs themselves.
    fn kept(&self, rows: &RecordBatch, pairs: Pairs) -> Pairs {
        let excludes_null = match self.spec.kind {
            LookupKind::Inner | LookupKind::Left => return pairs,
            LookupKind::Exists => return once(pairs),
            LookupKind::NotExists => false,
            LookupKind::NotIn => self.spec.dimension.table.num_rows() > 0,
        };
        let nulls: Vec<NullBuffer> = if excludes_null {
            self.spec.keys.iter().filter_map(|key| rows.column(*key).logical_nulls()).collect()
        } else {
            Vec::new()
        };
        let mut kept = without_match(&pairs, rows.num_rows());
        kept.retain(|row| nulls.iter().all(|nulls| nulls.is_valid(*row as usize)));
        Pairs { matches: vec![NO_KEY; kept.len()], causes: Some(kept) }
    }

    fn gather(&self, rows: &RecordBatch, pairs: Pairs) -> Result<Transformed, Cause> {
        let table = &self.spec.dimension.table;
        let causes = pairs.causes.as_ref().map(|causes| UInt32Array::from(causes.clone()));
        let length = pairs.matches.len();
        let matches = as_indices(pairs.matches, self.spec.kind);
        let column = |column: &LookupColumn| match (*column, &causes) {
            (LookupColumn::Stream(index), None) => Ok(rows.column(index).clone()),
            (LookupColumn::Stream(index), Some(causes)) => {
                take(rows.column(index), causes, None).map_err(kernel_error)
            }
            (LookupColumn::Dimension(index), _) => {
                take(table.column(index), &matches, None).map_err(kernel_error)
            }
        };
        let columns = self.spec.output.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(length));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        Ok(Transformed { rows: rows.map_err(kernel_error)?, causes: pairs.causes })
    }
}

impl Transform for Lookup {
    fn apply(&mut self, rows: &RecordBatch, cut: &Cut) -> Result<Transformed, Cause> {
        let mut pieces = Pieces::new(&self.schema, &self.spec.memory);
        self.apply_in_pieces(rows, cut, &mut |piece| pieces.add(piece))?;
        pieces.joined()
    }

    fn apply_in_pieces(
        &mut self,
        rows: &RecordBatch,
        cut: &Cut,
        pass_on: &mut dyn FnMut(Transformed) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        let entries = self.entries(rows)?;
        let pairs_at_once = self.spec.dimension.pairs_at_once(rows);
        let ends = self.spec.dimension.piece_ends(&entries, pairs_at_once);
        let mut start = 0;
        for end in &ends {
            let piece = rows.slice(start, end - start);
            match self.matches_of_row(&entries[start..*end]) {
                Some(matches) if matches.len() > pairs_at_once => {
                    for matches in matches.chunks(pairs_at_once) {
                        let pairs = Pairs { causes: Some(vec![0; matches.len()]), matches: matches.to_vec() };
                        pass_on(behind(self.join_pairs(&piece, pairs, cut)?, start..*end))?;
                    }
                }
                _ if ends.len() == 1 => pass_on(self.join(rows, entries.clone(), cut)?)?,
                _ => {
                    let joined = self.join(&piece, entries[start..*end].to_vec(), cut)?;
                    pass_on(behind(joined, start..*end))?;
                }
            }
            start = *end;
        }
        Ok(())
    }
}

/// What was made of these rows of a batch.
fn behind(piece: Transformed, rows: Range<usize>) -> Transformed {
    let first = rows.start as u32;
    let causes = match piece.causes {
        None => (first..rows.end as u32).collect(),
        Some(causes) => causes.into_iter().map(|row| first + row).collect(),
    };
    Transformed { causes: Some(causes), ..piece }
}

impl Lookup {
    /// Joins rows whose index entries are known.
    fn join(&self, rows: &RecordBatch, entries: Vec<u32>, cut: &Cut) -> Result<Transformed, Cause> {
        self.join_pairs(rows, self.pairs(entries), cut)
    }

    /// The matches of a single row, if its pairs can be looked at one after the other: whether it has any counts for other joins.
    fn matches_of_row(&self, entries: &[u32]) -> Option<&[u32]> {
        match (self.spec.kind, entries, &self.spec.dimension.rows_of_keys) {
            (LookupKind::Inner, [key], Some(rows_of_keys)) if *key != NO_KEY => Some(rows_of_keys.of(*key)),
            _ => None,
        }
    }

    /// Joins rows whose pairs are known.
    fn join_pairs(&self, rows: &RecordBatch, mut pairs: Pairs, cut: &Cut) -> Result<Transformed, Cause> {
        if let Some(residual) = self.spec.residual.clone() {
            pairs = self.filter(rows, residual.as_ref(), pairs, cut)?;
        }
        let kept = self.kept(rows, pairs);
        self.gather(rows, kept)
    }
}

/// Each row that has a match, once.
fn once(pairs: Pairs) -> Pairs {
    let Some(mut causes) = pairs.causes else { return pairs };
    causes.dedup();
    Pairs { matches: vec![NO_KEY; causes.len()], causes: Some(causes) }
}

/// The rows that are in no pair.
fn without_match(pairs: &Pairs, rows: usize) -> Vec<u32> {
    let Some(causes) = &pairs.causes else { return Vec::new() };
    let mut matched = causes.iter().copied().peekable();
    let is_unmatched = |row: &u32| {
        let mut is_matched = false;
        while matched.next_if_eq(row).is_some() {
            is_matched = true;
        }
        !is_matched
    };
    (0..rows as u32).filter(is_unmatched).collect()
}

fn matched_only(entries: &[u32]) -> Pairs {
    let (mut causes, mut matches) = (vec![0; entries.len()], vec![0; entries.len()]);
    let mut count = 0;
    // Written in any case and kept by counting: no branch to mispredict.
    for (row, entry) in entries.iter().enumerate() {
        causes[count] = row as u32;
        matches[count] = *entry;
        count += usize::from(*entry != NO_KEY);
    }
    causes.truncate(count);
    matches.truncate(count);
    Pairs { causes: Some(causes), matches }
}

fn all_matches(entries: &[u32], rows_of_keys: &RowsOfKeys, keeps_all: bool) -> Pairs {
    let (mut causes, mut matches) = (Vec::new(), Vec::new());
    for (row, entry) in entries.iter().enumerate() {
        let found = match *entry {
            NO_KEY if keeps_all => &[NO_KEY],
            NO_KEY => continue,
            key => rows_of_keys.of(key),
        };
        matches.extend_from_slice(found);
        causes.resize(matches.len(), row as u32);
    }
    Pairs { causes: Some(causes), matches }
}

/// Adds an empty pair for each row that has none.
fn with_unmatched(pairs: Pairs, rows: usize) -> Pairs {
    let found = pairs.causes.unwrap_or_default();
    let (mut causes, mut matches) = (Vec::new(), Vec::new());
    let mut next = 0;
    for row in 0..rows as u32 {
        let end = next + found[next..].partition_point(|cause| *cause <= row);
        if next == end {
            matches.push(NO_KEY)
        } else {
            matches.extend_from_slice(&pairs.matches[next..end])
        }
        causes.resize(matches.len(), row);
        next = end;
    }
    Pairs { causes: Some(causes), matches }
}

fn as_indices(matches: Vec<u32>, kind: LookupKind) -> UInt32Array {
    if kind == LookupKind::Inner || !matches.contains(&NO_KEY) {
        return UInt32Array::from(matches);
    }
    let is_match = NullBuffer::from_iter(matches.iter().map(|entry| *entry != NO_KEY));
    UInt32Array::new(matches.into(), Some(is_match))
}
