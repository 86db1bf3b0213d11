//! Isolated mode: a port that the kernel has as well gets the frames that rules take, and no others (`rte_flow`).
//!
//! A rule takes UDP to the DNS port of one address. ARP, neighbour discovery, ping, TCP and all else is the kernel's, which
//! has our addresses too. The queues stand in the rule, because isolated mode has no redirection table (RETA).

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::net::IpAddr;

use dpdk_sys::{
    DPDK_RSS_IPV4, DPDK_RSS_IPV6, DPDK_RSS_UDP, SHIM_FLOW_QUEUES, rte_eth_dev_info, shim_flow,
};

use pmdns_config::limits::MAX_WORKERS;
use pmdns_config::{PciAddress, PortSettings, Vlan};

use super::{error_text, rss};
use crate::{PortPlan, Rss};

/// Refused rules that are named; the rest is counted.
const NAMED: usize = 4;
/// Bytes of a driver's reason.
const REASON: usize = 128;

const _: () = assert!(MAX_WORKERS == SHIM_FLOW_QUEUES as usize);

/// Whether the port is to be isolated. AF_XDP has a program of its own for that.
pub(super) fn is_asked_for(port: &PortSettings) -> bool {
    port.share_with_kernel && PciAddress::of(&port.device).is_some()
}

/// Which frames are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    vlan: Vlan,
    address: IpAddr,
    udp_port: u16,
}

/// The rules of a port: one for each address in each VLAN.
fn rules(port: &PortSettings) -> Vec<Rule> {
    let udp_port = port.dns_port;
    let of_vlan = |vlan: &Vlan| {
        let vlan = *vlan;
        port.addresses.iter().map(move |ours| Rule { vlan, address: ours.address, udp_port })
    };
    port.vlans.iter().flat_map(of_vlan).collect()
}

impl Rule {
    /// The rule as the shim takes it, which spreads frames over `queues` by some of the functions `offered`.
    fn flow(self, queues: u16, rss: Rss, offered: u64) -> shim_flow {
        let (mut address, mut vlans, mut tags) = ([0; 16], [0; 2], 0);
        let family = match self.address {
            IpAddr::V4(v4) => {
                address[..4].copy_from_slice(&v4.octets());
                DPDK_RSS_IPV4
            }
            IpAddr::V6(v6) => {
                address = v6.octets();
                DPDK_RSS_IPV6
            }
        };
        for (place, id) in vlans.iter_mut().zip(self.vlan.ids()) {
            *place = id;
            tags += 1;
        }
        shim_flow {
            address,
            udp_port: self.udp_port.to_be(),
            vlans,
            tags,
            is_ipv6: self.address.is_ipv6(),
            queues,
            // UDP of the other family does no harm: the rule takes one.
            rss: rss::functions(rss, offered) & (family | DPDK_RSS_UDP),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UDP to {} port {}, VLAN {}", self.address, self.udp_port, self.vlan)
    }
}

/// Puts the port `id`, which has not started, into isolated mode.
pub(super) fn isolate(id: u16) -> Result<(), c_int> {
    // SAFETY: takes any port.
    let code = unsafe { dpdk_sys::shim_flow_isolate(id) };
    if code == 0 { Ok(()) } else { Err(code) }
}

/// The rules that the device took.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) choice: String,
    pub(super) warnings: Vec<String>,
}

/// Gives the port `id`, which runs, its rules. An error: it takes none of them.
pub(super) fn add_rules(
    id: u16,
    port: &PortSettings,
    plan: &PortPlan,
    info: &rte_eth_dev_info,
) -> Result<Taken, c_int> {
    take(&rules(port), |rule| {
        add(id, &rule.flow(plan.rx_queues, plan.rss, info.flow_type_rss_offloads))
    })
}

/// Gives rules by `add`, and tells what came of them.
fn take(
    rules: &[Rule],
    mut add: impl FnMut(&Rule) -> Result<(), (c_int, String)>,
) -> Result<Taken, c_int> {
    let (mut refused, mut warnings, mut last) = (0, Vec::new(), 0);
    for rule in rules {
        let Err((code, reason)) = add(rule) else { continue };
        (refused, last) = (refused + 1, code);
        if refused <= NAMED {
            let why = error_text(code);
            warnings.push(format!(
                "the device refuses a rule, so the kernel gets {rule}: {why} ({reason})"
            ));
        }
    }
    if refused == rules.len() {
        return Err(last);
    }
    if refused > NAMED {
        warnings.push(format!("the device refuses {refused} rules in all"));
    }
    let taken = rules.len() - refused;
    let choice = format!("gets UDP to its addresses by {taken} rules, and the kernel the rest");
    Ok(Taken { choice, warnings })
}

fn add(id: u16, flow: &shim_flow) -> Result<(), (c_int, String)> {
    let mut reason: [c_char; REASON] = [0; REASON];
    // SAFETY: the rule is read while the call lasts, and `reason` has as many bytes as said.
    let code = unsafe { dpdk_sys::shim_flow_add(id, flow, reason.as_mut_ptr(), reason.len()) };
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the shim ends the text with a zero byte, or leaves all of it zero.
    let text = unsafe { CStr::from_ptr(reason.as_ptr()) };
    Err((code, text.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> PortSettings {
        let mut port = PortSettings::new("edge", "0000:01:00.0");
        port.addresses =
            ["192.0.2.53/24", "2001:db8::53/64"].map(|text| text.parse().unwrap()).into();
        port
    }

    #[test]
    fn each_address_in_each_vlan_has_a_rule() {
        let vlans = vec![Vlan::Untagged, Vlan::Tagged(7), Vlan::Double(7, 8)];
        let rules = rules(&PortSettings { vlans, dns_port: 5353, ..port() });
        let named: Vec<String> = rules.iter().map(Rule::to_string).collect();
        assert_eq!(named.len(), 6);
        assert_eq!(named[0], "UDP to 192.0.2.53 port 5353, VLAN untagged");
        assert_eq!(named[5], "UDP to 2001:db8::53 port 5353, VLAN [7, 8]");
        let tags: Vec<(u8, [u16; 2])> = rules
            .iter()
            .step_by(2)
            .map(|rule| rule.flow(1, Rss::None, 0))
            .map(|flow| (flow.tags, flow.vlans))
            .collect();
        assert_eq!(tags, [(0, [0, 0]), (1, [7, 0]), (2, [7, 8])]);
    }

    #[test]
    fn a_rule_spreads_its_own_family() {
        let rules = rules(&port());
        let offered = DPDK_RSS_IPV4 | DPDK_RSS_IPV6 | DPDK_RSS_UDP;
        let (v4, v6) =
            (rules[0].flow(4, Rss::Clients, offered), rules[1].flow(4, Rss::Flows, offered));
        assert_eq!((v4.is_ipv6, v4.rss, v4.queues), (false, DPDK_RSS_IPV4, 4));
        assert_eq!((v6.is_ipv6, v6.rss), (true, DPDK_RSS_IPV6 | DPDK_RSS_UDP));
        assert_eq!(v4.address[..6], [192, 0, 2, 53, 0, 0]);
        assert_eq!(v4.udp_port.to_ne_bytes(), [0, 53]);
    }

    #[test]
    fn what_a_device_refuses_is_told_and_if_that_is_all_it_does_not_start() {
        let mut port = port();
        port.vlans = (1..=8).map(Vlan::Tagged).collect();
        let rules = rules(&port);
        let refuse = |these: fn(&Rule) -> bool| {
            take(
                &rules,
                |rule| if these(rule) { Err((-libc::ENOSPC, "full".into())) } else { Ok(()) },
            )
        };
        let taken = refuse(|rule| rule.address.is_ipv6()).unwrap();
        assert_eq!(taken.choice, "gets UDP to its addresses by 8 rules, and the kernel the rest");
        assert_eq!(taken.warnings.len(), NAMED + 1);
        assert!(
            taken.warnings[0].contains("2001:db8::53 port 53, VLAN 1: ")
                && taken.warnings[0].ends_with("(full)")
        );
        assert!(taken.warnings[NAMED].contains("refuses 8 rules"));
        assert_eq!(refuse(|_| true).unwrap_err(), -libc::ENOSPC);
        assert_eq!(refuse(|_| false).unwrap().warnings.len(), 0);
    }
}
