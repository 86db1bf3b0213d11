//! Every example loads, and together they show every device and every kind of placement.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use pmdns_config::{Config, Prefix};

/// File name without `.toml`, and how the device of its port begins.
const DEVICES: [(&str, &str); 7] = [
    ("af_xdp", "net_af_xdp0,"),
    ("edge", "0000:"),
    ("memif", "net_memif0,"),
    ("pci", "0000:"),
    ("replay", "replay"),
    ("tap", "net_tap0,"),
    ("virtio-user", "net_virtio_user0,"),
];

/// Addresses that no stranger answers at: documentation (RFC 5737, RFC 3849), the lab, ourselves.
const HARMLESS: [&str; 6] = [
    "192.0.2.0/24",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "2001:db8::/32",
    "10.97.0.0/24",
    "127.0.0.0/8",
];

/// Every file of `config/examples`, loaded.
fn examples() -> BTreeMap<String, Config> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let load = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("the folder can be read").path();
        let name =
            path.file_stem().and_then(|stem| stem.to_str()).expect("a plain name").to_owned();
        let config = Config::load(&path).unwrap_or_else(|error| panic!("{error}"));
        (name, config)
    };
    std::fs::read_dir(folder).expect("the folder is there").map(load).collect()
}

fn is_in(address: IpAddr, prefix: &Prefix) -> bool {
    let text = format!("{address}/{}", prefix.length);
    match text.parse::<Prefix>() {
        Ok(whole) => whole == *prefix,
        Err(pmdns_config::PrefixError::HostBits { network, .. }) => network == *prefix,
        Err(_) => false,
    }
}

#[test]
fn every_device_has_its_example() {
    let examples = examples();
    let names: Vec<&str> = examples.keys().map(String::as_str).collect();
    assert_eq!(names, DEVICES.map(|(name, _)| name));
    for (name, start) in DEVICES {
        let device = &examples[name].ports[0].device;
        assert!(device.starts_with(start), "{name}: {device}");
    }
}

#[test]
fn every_kind_of_placement_has_its_example() {
    let examples = examples();
    let shapes: Vec<Vec<usize>> = examples
        .values()
        .map(|config| config.placements.iter().map(|placement| placement.cores.len()).collect())
        .collect();
    for (shape, kind) in [(vec![], "default"), (vec![1], "fused"), (vec![1, 1], "split")] {
        assert!(shapes.contains(&shape), "no example is {kind}: {shapes:?}");
    }
    assert!(shapes.contains(&vec![2]), "no example is sharded over two cores: {shapes:?}");
}

#[test]
fn examples_show_local_records_and_blocked_names() {
    let examples = examples();
    for config in examples.values() {
        assert!(!config.local.is_empty());
        assert!(!config.block.names.is_empty());
    }
    // A, PTR, TXT and AAAA, RFC 1035 section 3.2.2 and RFC 3596.
    for rtype in [1, 12, 16, 28] {
        let shown = examples["tap"].local.iter().any(|local| local.record.rtype == rtype);
        assert!(shown, "tap.toml has no record of type {rtype}");
    }
}

#[test]
fn edge_has_one_port_for_both_sides() {
    let edge = &examples()["edge"];
    assert_eq!(edge.ports.len(), 1);
    let asked: Vec<_> = edge.upstreams.iter().filter_map(|one| edge.upstream_port(one)).collect();
    assert!(
        asked.len() > 1 && asked.len() < edge.upstreams.len(),
        "both ways are shown: {asked:?}"
    );
    let port = &edge.ports[0];
    let is_on_link = |one: &pmdns_config::Upstream| port.is_on_link(one.address.ip().unwrap());
    assert!(edge.upstreams.iter().any(is_on_link) && !edge.upstreams.iter().all(is_on_link));
    assert!(port.gateways.len() > 2, "a gateway has another one to stand in for it");
    assert_eq!(edge.warnings(), Vec::<String>::new());
}

#[test]
fn examples_name_nobody_s_address() {
    let harmless = HARMLESS.map(|text| text.parse::<Prefix>().unwrap());
    for (name, config) in examples() {
        let ours = config.ports.iter().flat_map(|port| &port.addresses).map(|ours| ours.address);
        let theirs = config.upstreams.iter().filter_map(|upstream| upstream.address.ip());
        let sources = config.upstreams.iter().filter_map(|upstream| upstream.source);
        let asked_from =
            config.ports.iter().flat_map(|port| port.query_sources.iter().chain(&port.gateways));
        for address in ours.chain(theirs).chain(sources).chain(asked_from.copied()) {
            let known = harmless.iter().any(|prefix| is_in(address, prefix));
            assert!(known, "{name}: {address} may be somebody's");
        }
    }
}
