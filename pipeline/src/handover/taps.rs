//! Ports that are TAPs: for a moment both processes have queues of each.

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;

use pmdns_config::{Config, PortSettings, Vlan, interface_made};
use pmdns_nics::dpdk::TapSteering;

use super::devices::{has_peer, is_exclusive};

/// The TAPs of a process.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    taps: Vec<TapSteering>,
    /// Whether the kernel may spread what comes, once the other process has no queues.
    is_ending: Cell<bool>,
}

/// The TAPs before this process has opened its own queues, with the queues that each has.
pub(crate) struct TapsBefore(Vec<(String, u32)>);

impl TapsBefore {
    /// Counts queues. Where no process is `beside` this one, none is of another: the kernel always shows one.
    pub(crate) fn of(config: &Config, is_beside: bool) -> Self {
        let interfaces = config.ports.iter().filter_map(|port| interface_made(&port.device));
        let queues = |name| if is_beside { TapSteering::queues(name) } else { 0 };
        Self(interfaces.map(|name| (name.to_owned(), queues(name))).collect())
    }

    /// The same ones, once the ports have started. Rights are needed, so this comes before they go.
    pub(crate) fn opened(self) -> Result<Taps, String> {
        let open = |(name, before): (String, u32)| TapSteering::new(&name, before);
        let told =
            |why| format!("what comes to a TAP, for which this process has no right ({why}),");
        let taps = self.0.into_iter().map(open).collect::<io::Result<_>>().map_err(told)?;
        Ok(Taps { taps, is_ending: Cell::new(false) })
    }
}

impl Taps {
    /// This process has everything, though the next one opens queues.
    pub(super) fn hold(&self) -> io::Result<()> {
        self.is_ending.set(false);
        self.taps.iter().try_for_each(TapSteering::to_first)
    }

    /// This process has everything, though the one before has queues.
    pub(super) fn take(&self) -> io::Result<()> {
        self.taps.iter().try_for_each(TapSteering::to_later)
    }

    /// The next process has everything, though the queues of this one close.
    pub(super) fn leave(&self) -> io::Result<()> {
        self.taps.iter().try_for_each(TapSteering::to_next)
    }

    /// The process before has everything again.
    pub(super) fn give_back(&self) -> io::Result<()> {
        self.taps.iter().try_for_each(TapSteering::to_earlier)
    }

    /// What each interface is there by, though every queue of a process closes.
    pub(super) fn holders(&self) -> Vec<BorrowedFd<'_>> {
        self.taps.iter().map(TapSteering::holder).collect()
    }

    /// There will be one process soon. Until the kernel has closed the queues of the other one, nothing may be led to these.
    pub(super) fn end(&self) {
        self.is_ending.set(true);
    }

    /// The kernel spreads what comes over all queues, if these are all of one process.
    pub(super) fn turn(&self) -> io::Result<()> {
        if self.is_ending.get() && self.taps.iter().all(TapSteering::is_alone) {
            self.is_ending.set(false);
            self.taps.iter().try_for_each(TapSteering::to_all)?;
        }
        Ok(())
    }
}

/// Whether a port is over AF_XDP.
pub(super) fn is_over_af_xdp(port: &PortSettings) -> bool {
    port.device.starts_with("net_af_xdp")
}

fn is_pair(vlan: &Vlan) -> bool {
    matches!(vlan, Vlan::Double(..))
}

/// Why a port cannot pass.
pub(super) fn obstacle(port: &PortSettings) -> Option<String> {
    let options = || port.device.split(',').map(str::trim);
    let has_address = options().any(|option| option.starts_with("mac=") && option != "mac=fixed");
    let name = &port.name;
    match interface_made(&port.device) {
        // The driver of a packet socket puts the outer tag back as a customer's, which it may not have been.
        None if is_over_af_xdp(port) && port.vlans.iter().any(is_pair) => {
            Some(format!("port `{name}`: a pair of `vlans`"))
        }
        // The kernel would get each frame twice. The copy by the port's interface finds no socket that is bound to the `tap`,
        // as BGP's are, and it would reset such a connection.
        None if is_over_af_xdp(port) && port.tap.is_some() => {
            Some(format!("port `{name}`: a `tap` of a port over AF_XDP"))
        }
        // The driver would load it a second time.
        None if is_over_af_xdp(port) && options().any(|option| option.starts_with("xdp_prog=")) => {
            Some(format!("port `{name}`: `xdp_prog` in its device"))
        }
        None if is_over_af_xdp(port) => None,
        None if !is_exclusive(port) => Some(format!("port `{name}`: its device")),
        interface if !has_address && (interface.is_some() || has_peer(port)) => {
            Some(format!("port `{name}`: a hardware address that is not in `device` (mac=)"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_pass_is_named() {
        let xdp = PortSettings {
            vlans: vec![Vlan::Untagged, Vlan::Tagged(7)],
            ..PortSettings::new("p", "net_af_xdp0,iface=eth1")
        };
        assert_eq!(obstacle(&xdp), None);
        let own = PortSettings::new("p", "net_af_xdp0,iface=eth1,xdp_prog=own.o");
        assert!(obstacle(&own).is_some_and(|why| why.contains("`xdp_prog`")));
        let xdp = PortSettings { tap: Some("pm-edge".to_owned()), ..xdp };
        assert!(obstacle(&xdp).is_some_and(|why| why.contains("a `tap` of a port over AF_XDP")));
        let tap = PortSettings { device: "net_tap0,iface=pm0,mac=02:00:00:00:00:aa".into(), ..xdp };
        assert_eq!(obstacle(&tap), None);
        let xdp = PortSettings::new("p", "net_af_xdp0,iface=eth1");
        let pair = PortSettings { vlans: vec![Vlan::Double(7, 8)], ..xdp.clone() };
        let shared = PortSettings { share_with_kernel: true, ..xdp };
        assert_eq!(obstacle(&shared), None);
        for device in ["net_memif0,mac=02:00:00:00:00:aa", "0000:01:00.0"] {
            assert_eq!(obstacle(&PortSettings::new("p", device)), None, "{device}");
        }
        for (port, what) in [
            (PortSettings::new("p", "net_memif0"), "a hardware address"),
            (PortSettings::new("p", "net_vhost1,iface=/run/vhost"), "its device"),
            (PortSettings::new("p", "net_virtio_user0,path=/run/vhost"), "a hardware address"),
            (pair, "a pair of `vlans`"),
            (PortSettings::new("p", "net_pcap0,iface=eth1"), "its device"),
            (PortSettings::new("p", "net_tap0,iface=pm0"), "a hardware address"),
        ] {
            let told = obstacle(&port).unwrap();
            assert!(told.starts_with(&format!("port `p`: {what}")), "{told}");
        }
    }
}
