//! The smallest list that still has a property, found by leaving parts out: delta debugging (Zeller and Hildebrandt, 2002).

/// What is left of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Minimal<T> {
    pub items: Vec<T>,
    /// Whether the property is lost without any one of them; false: the search ended before.
    pub is_minimal: bool,
}

/// Leaves out of a list that has a property as much as it can, in parts that become smaller, until no single item can be
/// left out. Asks for the property of at most `lists_max` lists. Lists keep their order.
pub(super) fn minimal<T: Copy, E>(
    mut items: Vec<T>,
    mut lists_max: usize,
    mut has_property: impl FnMut(&[T]) -> Result<bool, E>,
) -> Result<Minimal<T>, E> {
    let mut parts = 1;
    while !items.is_empty() {
        let length = items.len().div_ceil(parts);
        let (mut start, mut is_shorter) = (0, false);
        while start < items.len() {
            if lists_max == 0 {
                return Ok(Minimal { items, is_minimal: false });
            }
            lists_max -= 1;
            let end = (start + length).min(items.len());
            let rest: Vec<T> = items[..start].iter().chain(&items[end..]).copied().collect();
            if has_property(&rest)? {
                (items, is_shorter) = (rest, true);
            } else {
                start = end;
            }
        }
        if length > 1 {
            parts = (parts * 2).min(items.len().max(1));
        } else if !is_shorter {
            break;
        }
    }
    Ok(Minimal { items, is_minimal: true })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn of(length: u32, lists_max: usize, has: impl Fn(&[u32]) -> bool) -> Minimal<u32> {
        let items: Vec<u32> = (0..length).collect();
        let Ok(minimal) = minimal(items, lists_max, |list| Ok::<_, Infallible>(has(list)));
        minimal
    }

    /// Every property "has all of these", for each set of items of a short list.
    #[test]
    fn exactly_what_is_needed_is_left() {
        for length in 0..8 {
            for needed in 0..1_u32 << length {
                let is_needed = |item: u32| needed & (1 << item) != 0;
                let has_all = |list: &[u32]| {
                    (0..length).filter(|item| is_needed(*item)).all(|item| list.contains(&item))
                };
                let expected: Vec<u32> = (0..length).filter(|item| is_needed(*item)).collect();
                assert_eq!(of(length, 10_000, has_all), Minimal { items: expected, is_minimal: true });
            }
        }
    }

    /// Properties that longer lists may lose again.
    #[test]
    fn without_any_one_of_what_is_left_the_property_is_lost() {
        let properties: [fn(&[u32]) -> bool; 3] = [
            |list| list.iter().sum::<u32>() % 7 == 0 && !list.is_empty(),
            |list| list.len() % 3 == 1,
            |list| list.iter().max() == Some(&20),
        ];
        for has in properties {
            let all: Vec<u32> = (0..22).filter(|item| *item != 21).collect();
            if !has(&all) {
                continue;
            }
            let Ok(found) = minimal(all, 10_000, |list| Ok::<_, Infallible>(has(list)));
            assert!(found.is_minimal && has(&found.items), "{found:?}");
            for left_out in 0..found.items.len() {
                let mut rest = found.items.clone();
                rest.remove(left_out);
                assert!(!has(&rest), "{found:?} without item {left_out}");
            }
        }
    }

    #[test]
    fn few_needed_items_of_many_are_found_in_few_steps() {
        let asked = std::cell::Cell::new(0);
        let found = of(100_000, 10_000, |list| {
            asked.set(asked.get() + 1);
            list.binary_search(&777).is_ok() && list.binary_search(&90_000).is_ok()
        });
        assert_eq!(found.items, [777, 90_000]);
        assert!(asked.get() < 150, "{}", asked.get());
    }

    #[test]
    fn a_search_that_is_ended_says_so() {
        let found = of(64, 5, |list| list.len() > 40);
        assert!(!found.is_minimal && found.items.len() > 40);
    }
}
