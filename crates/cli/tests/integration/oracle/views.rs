//! The kinds of views, one at random.

use super::kept_view as kept;
use super::view::{self, Query, View};
use super::window_view as window;
use tidemill_testing::random::Random;

/// A random view of this name. `table` has the last row of each key of a source.
pub fn random(random: &mut Random, name: &str, table: &View) -> View {
    let of = |query: Query| View::new(name, query);
    let mut view = match random.index(18) {
        0 => of(view::rows(random)),
        1..4 => of(view::groups(random)),
        4 => of(view::distinct(random)),
        5 => kept::last_rows(random),
        6 => of(view::union(random)),
        7 => kept::store(random),
        8 => of(window::windows(random)),
        9 => of(window::windows_of_both(random)),
        10 => of(window::top(random)),
        11 => of(window::sessions(random)),
        12 => of(window::joined(random)),
        13 => of(window::running(random)),
        14 => of(window::count_windows(random)),
        15 => of(kept::joined_with_last(random, table)),
        _ => kept::recent(random),
    };
    view.name = name.to_owned();
    if random.is_once_in(6) {
        view.options.push(format!("retain_versions = {}", random.one_of(&[3, 20, 50])));
    }
    view
}
