//! Locks that are never poisoned for long.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value, also if a thread panicked while it had the lock: every change of it is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
