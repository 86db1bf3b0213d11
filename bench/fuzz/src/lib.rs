//! What the fuzz targets share: reading the fuzzer's bytes, a whole line to send frames through, and what must be true of
//! every answer.
//!
//! A target turns bytes into what somebody outside could send or write, hands it to pmdns, and checks what comes
//! out. Whatever panics, hangs, or breaks a check is a finding. `scripts/fuzz.sh` runs all of them;
//! `seeds/TARGET/` is where each starts from, and where the input of a finding stays when it has been dealt with.

pub mod asking;
pub mod check;
pub mod exchange;
pub mod forwarder;
pub mod input;
pub mod judge;
