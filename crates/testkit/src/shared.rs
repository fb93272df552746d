//! Servers that the tests of a program share: made by the first that wants one, ended with the
//! program.

use hapax_store::sync::lock;
use std::any::Any;
use std::sync::{Arc, Mutex, Once, Weak};

/// Something that is made once, if it can be, and dropped when the program exits: a server, for
/// one. (A value in a `static` would never be dropped, and its directory would stay.)
pub struct Shared<T>(Mutex<Option<Weak<T>>>);

/// All that is to be dropped then.
static HELD: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

impl<T: Send + Sync + 'static> Shared<T> {
    #[expect(clippy::new_without_default, reason = "it is for a `static`")]
    pub const fn new() -> Self {
        Shared(Mutex::new(None))
    }

    /// Returns it, once it is made. Others wait meanwhile; if it cannot be made, each tries.
    pub fn get(&self, make: impl FnOnce() -> Option<T>) -> Option<Arc<T>> {
        let mut made = lock(&self.0);
        if let Some(there) = made.as_ref().and_then(Weak::upgrade) {
            return Some(there);
        }
        let new = Arc::new(make()?);
        *made = Some(Arc::downgrade(&new));
        hold(Box::new(Arc::clone(&new)));
        Some(new)
    }
}

/// Holds something until the program exits, also by failed tests.
fn hold(what: Box<dyn Any + Send>) {
    static ASKED: Once = Once::new();
    extern "C" fn drop_all() {
        let all = std::mem::take(&mut *lock(&HELD));
        drop(all);
    }
    // SAFETY: the function may be called at any time, from any thread.
    ASKED.call_once(|| assert_eq!(unsafe { libc::atexit(drop_all) }, 0, "it is called at the end"));
    lock(&HELD).push(what);
}
