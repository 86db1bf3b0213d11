//! Queries down the stages, and the answers read back by a library that is not ours.

mod about_us;
mod any_client;
mod cookies;
mod denials;
mod edge;
mod edns;
mod flags;
mod hits;
mod hostile;
mod line;
mod subnets;
mod types;
