//! Single frames beside the bursts: answers about addresses.

use pmdns_nics::{Burst, FramePool, TxQueue};

/// Sends one frame if there is a buffer and room for it. If not, the asker will ask again.
pub fn send_frame(pool: &FramePool, tx: &mut dyn TxQueue, bytes: &[u8]) {
    if let Some(mut frame) = pool.take()
        && frame.resize(bytes.len()).is_ok()
    {
        frame.bytes_mut().copy_from_slice(bytes);
        let mut burst: Burst = std::iter::once(frame).collect();
        tx.transmit(&mut burst);
    }
}
