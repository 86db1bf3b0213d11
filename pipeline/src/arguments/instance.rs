//! Which configuration, and which running instance.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pmdns_config::Control;

/// The config file that is read without `--config`.
const DEFAULT_CONFIG: &str = "/etc/pmdns/pmdns.toml";

/// The config file to read: the one that is named, or the default one if it is there.
pub fn config_file(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| Some(PathBuf::from(DEFAULT_CONFIG)).filter(|default| default.exists()))
}

/// Which configuration.
#[derive(Args)]
pub struct ConfigFile {
    /// The config file.
    #[arg(short, long, default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}

/// Which running instance.
#[derive(Args)]
pub struct Instance {
    /// The control socket of the instance: `control.socket` of its config.
    #[arg(long, default_value_os_t = Control::default().socket)]
    pub socket: PathBuf,
}

/// The server whose configuration is imported.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum ImportFormat {
    /// What the file's text says.
    #[default]
    Auto,
    /// unbound.conf.
    Unbound,
    /// dnsdist.conf, in Lua.
    Dnsdist,
    /// named.conf of BIND.
    Named,
}
