//! Fits two costs to two measurements: the cost of a row, and of each copy of it.

/// A measurement: the copies written per row, and the total cost of a row.
type Point = (f64, f64);

/// The cost of a row, at least `row_min_ns`, and the cost of each copy, at least 0: the line through both measurements,
/// if it satisfies these bounds. Otherwise the measurements are too close (next to nothing is broadcast) or differ for
/// reasons outside the model. Then the costs deviate from both by the same share.
pub(crate) fn fit(row_min_ns: f64, points: [Point; 2]) -> (f64, f64) {
    let [(few, narrow_ns), (many, wide_ns)] = points;
    let copy_ns = (wide_ns - narrow_ns) / (many - few);
    let row_ns = narrow_ns - few * copy_ns;
    if copy_ns >= 0.0 && row_ns >= row_min_ns {
        return (row_ns, copy_ns);
    }
    let all_by_copies = (row_min_ns, multiple(points.map(|(copies, ns)| (copies, ns - row_min_ns, ns))));
    let all_by_rows = (multiple(points.map(|(_, ns)| (1.0, ns, ns))).max(row_min_ns), 0.0);
    let error = |(row_ns, copy_ns): (f64, f64)| {
        points.iter().map(|(copies, ns)| ((row_ns + copies * copy_ns) / ns - 1.0).powi(2)).sum::<f64>()
    };
    if error(all_by_rows) < error(all_by_copies) { all_by_rows } else { all_by_copies }
}

/// The `x`, at least 0, for which `a x` is closest to `b` for all `(a, b, whole)`, relative to `whole`.
fn multiple(terms: [(f64, f64, f64); 2]) -> f64 {
    let sum = |of: fn(f64, f64) -> f64| {
        terms
            .iter()
            .map(|(a, b, whole)| of(*a / whole, *b / whole))
            .filter(|term| term.is_finite())
            .sum::<f64>()
    };
    let squares = sum(|a, _| a * a);
    if squares > 0.0 { (sum(|a, b| a * b) / squares).max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn costs_by_hand() {
        assert_eq!(fit(1.0, [(1.5, 40.0), (2.5, 60.0)]), (10.0, 20.0));
        // Copies of rows that are shared cost nothing, not even where the machine was faster the second time.
        assert_eq!(fit(1.0, [(2.0, 5.0), (64.0, 5.0)]), (5.0, 0.0));
        let (row_ns, copy_ns) = fit(1.0, [(2.0, 5.0), (64.0, 4.5)]);
        assert!((4.5..5.0).contains(&row_ns) && copy_ns == 0.0);
        // No row has more copies in the one than in the other.
        let (row_ns, copy_ns) = fit(1.0, [(1.0, 19.0), (1.0, 23.0)]);
        assert!(row_ns == 1.0 && (19.0..21.0).contains(&copy_ns));
        // All rows are omitted, by a function that takes all the time.
        assert_eq!(fit(3.0, [(0.0, 3.0), (0.0, 3.0)]), (3.0, 0.0));
        // By a clock that hardly moves.
        assert_eq!(fit(3.0, [(0.0, 0.0), (0.0, 0.0)]), (3.0, 0.0));
        assert_eq!(fit(3.0, [(1.0, 0.0), (1.0, 9.0)]), (3.0, 6.0));
    }

    proptest! {
        #[test]
        fn costs_that_are_there_are_found(row in 1.0..50.0f64, copy in 0.0..50.0f64, b in 0.01..1.0f64, q in 3..600) {
            let copies = [1.0 + b, 1.0 - b + b * f64::from(q)];
            let (row_ns, copy_ns) = fit(1.0, copies.map(|copies| (copies, row + copies * copy)));
            let close = |found: f64, there: f64| (found - there).abs() < 1e-6 * (row + copy) / b;
            // Where a row costs next to the least that it may, rounding makes the difference.
            prop_assert!(close(row_ns, row) && close(copy_ns, copy));
        }

        #[test]
        fn whatever_was_measured_costs_are_numbers_within_it(
            least in 0.0..10.0f64, narrow in 0.0..50.0f64, wide in 0.0..50.0f64, few in 0.0..2.0f64, more in 0.0..9.0f64
        ) {
            let (row_ns, copy_ns) = fit(least, [(few, narrow), (few + more, wide)]);
            prop_assert!(row_ns >= least && copy_ns >= 0.0);
            let most = narrow.max(wide).max(least) * (1.0 + 1e-9);
            prop_assert!(row_ns <= most + 1e-9 || copy_ns * more <= most);
            prop_assert!(row_ns.is_finite() && copy_ns.is_finite());
        }
    }
}
