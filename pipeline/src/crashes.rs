//! What crashes before this process have left, and what one of this process is to leave.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use pmdns_cli::write_crashes;
use pmdns_config::Config;
use pmdns_config::files::WholeFile;
use pmdns_control::crashes::CrashList;
use pmdns_insight::crashes::list;
use pmdns_nics::crash::{CrashMemory, CrashRecord, InHand, signal_name};

use crate::VERSION;
use crate::sockets::OpenSockets;
use crate::supervisor::has_keeper;

/// Packets show who asks for what.
const MODE: u32 = 0o640;

/// The crashes.
pub(crate) struct Crashes {
    list: CrashList,
    /// For one of this process; `None`: nobody would keep it.
    memory: Option<CrashMemory>,
    ports: usize,
}

impl Crashes {
    /// Takes what the process before has left. The log tells of a crash of that process, and its packets are written to the file of
    /// the configuration.
    pub(crate) fn open(config: &Config, sockets: &mut OpenSockets) -> Self {
        let read = sockets.take_crashes().map(CrashMemory::read).transpose();
        let (records, known) = read
            .unwrap_or_else(|error| {
                tracing::warn!("what crashes have left is not known: {error}");
                None
            })
            .unwrap_or_default();
        let names: Vec<String> = config.ports.iter().map(|port| port.name.clone()).collect();
        let list = list(&records, &names);
        let news = records.get(known..).unwrap_or_default();
        news.iter().for_each(log_crash);
        if let Some(path) = config.control.crashes.as_deref().filter(|_| !news.is_empty()) {
            match write(&list, path) {
                Ok(()) => {
                    tracing::warn!("what crashes have left is in {}", path.display())
                }
                Err(error) => tracing::error!("control.crashes: {}: {error}", path.display()),
            }
        }
        let memory = has_keeper().then(|| CrashMemory::new(&records)).transpose();
        let memory = memory.unwrap_or_else(|error| {
            tracing::warn!("a crash will leave no packets: {error}");
            None
        });
        Self { list, memory, ports: config.ports.len() }
    }

    /// Adds a copy of what the next process reads.
    pub(crate) fn copy(&self, copies: &mut OpenSockets) -> io::Result<()> {
        let memory = self.memory.as_ref().map(|memory| memory.descriptor().try_clone_to_owned());
        memory.transpose()?.into_iter().for_each(|memory| copies.add_crashes(memory));
        Ok(())
    }

    /// From now on a crash leaves what these cores have in hand.
    pub(crate) fn watch(&self, hands: Vec<Arc<InHand>>) {
        let watched =
            self.memory.as_ref().map(|memory| memory.watch(hands, VERSION, self.ports)).transpose();
        if let Err(error) = watched {
            tracing::warn!("a crash will leave no packets: {error}");
        }
    }

    /// For operators.
    pub(crate) fn list(&self) -> &CrashList {
        &self.list
    }
}

fn log_crash(crash: &CrashRecord) {
    let CrashRecord { signal, core, process, version, packets, .. } = crash;
    let (signal, count) = (signal_name(*signal), packets.len());
    let core = core.map(|core| format!(" on core {core}")).unwrap_or_default();
    tracing::error!(
        "process {process} (pmdns {version}) has crashed by {signal}{core}, packets in hand: {count}; see `pmdns crash`"
    );
}

/// One file has all of them, so there is never more than one.
fn write(list: &CrashList, path: &Path) -> io::Result<()> {
    let mut file = WholeFile::create(path, MODE)?;
    write_crashes(list, &mut file)?;
    file.flush()?;
    file.finish().map(drop)
}
