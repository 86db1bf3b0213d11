//! Packet processing: wire views, the stages of the line, and the cache they share.
//!
//! A stage says in [`Stage::hint`] what it will read of a packet and in [`Stage::act`] what it does with
//! it. The loop over a batch, the order of hints and acts, and the counting are written once, in
//! [`Stage::process`]. No stage knows its core, a ring, a thread, a socket or a clock.
#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        reason = "numbers of tests are small"
    )
)]

pub mod acl;
pub mod answer;
pub mod arrival;
pub mod cache;
pub mod client_table;
pub mod cookie;
pub mod datagram;
pub mod encode;
pub mod exceptions;
pub mod fair_rate;
pub mod fixed;
pub mod lookup;
mod lpm;
pub mod miss;
pub mod neighbor;
pub mod next_hop;
pub mod packet;
pub mod parse;
pub mod policy;
pub mod ports;
pub mod query_sources;
pub mod ratelimit;
pub mod reply;
pub mod step;
pub mod testing;
pub mod vlan;
pub mod wire;
pub mod zone_limits;

pub use answer::Answer;
pub use arrival::Arrival;
pub use packet::{Batch, MAX_BATCH, Packet, Tick};
pub use pmdns_config::StageName;
pub use reply::ReplyPacket;
pub use step::{Exception, Exits, Reason, Run, Step};

/// One kind of work, done on one packet at a time.
pub trait Stage {
    /// Where on the line it stands. It is handed exactly the packets that stand there.
    const NAME: StageName;

    /// On to the next stage. The order of the line says which one that is, not the stage.
    const CONTINUE: Step = Step::after(Self::NAME);

    /// Starts loading what `act` will read. Only a hint: leaving it out changes nothing.
    #[inline(always)]
    fn hint(&self, _packet: &Packet) {}

    /// Does the work and says where the packet goes next: always further down the line.
    fn act(&mut self, packet: &mut Packet, context: &Context) -> Step;

    /// Whether it has nothing to do but to send packets on, because nothing is configured. Such a stage is not
    /// timed.
    #[inline(always)]
    fn is_idle(&self) -> bool {
        false
    }

    /// Hints at, then acts on, every packet that stands here. Override it only with a benchmark in hand.
    #[inline]
    fn process(&mut self, batch: &mut Batch, context: &Context, exits: &mut Exits) {
        let here = Step::at(Self::NAME);
        if !self.is_idle() {
            for packet in batch.iter().filter(|packet| packet.step == here) {
                self.hint(packet);
            }
        }
        let mut run = Run::new(exits);
        for packet in batch.iter_mut().filter(|packet| packet.step == here) {
            let next = self.act(packet, context);
            debug_assert!(next.is_below(Self::NAME), "steps only go down the line");
            packet.step = next;
            run.count(next);
        }
    }
}

/// The means of a stage besides the packet.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The time, read once for the whole batch.
    pub now: Tick,
    /// The same time in whole seconds since the process started, for TTLs.
    pub seconds: u32,
}
