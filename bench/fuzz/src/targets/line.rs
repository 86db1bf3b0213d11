//! Fuzz target: any frame from the wire, through every stage.
//!
//! The first byte chooses the kind of the rest. It is a frame, or a frame whose checksums the port has verified, so
//! that wrong ones reach the other stages. Or it is a DNS message from some client, which three more bytes describe.

use std::cell::RefCell;

use crate::check;
use crate::forwarder::Forwarder;
use crate::input::Input;
use hickory_proto::op::Message;
use pmdns_nics::Verified;
use pmdns_stages::Answer;
use pmdns_stages::testing::{act_once, at, query};

/// Something to decide for every stage.
const POLICY: &str = r#"
    [acl]
    default = "allow"
    refuse = ["10.77.9.0/24"]
    drop = ["10.77.8.0/24"]
    [ratelimit]
    queries_per_second = 1000000
    burst = 1000000
    error_replies_per_second = 0
    [block]
    names = ["blocked.example"]
    [[local]]
    name = "router.example"
    type = "A"
    data = "192.0.2.1"
    [[local]]
    name = "alias.example"
    type = "CNAME"
    data = "router.example"
"#;

thread_local! {
    static FORWARDER: RefCell<Forwarder> = RefCell::new(start());
}

fn start() -> Forwarder {
    let mut forwarder = Forwarder::new(POLICY);
    let text = [vec![199], vec![b'x'; 199]].concat();
    let big: Vec<_> = (0..4).map(|_| (0, 16, 86_400, text.clone())).collect();
    forwarder.rig.learn(&query("a.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 7])]);
    forwarder.rig.learn(&query("big.example. TXT"), &big);
    forwarder
}

/// One input.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (frame, verified) = match input.byte() % 3 {
        0 => (input.rest().to_vec(), Verified::NOTHING),
        1 => (input.rest().to_vec(), Verified::ALL),
        _ => {
            let client = input.dress(query("a.example. A"));
            (client.frame_around(input.rest()), Verified::NOTHING)
        }
    };
    FORWARDER.with_borrow_mut(|forwarder| {
        let fate = forwarder.hand(&frame, verified);
        if let Some(sent) = fate.sent.first() {
            check::answers(&frame, sent);
            let message = check::message(sent).map(Message::from_vec);
            assert!(message.is_none_or(|read| read.is_ok()), "others can read it");
        }
        // A miss whose upstreams all fail.
        for miss in fate.misses {
            let slow_path = &mut forwarder.rig.slow_path[0];
            let failed = Answer::Rcode(pmdns_stages::wire::dns::Rcode::SERVFAIL);
            let packet =
                miss.packet(&slow_path.resolver.pool, failed).expect("the pool has frames");
            let packet = act_once(&mut slow_path.resolver.encode, packet, &at(0));
            check::answers(&frame, packet.frame.bytes());
        }
    });
}
