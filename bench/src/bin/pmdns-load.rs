//! The command line of the load generator.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use pmdns_bench::load::options::Arguments;
use pmdns_bench::load::program;

fn main() -> ExitCode {
    match program::execute(Arguments::parse()) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(failure) => {
            // Nobody is left to tell if this fails.
            let _ = writeln!(io::stderr(), "pmdns-load: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
