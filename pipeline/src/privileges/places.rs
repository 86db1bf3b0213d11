//! The files that are read after start, and the folders in which files are read, written and removed.

use std::path::{Path, PathBuf};

use pmdns_config::files::folder_of;
use pmdns_config::{Config, PciAddress};

/// Facts of the kernel and of this process, which threads read from time to time.
const SYSTEM: [&str; 2] = ["/proc", "/sys"];

/// The device files of vfio.
const VFIO: &str = "/dev/vfio";

/// The files that the system's resolver reads.
const RESOLVER: [&str; 4] =
    ["/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf"];

/// Files and folders, each once. A folder includes everything below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantedPaths {
    /// Files that are read again: the configuration, the files that it names, and the snapshot.
    pub files: Vec<PathBuf>,
    /// Folders in which files are read: the configuration, and the files that it names.
    pub read: Vec<PathBuf>,
    /// Folders in which files are written: snapshots, transferred zones, and query logs.
    pub write: Vec<PathBuf>,
    /// Folders in which files are only removed: sockets, and files of DPDK.
    pub remove: Vec<PathBuf>,
    /// Folders in which drivers make sockets when a port is opened again.
    pub sockets: Vec<PathBuf>,
    /// Folders of the device files that they open then.
    pub devices: Vec<PathBuf>,
    /// Folders in which DPDK makes files of huge pages then.
    pub pages: Vec<PathBuf>,
}

impl GrantedPaths {
    /// The places of a process with `config`, which was read from `path`. `dpdk` has the folders in which DPDK made
    /// files, and those in which it makes more.
    pub fn of(config: &Config, path: &Path, (dpdk, pages): (&[PathBuf], &[PathBuf])) -> Self {
        let zones = config.zones.iter().map(|zone| &zone.file);
        let lists = config.blocklists.iter().map(|list| &list.file);
        let redirects = config.redirects.iter();
        let redirects = redirects.flat_map(|one| one.file.iter().chain(&one.except_file));
        let policies = config.rpz.iter().map(|rpz| &rpz.file);
        let secrets = config.tsig.iter().filter_map(|key| key.secret_file.as_ref());
        let certificate = config.streams.certificate.iter().chain(&config.streams.key);
        let api = config.api.certificate.iter().chain(&config.api.key);
        let tokens = config.tokens.iter().filter_map(|token| token.secret_file.as_ref());
        let named = zones
            .chain(lists)
            .chain(redirects)
            .chain(policies)
            .chain(secrets)
            .chain(certificate)
            .chain(api)
            .chain(tokens);
        let authorities = config.blocklists.iter().filter_map(|list| list.ca_file.as_ref());
        let files = named
            .chain(authorities)
            .chain(&config.cookies.secret_file)
            .chain(&config.cache.snapshot)
            .chain(&config.control.entries)
            .chain(&config.clients.file)
            .chain(&config.clients.journal);
        let mut this = Self::default();
        for file in files.map(PathBuf::as_path).chain([path]) {
            add(&mut this.files, file);
            add(&mut this.read, folder_of(file));
        }
        let fetched = config.blocklists.iter().filter(|list| list.url.is_some());
        let run_time = &config.control.lists;
        if run_time.is_some() || fetched.clone().any(|list| list.address.is_none()) {
            RESOLVER.iter().for_each(|file| add(&mut this.read, Path::new(file)));
        }
        SYSTEM.iter().for_each(|folder| add(&mut this.read, Path::new(folder)));
        let transferred = config.rpz.iter().filter(|rpz| rpz.zone.is_some()).map(|rpz| &rpz.file);
        let logs = config.query_log.json.iter().chain(&config.query_log.sqlite);
        let kept = config.cache.snapshot.iter().chain(&config.control.entries).chain(logs);
        let kept = kept.chain(&config.clients.journal);
        for file in transferred.chain(kept).chain(fetched.map(|list| &list.file)) {
            add(&mut this.write, folder_of(file));
        }
        run_time.iter().for_each(|folder| add(&mut this.write, folder));
        for socket in config.api.socket.iter().chain([&config.control.socket]) {
            add(&mut this.remove, folder_of(socket));
        }
        // Drivers remove the sockets that they made.
        let values = config.ports.iter().flat_map(|port| port.device.split(','));
        let paths =
            values.filter_map(|value| value.split_once('=')).map(|(_, path)| Path::new(path));
        let sockets = paths.filter(|path| path.is_absolute()).map(folder_of);
        for folder in sockets {
            add(&mut this.remove, folder);
            add(&mut this.sockets, folder);
        }
        let has_pci = config.ports.iter().any(|port| PciAddress::of(&port.device).is_some());
        has_pci.then(|| add(&mut this.devices, Path::new(VFIO)));
        dpdk.iter().for_each(|folder| add(&mut this.remove, folder));
        pages.iter().for_each(|folder| add(&mut this.pages, folder));
        this
    }
}

fn add(paths: &mut Vec<PathBuf>, path: &Path) {
    if !paths.iter().any(|known| known == path) {
        paths.push(path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use pmdns_engine::testing::config;

    use super::*;

    #[test]
    fn what_the_configuration_names_is_a_place() {
        let mut config = config(
            "[[blocklist]]\nfile = \"/etc/lists/ads\"\n[[blocklist]]\nfile = \"/etc/lists/games\"\n\
             [[zone]]\nfile = \"lan.zone\"\n[[rpz]]\nfile = \"/srv/own.zone\"\n\
             [[rpz]]\nzone = \"rpz\"\nprimaries = [\"192.0.2.1:53\"]\nfile = \"/var/lib/pmdns/rpz\"\n\
             [cache]\nsnapshot = \"/var/cache/pmdns/s\"\n\
             [query_log]\njson = \"/var/log/pmdns/q.json\"\nsqlite = \"/srv/q.db\"\n\
             [streams]\ncertificate = \"/etc/tls/own.pem\"\nkey = \"/etc/tls/own.key\"\n",
        );
        config.ports[0].device = "net_memif0,role=server,socket=/run/m/m.sock,id=1".to_owned();
        config.control.socket = "/run/pmdns/control.sock".into();
        config.control.lists = Some("/var/lib/lists".into());
        let dpdk = ["/run/dpdk/pmdns".into()];
        let places = GrantedPaths::of(
            &config,
            Path::new("/etc/pmdns.toml"),
            (&dpdk, &["/dev/pages".into()]),
        );
        let texts = |folders: &[PathBuf]| {
            folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            texts(&places.files),
            [
                "lan.zone",
                "/etc/lists/ads",
                "/etc/lists/games",
                "/srv/own.zone",
                "/var/lib/pmdns/rpz",
                "/etc/tls/own.pem",
                "/etc/tls/own.key",
                "/var/cache/pmdns/s",
                "/etc/pmdns.toml"
            ]
        );
        assert_eq!(
            texts(&places.read),
            [
                ".",
                "/etc/lists",
                "/srv",
                "/var/lib/pmdns",
                "/etc/tls",
                "/var/cache/pmdns",
                "/etc",
                "/etc/hosts",
                "/etc/resolv.conf",
                "/etc/nsswitch.conf",
                "/etc/gai.conf",
                "/proc",
                "/sys"
            ]
        );
        assert_eq!(
            texts(&places.write),
            ["/var/lib/pmdns", "/var/cache/pmdns", "/var/log/pmdns", "/srv", "/var/lib/lists"]
        );
        assert_eq!(texts(&places.pages), ["/dev/pages"]);
        assert_eq!(
            (texts(&places.sockets), texts(&places.devices)),
            (vec!["/run/m".to_owned()], vec![])
        );
        assert_eq!(texts(&places.remove), ["/run/pmdns", "/run/m", "/run/dpdk/pmdns"]);
        config.ports[0].device = "0000:01:00.0".to_owned();
        let places = GrantedPaths::of(&config, Path::new("/etc/pmdns.toml"), (&dpdk, &[]));
        assert_eq!(texts(&places.devices), ["/dev/vfio"]);
    }
}
