//! Encrypted upstreams that are known by their names only: these are looked up at other resolvers.

use std::sync::atomic::{AtomicUsize, Ordering};

use pmdns_config::Upstream;
use pmdns_stages::testing::query;

use crate::encrypted::{ask_many, asking};
use crate::server::{Kind, NAME, Server};
use crate::stub::Stub;

/// A resolver that knows one address of every name: each question leads to the next of these.
fn bootstrap(addresses: &'static [[u8; 4]]) -> Stub {
    let asked_before = AtomicUsize::new(0);
    Stub::replying(move |asked| {
        let qtype = asked.message[asked.message.len() - 3];
        let mut reply = asked.rcode(0);
        if qtype == 1 {
            let number = asked_before.fetch_add(1, Ordering::Relaxed).min(addresses.len() - 1);
            reply[7] = 1;
            reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
            reply.extend(addresses[number]);
        }
        reply
    })
}

/// The server as an upstream that is known by its name only.
fn by_name(server: &Server, kind: Kind) -> Upstream {
    let text = format!("{}://{NAME}:{}", kind.scheme(), server.address.port());
    Upstream { address: text.parse().unwrap(), name: None, ..server.known() }
}

#[test]
fn names_are_looked_up_at_the_bootstrap_resolvers() {
    for kind in Kind::ALL {
        let server = Server::good(kind);
        let (dead, alive) = (Stub::silent(), bootstrap(&[[127, 0, 0, 1]]));
        let mut setup = asking([by_name(&server, kind)]);
        setup.settings.bootstrap = vec![dead.address, alive.address];
        let mut rig = setup.start();
        ask_many(&mut rig, 10);
        assert_eq!(server.connections(), 1, "{kind:?}");
        assert_eq!((dead.asked().len(), alive.asked().len()), (2, 2), "A and AAAA, once");
        rig.finish();
    }
}

#[test]
fn a_name_that_leads_nowhere_is_looked_up_again() {
    let server = Server::good(Kind::Tls);
    let stub = bootstrap(&[[127, 0, 0, 2], [127, 0, 0, 1]]);
    let mut setup = asking([by_name(&server, Kind::Tls)]);
    setup.settings.bootstrap = vec![stub.address];
    let mut rig = setup.start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!(stub.asked().len(), 4);
    assert_eq!(rig.upstream(0).connect_failures, 1);
    rig.finish();
}
