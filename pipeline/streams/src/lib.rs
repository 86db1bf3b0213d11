//! Clients over streams: TCP, TLS, HTTPS and QUIC. Their queries take the same line as frames from a wire.
//!
//! ```text
//!  connections ─► QuerySender ─► rings ─► RX queue of each data core ─► line
//!      ▲                                                                 │
//!      └── Pending ◄─ Collector ◄─ rings ◄─ TX queues ◄──────────────────┘
//! ```
//!
//! Threads of their own serve the connections ([`server`]). A data core sees one more port, whose queues are rings ([`driver`]).
//! This crate knows sockets and the framing of messages. It does not know what the line does.
//! Without the feature `tls` there are clients over TCP only.
#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![forbid(unsafe_code)]
#![cfg_attr(
    any(test, fuzzing),
    allow(
        clippy::cast_possible_truncation,
        clippy::unwrap_used,
        reason = "numbers of tests are small, and a test may end"
    )
)]

pub mod access;
mod answer;
mod budget;
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "only the fuzzer uses it then"))]
mod client;
pub mod counters;
#[cfg(feature = "tls")]
mod doq;
pub mod driver;
#[cfg(feature = "tls")]
pub mod encrypted;
#[cfg(not(feature = "tls"))]
#[path = "no_encryption.rs"]
pub mod encrypted;
mod entrances;
mod framing;
#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "only the fuzzer uses it then"))]
mod https;
pub mod listeners;
mod load;
mod lock;
pub mod places;
mod proxy;
pub mod query_sender;
#[cfg(feature = "tls")]
mod quic_socket;
pub mod quic_steering;
mod reader;
mod refusal;
pub mod server;
pub mod service;
#[cfg(any(test, fuzzing))]
#[cfg_attr(
    any(fuzzing, not(feature = "tls")),
    allow(dead_code, unused_imports, reason = "parts of the tests alone, most of them over TLS")
)]
mod stub;
mod table;
mod tcp;
#[cfg(any(test, fuzzing))]
#[cfg_attr(fuzzing, allow(dead_code, reason = "parts of the tests alone"))]
mod testing;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "tls")]
mod written;

pub use https::is_dns_message;
pub use query_sender::{AnswerMessage, Pending, QuerySender, Transport};
