//! The device of a port: is it a PCI address, and which.

use std::fmt;

/// A PCI function: what `lspci -D` prints. Its text form is the only one that DPDK and sysfs both understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// Devices on a bus, and functions of a device (PCI Local Bus Specification 3.0, section 3.2.2.3).
const MAX_DEVICE: u8 = 31;
const MAX_FUNCTION: u8 = 7;

impl PciAddress {
    /// The address a device text starts with: `0000:01:00.0`, `01:00.0`, in letters of either case, with or without
    /// `,options`. `None`: it is no PCI device.
    pub fn of(device: &str) -> Option<Self> {
        let address = device.split(',').next()?.trim();
        let (rest, function) = address.rsplit_once('.')?;
        let (rest, device) = rest.rsplit_once(':')?;
        let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
        let is_hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if ![domain, bus, device, function].into_iter().all(is_hexadecimal) {
            return None;
        }
        let found = Self {
            domain: u32::from_str_radix(domain, 16).ok()?,
            bus: u8::from_str_radix(bus, 16).ok()?,
            device: u8::from_str_radix(device, 16).ok()?,
            function: u8::from_str_radix(function, 16).ok()?,
        };
        (found.device <= MAX_DEVICE && found.function <= MAX_FUNCTION).then_some(found)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

/// The text of `device` for DPDK: a PCI address in full, anything else as it stands.
pub fn device_text(device: &str) -> String {
    let Some(address) = PciAddress::of(device) else { return device.to_owned() };
    match device.split_once(',') {
        Some((_, options)) => format!("{address},{options}"),
        None => address.to_string(),
    }
}

/// The device without its options: what no two ports may share.
pub fn device_name(device: &str) -> String {
    let name = device.split(',').next().unwrap_or_default().trim();
    PciAddress::of(name).map_or_else(|| name.to_owned(), |address| address.to_string())
}

/// DPDK's drivers without hardware that serve here.
const VDEVS: [&str; 9] = [
    "net_tap",
    "net_af_xdp",
    "net_af_packet",
    "net_memif",
    "net_virtio_user",
    "net_vhost",
    "net_pcap",
    "net_null",
    "net_ring",
];

/// The driver that DPDK takes `device` for although something else is written: it compares beginnings only.
pub(crate) fn mistaken_for(device: &str) -> Option<&'static str> {
    let name = device_name(device);
    VDEVS.into_iter().find(|driver| {
        let rest = name.strip_prefix(driver);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()))
    })
}

/// The interface that `device` makes, if it is a TAP of DPDK.
pub fn interface_made(device: &str) -> Option<&str> {
    let options = device.strip_prefix("net_tap")?.split(',').skip(1);
    options.into_iter().find_map(|option| option.trim().strip_prefix("iface="))
}

/// The hardware address that the options of `device` speak of, if it is none.
pub(crate) fn wrong_mac(device: &str) -> Option<&str> {
    let mac = device.split(',').find_map(|option| option.trim().strip_prefix("mac="))?;
    let is_byte = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_mac = mac.split(':').count() == 6 && mac.split(':').all(is_byte);
    // What net_tap makes an address of its own of.
    (!is_mac && mac != "fixed").then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d12_a_slip_in_a_drivers_name_is_not_taken_for_the_driver() {
        for right in [
            "net_tap0,iface=pm0",
            "net_tap",
            "net_memif12",
            "net_ring_a",
            "01:00.0",
            "replay",
            "net_mana0",
        ] {
            assert_eq!(mistaken_for(right), None, "{right}");
        }
        assert_eq!(mistaken_for("net_tapp0"), Some("net_tap"));
        assert_eq!(mistaken_for("net_af_xdpp,iface=eth0"), Some("net_af_xdp"));
    }

    #[test]
    fn d05_a_hardware_address_that_is_none_is_found() {
        for right in ["net_tap0", "net_tap0,mac=fixed", "net_memif0,mac=02:00:00:00:00:Ff,id=1"] {
            assert_eq!(wrong_mac(right), None, "{right}");
        }
        for wrong in
            ["zz", "", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:0", "02:00:00:00:00:0g"]
        {
            assert_eq!(wrong_mac(&format!("net_tap0,mac={wrong},iface=pm0")), Some(wrong));
        }
    }

    #[test]
    fn bound_medium_pci_addresses_are_written_in_full() {
        for (written, full) in [
            ("0000:01:00.0", "0000:01:00.0"),
            ("01:00.0", "0000:01:00.0"),
            ("0000:AF:1F.7,dv_flow_en=0", "0000:af:1f.7,dv_flow_en=0"),
            ("10000:e1:00.0", "10000:e1:00.0"),
            ("1:0.0", "0000:01:00.0"),
        ] {
            assert_eq!(device_text(written), full);
            assert_eq!(device_name(written), full.split(',').next().unwrap_or(full));
        }
        for other in ["net_tap0,iface=a:b.0", "replay", "1.2", "01:20.0", "01:00.8", "+1:00.0", ""]
        {
            assert_eq!(PciAddress::of(other), None, "{other}");
            assert_eq!(device_text(other), other);
        }
    }
}
