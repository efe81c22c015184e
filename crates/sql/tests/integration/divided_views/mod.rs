//! Which fragments of a materialized view a query asks.

use crate::cars::{ROWS, execute, explained, lines, planner, run};
use crate::stored_views::compare;

#[test]
fn a_query_asks_the_fragment_that_has_its_rows() {
    for (options, asked) in [
        ("key = 'vid', fragments = 4", "vid = 7"),
        ("fragments = 4, fragment_by = 'vid'", "vid = 7"),
        ("fragments = 4, fragment_by = 'vid % 5'", "vid % 5 = 2 AND x > 30"),
        ("fragments = 4, fragment_by = 'vid % 5'", "vid = 7"),
        ("fragments = 4, fragment_by = 'upper(name)'", "name = 'car 3'"),
        ("fragments = 4, fragment_by = 'name || CAST(vid AS VARCHAR)'", "name = 'car 3' AND vid = 7"),
        (
            "point = 'x, y', fragments = 4, fragment_by = 'vid'",
            "vid = 7 AND st_dwithin(point, st_point(9, 9), 90)",
        ),
    ] {
        let mut planner = planner();
        let view = format!("CREATE MATERIALIZED VIEW recent AS SELECT * FROM cars WITH ({options})");
        execute(&mut planner, &view).unwrap();
        let view = run(&mut planner);
        let fragments = view.store().fragments();
        assert_eq!(fragments.len(), 4);
        assert_eq!(fragments.iter().map(|fragment| fragment.statistics.rows).sum::<u64>(), ROWS as u64);
        for (condition, fragments) in [(asked, "1 of 4 fragments, "), ("vid > 7", "4 of 4 fragments, ")] {
            let text = explained(&mut planner, &format!("SELECT id FROM recent WHERE {condition}"));
            assert!(text.contains(fragments), "{options}, {condition}: {text}");
            compare(&mut planner, &format!("SELECT id FROM VIEW WHERE {condition} ORDER BY id"), None);
        }
        // In the order in which they came, without being asked.
        let expected: Vec<String> = (0..ROWS).map(|id| id.to_string()).collect();
        assert_eq!(lines(&mut planner, "SELECT id FROM recent").unwrap(), expected);
    }
}
