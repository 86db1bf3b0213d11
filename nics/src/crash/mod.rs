//! What a crash leaves: the packets that each data core had in hand, in memory that outlives the process.
//!
//! A core notes where its packets are ([`InHand`]). Nothing is copied until a signal ends the process. Then the handler of that
//! signal writes a [record](CrashRecord) of them into a memfd ([`CrashMemory`]), which is kept for the next process.

mod in_hand;
mod memory;
mod record;
mod signals;
#[cfg(all(test, not(miri)))]
mod tests;

pub use in_hand::InHand;
pub use memory::{BadCrashMemory, CrashMemory};
pub use record::{
    CrashRecord, MAX_CRASH_PACKETS, MAX_CRASHES, PACKET_BYTES, PacketInHand, signal_name,
};
