//! A data core's rings to the threads of the TAPs. They carry exceptions, by port and class.

use std::sync::Arc;

use pmdns_nics::{Frame, FramePool};
use pmdns_stages::exceptions::{ClassLimit, ExceptionClass, KnownRouters, is_redirect};
use pmdns_stages::ports::Ports;
use pmdns_stages::{Arrival, Exception, Packet, Step};

use crate::counters::Tally;
use crate::ring::RingSender;

/// The way of one core to the TAP of one port: for each class a ring, and how much passes.
pub(crate) type PortOutlet = Vec<(RingSender<Packet>, ClassLimit)>;

/// The ways of one core to all TAPs.
pub(crate) struct KernelOutlets {
    /// By port; `None`: the port has no TAP.
    by_port: Vec<Option<PortOutlet>>,
    ports: Ports,
    /// The routers that the kernel has sessions with.
    peers: Arc<KnownRouters>,
    pool: FramePool,
}

impl KernelOutlets {
    /// No ways yet. Copies are made in frames of `pool`.
    pub(crate) fn new(ports: Ports, peers: Arc<KnownRouters>, pool: FramePool) -> Self {
        Self { by_port: ports.iter().map(|_| None).collect(), ports, peers, pool }
    }

    /// Adds the way to the TAP of this port.
    pub(crate) fn add(&mut self, port: usize, outlet: PortOutlet) {
        self.by_port[port] = Some(outlet);
    }

    /// Drops the rings, so that the threads see their end.
    pub(crate) fn clear(&mut self) {
        self.by_port.clear();
    }

    /// Passes an exception to the TAP of its port. What does not pass is given back, to be released with others.
    pub(crate) fn pass(&mut self, packet: Packet, tally: &mut Tally) -> Option<Frame> {
        let port = usize::from(packet.frame.port());
        let Some(Some(outlet)) = self.by_port.get_mut(port) else { return Some(packet.frame) };
        // Only a port that receives for every MAC address has frames for others. They are none of the kernel's business.
        let bytes = packet.frame.bytes();
        let is_for_us = bytes.starts_with(&self.ports[port].mac) || bytes[0] & 1 != 0;
        if !is_for_us {
            return Some(packet.frame);
        }
        if is_redirect(&packet) {
            tally.kernel_redirects += 1;
            return Some(packet.frame);
        }
        let class = ExceptionClass::of(&packet, &self.peers);
        let [passed, limited, full] = counters(tally, class);
        let (ring, limit) = &mut outlet[class as usize];
        if !limit.passes(&packet) {
            *limited += 1;
            return Some(packet.frame);
        }
        match ring.push(packet) {
            Ok(()) => {
                *passed += 1;
                None
            }
            Err(packet) => {
                *full += 1;
                Some(packet.frame)
            }
        }
    }

    /// Passes a copy of what a next hop says of itself: the kernel may have asked as well.
    pub(crate) fn pass_copy(&mut self, packet: &Packet, tally: &mut Tally) {
        let port = usize::from(packet.frame.port());
        let has_tap = self.by_port.get(port).is_some_and(Option::is_some);
        if !has_tap || Arrival::of_key(packet.key) != Some(Arrival::Neighbor) {
            return;
        }
        let Some(mut frame) = self.pool.take() else { return };
        let bytes = packet.frame.bytes();
        if frame.resize(bytes.len()).is_err() {
            return;
        }
        frame.bytes_mut().copy_from_slice(bytes);
        frame.set_port(packet.frame.port());
        let copy = Packet {
            layout: packet.layout,
            // ICMPv6 would be read for its type; here it is known.
            step: Step::exception(Exception::Arp),
            ..Packet::arrived(frame, packet.received)
        };
        (tally.made, tally.exceptions) = (tally.made + 1, tally.exceptions + 1);
        drop(self.pass(copy, tally));
    }
}

/// The counters of what passes, of what is over a limit, and of what finds the ring full.
fn counters(all: &mut Tally, class: ExceptionClass) -> [&mut u64; 3] {
    match class {
        ExceptionClass::Link => {
            [&mut all.kernel_link, &mut all.kernel_link_limited, &mut all.kernel_link_full]
        }
        ExceptionClass::Control => {
            [&mut all.kernel_control, &mut all.kernel_control_limited, &mut all.kernel_control_full]
        }
        ExceptionClass::Streams => {
            [&mut all.kernel_streams, &mut all.kernel_streams_limited, &mut all.kernel_streams_full]
        }
        ExceptionClass::Rest => {
            [&mut all.kernel_rest, &mut all.kernel_rest_limited, &mut all.kernel_rest_full]
        }
    }
}
