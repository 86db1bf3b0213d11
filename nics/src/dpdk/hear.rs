//! The frames that a port receives besides those to its own MAC address.

use std::collections::BTreeSet;
use std::ffi::c_int;

use dpdk_sys::rte_ether_addr;

use pmdns_config::narrow::to_u32;
use pmdns_config::{PortSettings, Vlan};

use super::error_text;
use crate::groups;

/// The result, for the plan, and warnings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) choice: String,
    pub(super) warnings: Vec<String>,
}

/// Has the port `id`, which runs, hear its multicast groups, and every MAC address if that is asked for.
pub(super) fn choose(id: u16, port: &PortSettings, driver: &str) -> Heard {
    let groups: Vec<[u8; 6]> = groups::of(port).into_iter().map(groups::mac).collect();
    // The kernel behind a TAP may join any group.
    let filtered = port.tap.is_none().then(|| set_groups(id, &groups));
    if filtered != Some(0) {
        // SAFETY: takes any port. Many drivers deliver multicast anyway and cannot be asked, which is no failure.
        let _best_effort = unsafe { dpdk_sys::rte_eth_allmulticast_enable(id) };
    }
    let mut heard = told(filtered, groups.len(), driver);
    let code = if port.promiscuous {
        // SAFETY: takes any port.
        unsafe { dpdk_sys::rte_eth_promiscuous_enable(id) }
    } else {
        // SAFETY: takes any port.
        let _best_effort = unsafe { dpdk_sys::rte_eth_promiscuous_disable(id) };
        0
    };
    if code != 0 {
        let why = error_text(code);
        heard.warnings.push(format!("{driver} cannot be made promiscuous: {why}"));
    }
    heard
}

fn set_groups(id: u16, groups: &[[u8; 6]]) -> c_int {
    let mut list: Vec<rte_ether_addr> =
        groups.iter().map(|mac| rte_ether_addr { addr_bytes: *mac }).collect();
    // SAFETY: the list has as many entries as said, and the driver copies them.
    unsafe { dpdk_sys::rte_eth_dev_set_mc_addr_list(id, list.as_mut_ptr(), to_u32(list.len())) }
}

/// In words what came of `count` groups; `filtered` is what the driver said to its list, if it was asked.
fn told(filtered: Option<c_int>, count: usize, driver: &str) -> Heard {
    let all = |why: &str| format!("hears every multicast group: {why}");
    match filtered {
        None => Heard { choice: all("the kernel behind its TAP may join any"), ..Heard::default() },
        Some(0) => Heard { choice: format!("hears {count} multicast groups"), ..Heard::default() },
        Some(code) if code == -libc::ENOTSUP => {
            Heard { choice: all("the driver has no list of groups"), ..Heard::default() }
        }
        Some(code) => {
            let warning = format!(
                "{driver} does not take a list of {count} multicast groups ({}), so it was asked for every group",
                error_text(code)
            );
            Heard { choice: all("the driver refused the list"), warnings: vec![warning] }
        }
    }
}

/// Whether a port of this driver needs a list of VLANs to accept. Virtio and virtual functions filter tags by default. So do
/// physical ports with the offload. mlx5 filters only after it was given a VLAN, and then refuses untagged frames too.
pub(super) fn filters_vlans(driver: &str, vlans: &[Vlan]) -> bool {
    vlans.iter().any(|vlan| *vlan != Vlan::Untagged) && !driver.starts_with("mlx5")
}

/// The ids that such a port must let in: hardware looks at the outermost tag. Zero is that of priority tags.
pub(super) fn vlan_ids(vlans: &[Vlan]) -> BTreeSet<u16> {
    vlans.iter().map(|vlan| vlan.ids().next().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_refuses_the_groups_is_warned_of_and_one_without_a_list_is_not() {
        let choice = |filtered| told(filtered, 3, "net_x");
        assert_eq!(choice(Some(0)).choice, "hears 3 multicast groups");
        for (filtered, warnings) in [(None, 0), (Some(-libc::ENOTSUP), 0), (Some(-libc::ENOSPC), 1)]
        {
            let heard = choice(filtered);
            assert!(heard.choice.starts_with("hears every multicast group: "), "{heard:?}");
            assert_eq!(heard.warnings.len(), warnings, "{heard:?}");
        }
    }

    #[test]
    fn bound_b3_a_port_lets_in_the_outer_ids_of_its_vlans() {
        use Vlan::{Double, Tagged, Untagged};
        let vlans = [Tagged(100), Double(7, 100), Double(7, 8), Untagged];
        assert_eq!(vlan_ids(&vlans).into_iter().collect::<Vec<_>>(), [0, 7, 100]);
        assert!(filters_vlans("net_virtio", &vlans));
        assert!(!filters_vlans("net_virtio", &[Untagged]), "others arrive, and are counted");
        assert!(!filters_vlans("mlx5_pci", &vlans));
    }
}
