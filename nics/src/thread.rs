//! A data thread made known to the driver, for a pipeline that need not know which driver that is.

#[cfg(feature = "dpdk")]
pub use crate::dpdk::{DataThread, ThreadError};
#[cfg(not(feature = "dpdk"))]
pub use without::{DataThread, ThreadError};

/// Makes the calling thread known to the driver, until the value is dropped. Pin it to its core first.
/// Does nothing when no driver cares: without DPDK, or when DPDK is not running.
pub fn adopt_data_thread() -> Result<DataThread, ThreadError> {
    #[cfg(feature = "dpdk")]
    return crate::dpdk::adopt_thread();
    #[cfg(not(feature = "dpdk"))]
    return Ok(DataThread(std::marker::PhantomData));
}

#[cfg(not(feature = "dpdk"))]
mod without {
    use std::marker::PhantomData;

    /// A thread that the driver knows. It cannot leave its thread.
    #[derive(Debug)]
    pub struct DataThread(pub(super) PhantomData<*const ()>);

    // Nothing is undone, but the guard is one in either build.
    impl Drop for DataThread {
        fn drop(&mut self) {}
    }

    /// Without DPDK nothing can fail.
    #[derive(Debug, thiserror::Error)]
    pub enum ThreadError {}
}

#[cfg(test)]
mod tests {
    #[test]
    fn without_a_running_driver_there_is_nothing_to_do() {
        drop(super::adopt_data_thread().unwrap());
    }
}
