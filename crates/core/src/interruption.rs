//! Lets work that takes long on a thread of a query end when the query ends. An expression that is evaluated there knows nothing of the query.

use std::cell::RefCell;
use std::rc::Rc;

type IsOver = Rc<dyn Fn() -> bool>;

thread_local! {
    static IS_OVER: RefCell<Option<IsOver>> = const { RefCell::new(None) };
}

/// What was known before applies again when this is dropped.
pub struct Interruptible(Option<IsOver>);

impl Drop for Interruptible {
    fn drop(&mut self) {
        IS_OVER.replace(self.0.take());
    }
}

/// From now on, `is_over` says whether the work of the calling thread is not wanted any more.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use tidemill_core::interruption::{interruptible, is_interrupted};
/// let over = Rc::new(Cell::new(false));
/// let asked = Rc::clone(&over);
/// let until = interruptible(move || asked.get());
/// assert!(!is_interrupted());
/// over.set(true);
/// assert!(is_interrupted());
/// drop(until);
/// assert!(!is_interrupted());
/// ```
#[must_use]
pub fn interruptible(is_over: impl Fn() -> bool + 'static) -> Interruptible {
    Interruptible(IS_OVER.replace(Some(Rc::new(is_over))))
}

/// Whether the work of the calling thread is not wanted any more. Work that takes long asks every few milliseconds, and returns any error.
pub fn is_interrupted() -> bool {
    let is_over = IS_OVER.with_borrow(Clone::clone);
    is_over.is_some_and(|is_over| is_over())
}
