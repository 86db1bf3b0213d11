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

/// What DPDK is to be given for `device`: a PCI address in full, anything else as it stands.
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

#[cfg(test)]
mod tests {
    use super::*;

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
