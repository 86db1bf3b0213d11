//! Registers threads of ours with the EAL. A thread without an lcore number has no cache of free frames:
//! taking and returning frames then costs two to four times as much.

use std::marker::PhantomData;
use std::sync::Arc;

use dpdk_sys::DPDK_LCORE_ANY;

use super::eal::{self, Environment};
use super::{error_text, last_error};

/// A thread that DPDK knows, until this is dropped. It cannot leave its thread.
#[derive(Debug)]
pub struct DataThread {
    /// `None` when there was nothing to do: no environment, or a thread that DPDK knew already.
    registered: Option<Arc<Environment>>,
    _stays_here: PhantomData<*const ()>,
}

/// Why DPDK did not take the thread.
#[derive(Debug, thiserror::Error)]
#[error(
    "DPDK did not take another data thread: {reason}. It takes 128 at most, and none beside secondary \
     processes. Use fewer cores, and start pmdns without other processes on its --file-prefix"
)]
pub struct ThreadError {
    reason: String,
}

/// Makes the calling thread known to DPDK. Pin it to its core first: DPDK notes the NUMA node then.
pub fn adopt_thread() -> Result<DataThread, ThreadError> {
    let Some(environment) = eal::running() else {
        return Ok(DataThread { registered: None, _stays_here: PhantomData });
    };
    // SAFETY: reads a thread-local variable.
    let known = unsafe { dpdk_sys::shim_lcore_id() } != DPDK_LCORE_ANY;
    if known {
        return Ok(DataThread { registered: None, _stays_here: PhantomData });
    }
    // SAFETY: the environment runs and the thread has no lcore number yet.
    if unsafe { dpdk_sys::rte_thread_register() } != 0 {
        return Err(ThreadError { reason: error_text(last_error()) });
    }
    Ok(DataThread { registered: Some(environment), _stays_here: PhantomData })
}

impl Drop for DataThread {
    fn drop(&mut self) {
        if self.registered.is_some() {
            // SAFETY: this thread was registered by `adopt_thread`, and the environment still runs
            // because we hold it.
            unsafe { dpdk_sys::rte_thread_unregister() };
        }
    }
}
