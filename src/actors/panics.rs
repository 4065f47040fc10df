//! For tests: makes the next handler of a kind, or the next task that an actor spawned
//! in a certain place, fail in the middle. It counts for this thread alone, and is no part
//! of the program.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::future::Future;

/// What fails next.
struct Due {
    place: String,
    /// Meetings that pass before it.
    passes: usize,
    text: String,
}

thread_local! {
    static DUE: RefCell<VecDeque<Due>> = const { RefCell::new(VecDeque::new()) };
}

/// The handler `actor:Message`, or the next task that the function `task:name` spawns, fails with
/// that text, once, after so many passes; and after all that was armed before.
pub(crate) fn arm(place: &str, passes: usize, text: &str) {
    DUE.with_borrow_mut(|due| due.push_back(Due { place: place.to_owned(), passes, text: text.to_owned() }));
}

/// Takes back what has not failed yet; whether there was any.
pub(crate) fn disarm() -> bool {
    !DUE.take().is_empty()
}

/// Whether that handler is the next to fail.
pub(crate) fn is_due(place: &str) -> bool {
    DUE.with_borrow(|due| due.front().is_some_and(|armed| armed.place == place))
}

fn pass(is_place: impl FnOnce(&str) -> bool) {
    let text = DUE.with_borrow_mut(|due| match due.front_mut() {
        Some(armed) if !is_place(&armed.place) => None,
        Some(armed) if armed.passes > 0 => {
            armed.passes -= 1;
            None
        }
        _ => due.pop_front().map(|due| due.text),
    });
    if let Some(text) = text {
        // As a panic, but for the report on stderr.
        std::panic::resume_unwind(Box::new(text));
    }
}

/// The head of a handler.
pub(crate) fn meet(actor: &str, message: &impl Debug) {
    if DUE.with_borrow(VecDeque::is_empty) {
        return;
    }
    let text = format!("{message:?}");
    let name = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    pass(|place| place.split_once(':') == Some((actor, name)));
}

/// A task that may fail each time it runs. Its place is the function that `L`, a closure in it, is from.
pub(crate) fn in_task<L, T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let mut work = Box::pin(work);
    std::future::poll_fn(move |context| {
        let from = std::any::type_name::<L>();
        pass(|place| {
            let wanted = place.strip_prefix("task:");
            wanted.is_some_and(|name| from.split("::").any(|part| part == name))
        });
        work.as_mut().poll(context)
    })
}
