//! The same questions to pmdns and to Unbound, over the same NSD: every difference is a failure or has a rule that names it.
//!
//! [`questions`](crate::questions) says what is asked, [`verdict`](crate::verdict) compares and has the rules. A sample is
//! asked by default; `PMDNS_DIFFERENTIAL=full` asks everything.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use hickory_proto::op::Message;
use pmdns_stages::testing::QueryFrame;

use crate::harness::isolated;
use crate::pmdns::{Pmdns, TAP_V4, upstream};
use crate::questions::{self, SEED};
use crate::verdict::{Answers, RULES};
use crate::{nsd, unbound};

/// Questions of the sample.
const SAMPLE: usize = 1500;
/// The least number of questions when everything is asked.
const EVERYTHING: usize = 5000;
/// Unexplained differences that are shown.
const SHOWN: usize = 20;

/// Like Unbound, and no limits for the one client there is.
const SETTINGS: &str = "\n[slowpath]\nmax_waiting_per_client = 65536\n";

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn pmdns_answers_as_unbound_does() {
    isolated("differential::pmdns_answers_as_unbound_does", || {
        let _nsd = nsd::start_with(&[("diff.test", questions::ZONE)]);
        let _unbound = unbound::start();
        let pmdns = Pmdns::start_on_tap(&format!("{SETTINGS}{}", upstream(nsd::PORT)));
        let servers = [(TAP_V4, 53), ("127.0.0.1", unbound::PORT), ("127.0.0.1", nsd::PORT)];
        let servers = servers.map(|(address, port)| Server::new(address, port));
        let full = std::env::var("PMDNS_DIFFERENTIAL").is_ok_and(|value| value == "full");
        let questions = if full { questions::all() } else { questions::sample(SAMPLE) };
        assert!(questions.len() >= if full { EVERYTHING } else { SAMPLE });
        println!("seed {SEED:#x}: {} questions, each twice", questions.len());

        let start = Instant::now();
        let (mut explained, mut unexplained) = (BTreeMap::new(), Vec::new());
        // Twice: from upstream, then mostly from the caches.
        for question in questions.iter().chain(&questions) {
            let [ours, theirs, source] = servers.each_ref().map(|server| server.ask(question));
            let answers = Answers { question, ours, theirs, source, elapsed: start.elapsed() };
            for difference in answers.differences() {
                match answers.rule_for(difference) {
                    Some(rule) => *explained.entry(rule.name).or_insert(0) += 1,
                    None => unexplained.push(answers.describe(difference)),
                }
            }
        }
        for rule in RULES {
            let times = explained.get(rule.name).copied().unwrap_or(0);
            println!("{times:5} differences by rule: {}", rule.name);
            assert!(times > 0 || !full, "a rule that explains nothing: {}", rule.name);
        }
        for text in unexplained.iter().take(SHOWN) {
            println!("{text}");
        }
        assert!(unexplained.is_empty(), "{} unexplained differences", unexplained.len());
        let stats = pmdns.stop();
        assert!(
            stats.cache_hits() > questions.len() as u64 / 3,
            "the second time mostly from the cache"
        );
        println!("no unexplained difference; {}", stats.summary());
    });
}

/// A server to ask.
pub(crate) struct Server(UdpSocket);

impl Server {
    pub(crate) fn new(address: &str, port: u16) -> Self {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.connect((address, port)).unwrap();
        Self(socket)
    }

    /// The reply to a question, whole and readable.
    pub(crate) fn ask(&self, question: &QueryFrame) -> Message {
        self.0.send(&question.message()).unwrap();
        let mut reply = [0; 4096];
        loop {
            let length = self.0.recv(&mut reply).unwrap_or_else(|error| {
                panic!("no reply to {question:?} from {:?}: {error}", self.0.peer_addr())
            });
            if reply[..2] == question.id.to_be_bytes() {
                return Message::from_vec(&reply[..length]).unwrap();
            }
        }
    }
}
