//! End-to-end labs: the real binary on real DPDK ports, real servers upstream, real clients.
//!
//! `scripts/test.sh` runs them. Each makes network, mount and process namespaces of its own and
//! nothing outlives it; `lab/harness.rs` says how, and which run side by side. Alone:
//! `cargo test -p pmdns --test lab -- --ignored --test-threads=1 --nocapture tap`

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

// What the labs stand on.
#[path = "lab/dig.rs"]
mod dig;
#[path = "lab/frames.rs"]
mod frames;
#[path = "lab/harness.rs"]
mod harness;
#[path = "lab/malformed.rs"]
mod malformed;
#[path = "lab/malformed_dns.rs"]
mod malformed_dns;
#[path = "lab/messages.rs"]
mod messages;
#[path = "lab/nsd.rs"]
mod nsd;
#[path = "lab/pair_client.rs"]
mod pair_client;
#[path = "lab/pcap.rs"]
mod pcap;
#[path = "lab/pmdns.rs"]
mod pmdns;
#[path = "lab/process.rs"]
mod process;
#[path = "lab/questions.rs"]
mod questions;
#[path = "lab/stats.rs"]
mod stats;
#[path = "lab/stub.rs"]
mod stub;
#[path = "lab/testpmd.rs"]
mod testpmd;
#[path = "lab/unbound.rs"]
mod unbound;
#[path = "lab/verdict.rs"]
mod verdict;

// The labs.
#[path = "lab/af_xdp.rs"]
mod af_xdp;
#[path = "lab/alerting.rs"]
mod alerting;
#[path = "lab/anycast.rs"]
mod anycast;
#[path = "lab/api.rs"]
mod api;
#[path = "lab/api_calls.rs"]
mod api_calls;
#[path = "lab/api_schema.rs"]
mod api_schema;
#[path = "lab/api_speed.rs"]
mod api_speed;
#[path = "lab/browser.rs"]
mod browser;
#[path = "lab/changed_upstreams.rs"]
mod changed_upstreams;
#[path = "lab/commands.rs"]
mod commands;
#[path = "lab/console.rs"]
mod console;
#[path = "lab/crashes.rs"]
mod crashes;
#[path = "lab/day.rs"]
mod day;
#[path = "lab/delegations.rs"]
mod delegations;
#[path = "lab/differential.rs"]
mod differential;
#[path = "lab/dns64.rs"]
mod dns64;
#[path = "lab/dnssec.rs"]
mod dnssec;
#[path = "lab/encrypted.rs"]
mod encrypted;
#[path = "lab/floods.rs"]
mod floods;
#[path = "lab/generated_imports.rs"]
mod generated_imports;
#[path = "lab/handover.rs"]
mod handover;
#[path = "lab/handover_cache.rs"]
mod handover_cache;
#[path = "lab/handover_changes.rs"]
mod handover_changes;
#[path = "lab/handover_ends.rs"]
mod handover_ends;
#[path = "lab/handover_quic.rs"]
mod handover_quic;
#[path = "lab/handover_reopened.rs"]
mod handover_reopened;
#[path = "lab/handover_streams.rs"]
mod handover_streams;
#[path = "lab/handover_tap.rs"]
mod handover_tap;
#[path = "lab/handover_transfer.rs"]
mod handover_transfer;
#[path = "lab/handover_waiting.rs"]
mod handover_waiting;
#[path = "lab/handover_xdp.rs"]
mod handover_xdp;
#[path = "lab/hitters.rs"]
mod hitters;
#[path = "lab/idle.rs"]
mod idle;
#[path = "lab/import.rs"]
mod import;
#[path = "lab/import_cases.rs"]
mod import_cases;
#[path = "lab/keeper.rs"]
mod keeper;
#[path = "lab/kept.rs"]
mod kept;
#[path = "lab/kernel.rs"]
mod kernel;
#[path = "lab/kills.rs"]
mod kills;
#[path = "lab/lifecycle.rs"]
mod lifecycle;
#[path = "lab/observe.rs"]
mod observe;
#[path = "lab/over_port.rs"]
mod over_port;
#[path = "lab/passing.rs"]
mod passing;
#[path = "lab/placements.rs"]
mod placements;
#[path = "lab/privileges.rs"]
mod privileges;
#[path = "lab/profiles.rs"]
mod profiles;
#[path = "lab/query_log.rs"]
mod query_log;
#[path = "lab/redirect.rs"]
mod redirect;
#[path = "lab/reload.rs"]
mod reload;
#[path = "lab/replay.rs"]
mod replay;
#[path = "lab/runtime_upstreams.rs"]
mod runtime_upstreams;
#[path = "lab/secure_streams.rs"]
mod secure_streams;
#[path = "lab/shared_port.rs"]
mod shared_port;
#[path = "lab/sinks.rs"]
mod sinks;
#[path = "lab/soak.rs"]
mod soak;
#[path = "lab/standby.rs"]
mod standby;
#[path = "lab/streams.rs"]
mod streams;
#[path = "lab/subnets.rs"]
mod subnets;
#[path = "lab/tap.rs"]
mod tap;
#[path = "lab/telemetry.rs"]
mod telemetry;
#[path = "lab/transfer.rs"]
mod transfer;
#[path = "lab/upstreams.rs"]
mod upstreams;
#[path = "lab/views.rs"]
mod views;
#[path = "lab/virtio.rs"]
mod virtio;
#[path = "lab/zone_files.rs"]
mod zone_files;
