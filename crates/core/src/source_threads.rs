//! The threads that a source has beside the one that polls it: those that read connections, decode, or serve.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use parking_lot::{Mutex, MutexGuard};

/// What threads can belong to, such as a pool with a priority and a budget.
pub trait ThreadGroup: Send + Sync {
    /// Takes in a running thread of this process, by the number that the system has given it. The thread belongs to the group
    /// until the result is dropped, which happens before the thread ends. The calling thread is that thread itself, or one that
    /// belongs to the group already.
    fn take_in(&self, thread: i32) -> Box<dyn Send>;
}

/// The threads that a source starts. Whoever polls the source decides what they belong to ([`Source::threads`]): those that
/// run at that moment, also if they wait for something, and those that are started later. Clones are the same threads.
///
/// [`Source::threads`]: crate::Source::threads
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use std::sync::{Arc, mpsc};
/// use tidemill_core::source_threads::{SourceThreads, ThreadGroup};
///
/// /// Counts who belongs to it.
/// #[derive(Clone, Default)]
/// struct Counted(Arc<AtomicUsize>);
/// struct One(Arc<AtomicUsize>);
///
/// impl ThreadGroup for Counted {
///     fn take_in(&self, _thread: i32) -> Box<dyn Send> {
///         self.0.fetch_add(1, Ordering::SeqCst);
///         Box::new(One(Arc::clone(&self.0)))
///     }
/// }
/// impl Drop for One {
///     fn drop(&mut self) {
///         self.0.fetch_sub(1, Ordering::SeqCst);
///     }
/// }
///
/// let (threads, group) = (SourceThreads::default(), Counted::default());
/// let belonging = threads.belong_to(Arc::new(group.clone()));
/// let (end, ended) = mpsc::channel::<()>();
/// let (begin, begun) = mpsc::channel();
/// let thread = threads.spawn("reader", move || {
///     begin.send(()).unwrap();
///     ended.recv()
/// })?;
/// begun.recv().unwrap();
/// assert_eq!(group.0.load(Ordering::SeqCst), usize::from(cfg!(target_os = "linux")));
/// // The thread still runs, and belongs to nothing.
/// drop(belonging);
/// assert_eq!(group.0.load(Ordering::SeqCst), 0);
/// drop(end);
/// # let _ = thread.join();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct SourceThreads(Arc<Mutex<Roster>>);

/// Who runs, and where they belong.
#[derive(Default)]
struct Roster {
    group: Option<Arc<dyn ThreadGroup>>,
    running: BTreeMap<i32, Option<Box<dyn Send>>>,
}

/// The threads of a source belong to a group until this is dropped, on a thread that belongs to it, too.
#[must_use]
pub struct GroupMembership {
    threads: SourceThreads,
    group: Arc<dyn ThreadGroup>,
}

/// A running thread. It is dropped on that thread, at its end.
struct Running {
    threads: SourceThreads,
    number: i32,
}

impl SourceThreads {
    /// Starts a thread of this name. It belongs to the group, if there is one, before it does anything.
    ///
    /// # Errors
    /// If the system cannot start it.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: impl Into<String>,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let threads = self.clone();
        Builder::new().name(name.into()).spawn(move || {
            let _running = threads.enter();
            body()
        })
    }

    /// From now on, these threads belong to a group.
    pub fn belong_to(&self, group: Arc<dyn ThreadGroup>) -> GroupMembership {
        let mut roster = self.lock();
        for (number, belonging) in &mut roster.running {
            // A thread leaves one group before it comes into another.
            *belonging = None;
            *belonging = Some(group.take_in(*number));
        }
        roster.group = Some(Arc::clone(&group));
        drop(roster);
        GroupMembership { threads: self.clone(), group }
    }

    /// The calling thread begins.
    fn enter(self) -> Option<Running> {
        let number = number_of_this_thread()?;
        // With the lock, so that nobody else takes it in meanwhile.
        let mut roster = self.lock();
        let belonging = roster.group.as_ref().map(|group| group.take_in(number));
        roster.running.insert(number, belonging);
        drop(roster);
        Some(Running { threads: self, number })
    }

    fn lock(&self) -> MutexGuard<'_, Roster> {
        self.0.lock()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.threads.lock().running.remove(&self.number);
    }
}

impl Drop for GroupMembership {
    fn drop(&mut self) {
        let mut roster = self.threads.lock();
        let own = Arc::as_ptr(&self.group);
        if !roster.group.as_ref().is_some_and(|group| std::ptr::addr_eq(Arc::as_ptr(group), own)) {
            // They belong to another one by now.
            return;
        }
        roster.group = None;
        // With the lock: a thread takes it before it ends.
        roster.running.values_mut().for_each(|belonging| *belonging = None);
    }
}

impl fmt::Debug for SourceThreads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running: Vec<i32> = self.lock().running.keys().copied().collect();
        formatter.debug_tuple("SourceThreads").field(&running).finish()
    }
}

/// The number that the system has given to the calling thread; `None` if it does not say, or counts for somebody else: another
/// container's `/proc` has other numbers.
fn number_of_this_thread() -> Option<i32> {
    // The number of the process, `task`, the number of the thread.
    let link = std::fs::read_link("/proc/thread-self").ok()?;
    let mut parts = link.to_str()?.split('/');
    let process: u32 = parts.next()?.parse().ok()?;
    let thread = parts.nth(1)?.parse().ok()?;
    (process == std::process::id()).then_some(thread)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Remembers who belongs to it.
    #[derive(Clone, Default)]
    struct Group(Arc<Mutex<Vec<i32>>>);

    struct Member(Group, i32);

    impl ThreadGroup for Group {
        fn take_in(&self, thread: i32) -> Box<dyn Send> {
            self.0.lock().push(thread);
            Box::new(Member(self.clone(), thread))
        }
    }

    impl Drop for Member {
        fn drop(&mut self) {
            self.0.0.lock().retain(|thread| *thread != self.1);
        }
    }

    impl Group {
        fn members(&self) -> Vec<i32> {
            let mut members = self.0.lock().clone();
            members.sort_unstable();
            members
        }
    }

    /// A thread that has begun: its number, what ends it, and its handle.
    fn started(threads: &SourceThreads) -> (i32, Sender<()>, JoinHandle<()>) {
        let (tell, told) = channel();
        let (end, ended) = channel();
        let thread = threads.spawn("test", move || {
            tell.send(number_of_this_thread().unwrap()).unwrap();
            let _ = ended.recv();
        });
        (told.recv().unwrap(), end, thread.unwrap())
    }

    #[test]
    fn threads_of_before_and_after_belong_until_they_end() {
        let (threads, group) = (SourceThreads::default(), Group::default());
        let (before, end_before, handle_before) = started(&threads);
        assert!(group.members().is_empty());
        let belonging = threads.belong_to(Arc::new(group.clone()));
        let (after, end_after, handle_after) = started(&threads);
        let mut both = [before, after];
        both.sort_unstable();
        assert_eq!(group.members(), both);
        drop(end_before);
        handle_before.join().unwrap();
        assert_eq!(group.members(), [after]);
        drop(belonging);
        assert!(group.members().is_empty());
        // One that is started now belongs to nothing.
        let (_, end_last, handle_last) = started(&threads);
        assert!(group.members().is_empty());
        drop((end_after, end_last));
        handle_after.join().unwrap();
        handle_last.join().unwrap();
    }

    #[test]
    fn a_thread_that_panics_belongs_to_nothing() {
        let (threads, group) = (SourceThreads::default(), Group::default());
        let belonging = threads.belong_to(Arc::new(group.clone()));
        let thread = threads.spawn("test", || panic!("on purpose")).unwrap();
        assert!(thread.join().is_err());
        assert!(group.members().is_empty());
        drop(belonging);
    }

    #[test]
    fn threads_go_from_one_group_into_another() {
        let (threads, groups) = (SourceThreads::default(), [Group::default(), Group::default()]);
        let (number, end, handle) = started(&threads);
        let first = threads.belong_to(Arc::new(groups[0].clone()));
        let second = threads.belong_to(Arc::new(groups[1].clone()));
        drop(first);
        assert_eq!((groups[0].members(), groups[1].members()), (vec![], vec![number]));
        drop(second);
        assert!(groups[1].members().is_empty());
        drop(end);
        handle.join().unwrap();
    }
}
