//! The kinds of views, one at random.

use super::random::Random;
use super::view::{self, Query, View};
use super::window_view as window;

/// A random view of this name.
pub fn random(random: &mut Random, name: &str) -> View {
    let of = |query: Query| View::new(name, query);
    let mut view = match random.below(15) {
        0 => of(view::rows(random)),
        1..4 => of(view::groups(random)),
        4 => of(view::distinct(random)),
        5 => view::last_rows(random),
        6 => of(view::union(random)),
        7 => view::store(random),
        8 => of(window::windows(random)),
        9 => of(window::windows_of_both(random)),
        10 => of(window::top(random)),
        11 => of(window::sessions(random)),
        12 => of(window::joined(random)),
        13 => of(window::running(random)),
        _ => of(window::count_windows(random)),
    };
    view.name = name.to_owned();
    if random.is_once_in(6) {
        view.options.push(format!("retain_versions = {}", random.one_of(&[3, 20, 50])));
    }
    view
}
