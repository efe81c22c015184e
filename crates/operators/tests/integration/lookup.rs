//! Joins with a table that does not change, against all pairs of rows.
#![allow(missing_docs)]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_schema::DataType;
use proptest::prelude::*;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::{Cut, Expression, MemoryBudget, Transform, Transformed};
use tidemill_operators::lookup::{Dimension, Lookup, LookupColumn, LookupKind, LookupSpec};

/// A row: a number, a name, and the row's place.
type Row = (Option<i64>, Option<String>, i64);

fn rows(keys: Vec<(Option<i64>, Option<String>)>) -> Vec<Row> {
    keys.into_iter().enumerate().map(|(place, (number, name))| (number, name, place as i64)).collect()
}

fn batch(rows: &[Row], number_type: &DataType, name_type: &DataType) -> RecordBatch {
    let numbers = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()) as ArrayRef;
    let names = Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringArray>()) as ArrayRef;
    let places = Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()) as ArrayRef;
    let numbers = cast(&numbers, number_type).unwrap();
    let names = cast(&names, name_type).unwrap();
    RecordBatch::try_from_iter_with_nullable([
        ("number", numbers, true),
        ("name", names, true),
        ("place", places, false),
    ])
    .unwrap()
}

/// The place in the stream is not larger than that in the table.
#[derive(Debug)]
struct NotLater;

impl Expression for NotLater {
    fn data_type(&self) -> DataType {
        DataType::Boolean
    }
    fn evaluate(&self, rows: &RecordBatch, _cut: &Cut) -> Result<ArrayRef, Cause> {
        let places = |column: usize| rows.column(column).as_primitive::<Int64Type>().values().iter();
        let holds: Vec<bool> = places(2).zip(places(5)).map(|(stream, table)| stream <= table).collect();
        Ok(Arc::new(BooleanArray::from(holds)))
    }
}

fn expected(
    stream: &[Row],
    table: &[Row],
    keys: &[usize],
    kind: LookupKind,
    condition: bool,
) -> Vec<(i64, Option<i64>)> {
    let is_pair = |left: &Row, right: &Row| {
        let is_equal = |key: &usize| match key {
            0 => left.0.is_some() && left.0 == right.0,
            _ => left.1.is_some() && left.1 == right.1,
        };
        keys.iter().all(is_equal) && (!condition || left.2 <= right.2)
    };
    let mut pairs = Vec::new();
    for left in stream {
        let matches: Vec<i64> =
            table.iter().filter(|right| is_pair(left, right)).map(|right| right.2).collect();
        let has_null = keys.iter().any(|key| if *key == 0 { left.0.is_none() } else { left.1.is_none() });
        match kind {
            LookupKind::Inner => {}
            LookupKind::Left if !matches.is_empty() => {}
            LookupKind::Left => pairs.push((left.2, None)),
            LookupKind::Exists => pairs.extend((!matches.is_empty()).then_some((left.2, None))),
            LookupKind::NotExists => pairs.extend(matches.is_empty().then_some((left.2, None))),
            LookupKind::NotIn => {
                let is_kept = matches.is_empty() && (!has_null || table.is_empty());
                pairs.extend(is_kept.then_some((left.2, None)));
            }
        }
        if matches!(kind, LookupKind::Inner | LookupKind::Left) {
            pairs.extend(matches.into_iter().map(|right| (left.2, Some(right))));
        }
    }
    pairs
}

fn lookup(
    stream: &RecordBatch,
    table: RecordBatch,
    keys: &[usize],
    kind: LookupKind,
    condition: bool,
) -> Lookup {
    Lookup::new(LookupSpec {
        memory: MemoryBudget::unlimited(),
        stream: stream.schema(),
        dimension: Arc::new(Dimension::new(table, keys.to_vec()).unwrap()),
        keys: keys.to_vec(),
        kind,
        residual: condition.then(|| Arc::new(NotLater) as _),
        output: match kind {
            LookupKind::Inner | LookupKind::Left => {
                vec![LookupColumn::Stream(2), LookupColumn::Dimension(2), LookupColumn::Dimension(1)]
            }
            _ => vec![LookupColumn::Stream(2)],
        },
    })
    .unwrap()
}

fn dictionary(values: DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::Int8), Box::new(values))
}

/// Key columns of the stream and the table, as types of numbers and names, and the keys used.
fn cases() -> Vec<(DataType, DataType, DataType, DataType, Vec<usize>)> {
    use DataType::*;
    vec![
        (Int64, Int64, Utf8, Utf8, vec![0]),
        (Int32, Int32, Utf8, Utf8, vec![0]),
        (Int8, Int8, Utf8, Utf8, vec![0]),
        (Float64, Float64, Utf8, Utf8, vec![0]),
        (Int64, Int64, Utf8, Utf8, vec![1]),
        (Int64, Int64, Utf8View, Utf8View, vec![1]),
        (Int64, Int64, LargeUtf8, LargeUtf8, vec![1]),
        (Int64, Int64, dictionary(Utf8), Utf8, vec![1]),
        (Int64, Int64, dictionary(Utf8), dictionary(Utf8), vec![1]),
        (Int64, Int64, Utf8, Utf8, vec![0, 1]),
        (Int64, Int64, dictionary(Utf8), Utf8, vec![0, 1]),
    ]
}

type Keys = Vec<(Option<i64>, Option<String>)>;

fn keys(count: usize, is_sparse: bool) -> impl Strategy<Value = Keys> {
    let number = proptest::option::weighted(0.9, -3..4_i64);
    let name = proptest::option::weighted(0.9, "[ab]{0,2}");
    // Sparse numbers go to the hash table, dense ones to the array; all fit 8 bits or are cast so.
    let factor = if is_sparse { 30 } else { 1 };
    let spread =
        move |(number, name): (Option<i64>, Option<String>)| (number.map(|number| number * factor), name);
    prop::collection::vec((number, name).prop_map(spread), 0..count)
}

proptest! {
    #[test]
    fn all_pairs_and_no_others(
        (stream, table) in any::<bool>().prop_flat_map(|sparse| (keys(40, sparse), keys(12, sparse))),
        kind in prop::sample::select(vec![
            LookupKind::Inner, LookupKind::Left, LookupKind::Exists, LookupKind::NotExists, LookupKind::NotIn,
        ]),
        condition: bool,
        is_unique: bool,
    ) {
        for (stream_number, table_number, stream_name, table_name, keys) in cases() {
            let (stream, mut table) = (rows(stream.clone()), rows(table.clone()));
            if is_unique {
                let mut seen = std::collections::HashSet::new();
                let name = |row: &Row| if keys == [0] { None } else { row.1.clone() };
                table.retain(|row| seen.insert((row.0, name(row))));
            }
            let expected = expected(&stream, &table, &keys, kind, condition);
            let table = batch(&table, &table_number, &table_name);
            let stream = batch(&stream, &stream_number, &stream_name);
            let mut lookup = lookup(&stream, table, &keys, kind, condition);
            // Twice, so that the second time finds the dictionary known.
            for _ in 0..2 {
                let joined = lookup.apply(&stream, &Cut::first()).unwrap();
                let left = joined.rows.column(0).as_primitive::<Int64Type>().values().iter().copied();
                let right: Vec<Option<i64>> = match kind {
                    LookupKind::Inner | LookupKind::Left => {
                        joined.rows.column(1).as_primitive::<Int64Type>().iter().collect()
                    }
                    _ => vec![None; joined.rows.num_rows()],
                };
                prop_assert_eq!(left.clone().zip(right).collect::<Vec<_>>(), expected.clone());
                if let Some(causes) = joined.causes {
                    let causes: Vec<i64> = causes.into_iter().map(i64::from).collect();
                    prop_assert_eq!(causes, left.collect::<Vec<_>>());
                }
            }
        }
    }
}

#[test]
fn large_words_go_through_the_hash_table() {
    let number = |row: i64| (row * row).wrapping_mul(0x1234_5678_9abc_def1) >> 3;
    let table: Vec<Row> = (0..1000).map(|row| (Some(number(row)), None, row)).collect();
    let stream: Vec<Row> = (0..2000).map(|row| (Some(number(row)), None, row)).collect();
    let (table, stream) = [table, stream].map(|rows| batch(&rows, &DataType::Int64, &DataType::Utf8)).into();
    let joined =
        lookup(&stream, table, &[0], LookupKind::Inner, false).apply(&stream, &Cut::first()).unwrap();
    assert_eq!(joined.causes, Some((0..1000).collect()));
    assert_eq!(joined.rows.column(0), joined.rows.column(1));
}

#[test]
fn keys_of_different_types_are_refused() {
    let row = [(Some(1), Some("a".to_owned()), 0)];
    let stream = batch(&row, &DataType::Int32, &DataType::Utf8);
    let table = batch(&row, &DataType::Int64, &DataType::Utf8);
    let spec = LookupSpec {
        memory: MemoryBudget::unlimited(),
        stream: stream.schema(),
        dimension: Arc::new(Dimension::new(table, vec![0]).unwrap()),
        keys: vec![0],
        kind: LookupKind::Inner,
        residual: None,
        output: vec![LookupColumn::Stream(2)],
    };
    assert!(matches!(Lookup::new(spec), Err(Cause { fault: Fault::Bug, .. })));
}

#[test]
fn zero_joins_negative_zero_and_nan_joins_nan() {
    let column = |values: Vec<f64>| Arc::new(arrow_array::Float64Array::from(values)) as ArrayRef;
    let batch = |values: Vec<f64>| RecordBatch::try_from_iter([("number", column(values))]).unwrap();
    let (stream, table) =
        (batch(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.0]), batch(vec![-0.0, f64::NAN, 2.0]));
    let mut lookup = Lookup::new(LookupSpec {
        memory: MemoryBudget::unlimited(),
        stream: stream.schema(),
        dimension: Arc::new(Dimension::new(table, vec![0]).unwrap()),
        keys: vec![0],
        kind: LookupKind::Exists,
        residual: None,
        output: vec![LookupColumn::Stream(0)],
    })
    .unwrap();
    assert_eq!(lookup.apply(&stream, &Cut::first()).unwrap().causes, Some(vec![0, 1, 2, 3]));
}

/// A stream of 300 rows and a table of 2000, all with the same key: more pairs than are looked at at once.
fn crossed(memory: MemoryBudget) -> Result<Transformed, Cause> {
    let column = |values: std::ops::Range<i64>| Arc::new(Int64Array::from_iter_values(values)) as ArrayRef;
    let same = |rows| Arc::new(Int64Array::from(vec![7; rows])) as ArrayRef;
    let stream = RecordBatch::try_from_iter([("k", same(300)), ("a", column(0..300))]).unwrap();
    let table = RecordBatch::try_from_iter([("k", same(2000)), ("b", column(0..2000))]).unwrap();
    let mut lookup = Lookup::new(LookupSpec {
        memory,
        stream: stream.schema(),
        dimension: Arc::new(Dimension::new(table, vec![0]).unwrap()),
        keys: vec![0],
        kind: LookupKind::Inner,
        residual: None,
        output: vec![LookupColumn::Stream(1), LookupColumn::Dimension(1)],
    })
    .unwrap();
    lookup.apply(&stream, &Cut::first())
}

#[test]
fn rows_that_find_very_many_are_joined_in_pieces() {
    let joined = crossed(MemoryBudget::unlimited()).unwrap();
    let expected = (0..300_i64).flat_map(|a| (0..2000_i64).map(move |b| (a, b)));
    let (first, second): (Vec<i64>, Vec<i64>) = expected.unzip();
    assert_eq!(joined.causes.unwrap(), first.iter().map(|a| *a as u32).collect::<Vec<_>>());
    assert_eq!(joined.rows.column(0).as_ref(), &Int64Array::from(first));
    assert_eq!(joined.rows.column(1).as_ref(), &Int64Array::from(second));
}

#[test]
fn one_row_that_finds_very_many_is_joined_in_pieces_that_hold_little() {
    let column = |values: std::ops::Range<i64>| Arc::new(Int64Array::from_iter_values(values)) as ArrayRef;
    let same = |rows| Arc::new(Int64Array::from(vec![7; rows])) as ArrayRef;
    let stream = RecordBatch::try_from_iter([("k", same(2)), ("a", column(0..2))]).unwrap();
    let table = RecordBatch::try_from_iter([("k", same(1_000_000)), ("b", column(0..1_000_000))]).unwrap();
    let mut lookup = Lookup::new(LookupSpec {
        memory: MemoryBudget::unlimited(),
        stream: stream.schema(),
        dimension: Arc::new(Dimension::new(table, vec![0]).unwrap()),
        keys: vec![0],
        kind: LookupKind::Inner,
        residual: None,
        output: vec![LookupColumn::Stream(1), LookupColumn::Dimension(1)],
    })
    .unwrap();
    let mut next = 0;
    let mut take = |piece: Transformed| {
        assert!(piece.rows.num_rows() <= 300_000, "{} rows at once", piece.rows.num_rows());
        let (first, second) = (piece.rows.column(0), piece.rows.column(1));
        let rows = first
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .zip(second.as_primitive::<Int64Type>().values());
        for ((a, b), cause) in rows.zip(piece.causes.unwrap()) {
            assert_eq!((*a, *b, i64::from(cause)), (next / 1_000_000, next % 1_000_000, next / 1_000_000));
            next += 1;
        }
        Ok(())
    };
    lookup.apply_in_pieces(&stream, &Cut::first(), &mut take).unwrap();
    assert_eq!(next, 2_000_000);
}

#[test]
fn a_join_ends_at_its_memory_limit_and_gives_it_back() {
    // All pairs take 12 MB.
    let memory = MemoryBudget::new(6 << 20);
    let refused = crossed(memory.query(None)).unwrap_err();
    assert!(
        refused.fault == Fault::Resource && refused.message.starts_with("a join would take"),
        "{refused}"
    );
    assert_eq!(memory.held(), 0);
}

#[test]
fn a_table_counts_with_its_index() {
    let number = Arc::new(Int64Array::from_iter_values(0..10_000)) as ArrayRef;
    let table = RecordBatch::try_from_iter([("number", number)]).unwrap();
    let memory = tidemill_core::MemoryBudget::new(200_000);
    let dimension = Dimension::new(table.clone(), vec![0]).unwrap().counted(&memory).unwrap();
    // 8 bytes for each number, and 4 in the index.
    assert!((120_000..200_000).contains(&memory.held()), "{}", memory.held());
    let refused = Dimension::new(table, vec![0]).unwrap().counted(&memory).unwrap_err();
    assert!(refused.message.contains("a table in which rows are looked up would take"), "{refused}");
    drop(dimension);
    assert_eq!(memory.held(), 0);
}
