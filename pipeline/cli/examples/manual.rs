//! Writes the manual pages and the completions for shells into a folder: `cargo run -p pmdns-cli --example manual -- FOLDER`.
//! They are made from the command line's own description, for packages.

use std::error::Error;
use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_complete::Shell;
use pmdns_cli::Arguments;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: manual FOLDER")?;
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder)?;
    clap_mangen::generate_to(Arguments::command(), &folder)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Arguments::command(), "pmdns", &folder)?;
    }
    Ok(())
}
