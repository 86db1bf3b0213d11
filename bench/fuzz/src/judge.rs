//! Rules as an operator writes them, and the stages that judge by them.

use std::path::PathBuf;
use std::sync::Arc;

use pmdns_config::{Config, LocalRecord, PolicySettings as Settings};
use pmdns_engine::line::Stages;
use pmdns_engine::testing::{BareStages, StageNeeds};
use pmdns_nics::hugepage::Arena;
use pmdns_stages::cache::{Entry, Key, Lifetimes};
use pmdns_stages::miss::Miss;
use pmdns_stages::policy::Ruleset;
use pmdns_stages::ports::Port;
use pmdns_stages::testing::{
    OUR_IPV4, OUR_MAC, QueryFrame, ReplyRecord, act_once, at, query, reply,
};
use pmdns_stages::wire::be16;
use pmdns_stages::wire::dns::{flag, header};
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::record::Records;
use pmdns_stages::{Answer, Packet, StageName, Step};

use crate::check;

/// What becomes of a query.
pub(crate) enum Judged {
    /// It was answered here with this frame.
    OutgoingAnswer(Vec<u8>),
    /// No rule concerns it: the cache is asked next.
    Passed(Packet),
    /// It is not for rules to judge: types that nobody may ask for, queries that are dropped.
    Other,
}

/// The stages that rules are used by.
pub(crate) struct Judge {
    stages: Stages,
    rules: Arc<Ruleset>,
    seed: Seed,
}

/// A config without any rules but those that are to be tried.
pub(crate) fn no_rules() -> Config {
    Config { policy: Settings { special_use: false, ..Settings::default() }, ..Config::default() }
}

/// A file for rules that are read from files. Each process has its own, and writes it again and again.
pub(crate) fn file(text: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("pmdns-fuzz-{}", std::process::id()));
    std::fs::write(&path, text).expect("the folder for temporary files can be written");
    path
}

impl Judge {
    /// Judges by the rules of `config`; `None` if they are refused.
    pub(crate) fn new(config: &Config) -> Option<Self> {
        let seed = Seed::new([7; 16]);
        let port = Port::new(OUR_MAC, [OUR_IPV4.into()]);
        let (arena, ticks_per_second) = (Arena::heap(1 << 12), 1000);
        let needs = StageNeeds { port, arena, seed, cookies: None, ticks_per_second };
        let BareStages { stages, rules, .. } = BareStages::new(config, needs).ok()?;
        Some(Self { stages, rules, seed })
    }

    /// Judges a query, and checks the answer if there is one.
    pub(crate) fn ask(&mut self, asked: &QueryFrame) -> Judged {
        let mut packet = act_once(&mut self.stages.parse, asked.packet(), &at(0));
        if packet.step != Step::after(StageName::Parse) || packet.answer != Answer::None {
            return Judged::Other;
        }
        packet = act_once(&mut self.stages.policy, packet, &at(0));
        if packet.step == Step::SLOW_PATH {
            return Judged::Passed(packet);
        }
        if packet.step != Step::ANSWER {
            return Judged::Other;
        }
        packet = act_once(&mut self.stages.encode, packet, &at(0));
        assert_eq!(packet.step, Step::TRANSMIT);
        check::answers(&asked.frame_bytes(), packet.frame.bytes());
        Judged::OutgoingAnswer(packet.frame.bytes().to_vec())
    }

    /// Has the answer of an upstream judged that has these records, and checks what the client gets.
    pub(crate) fn respond(&mut self, asked: &QueryFrame, packet: &Packet, records: &[ReplyRecord]) {
        let miss = Miss::of(packet, 0);
        let (key, lifetimes) = (miss.key(), LIFETIMES);
        let hash = key.hash(self.seed, miss.key);
        let message =
            reply(&QueryFrame { name: asked.name.to_ascii_lowercase(), ..asked.clone() }, records);
        let entry = Entry::from_reply(&message, key, hash, 0, &lifetimes);
        // Data that is not well-formed is no answer.
        let Ok(entry) = entry else { return };
        let entry = self.rules.respond(entry, Key { ..miss.key() }, &message);
        let mut answered = asked.packet();
        answered = act_once(&mut self.stages.parse, answered, &at(0));
        assert_eq!(self.stages.encode.answer_with(&mut answered, &entry, &at(0)), Step::TRANSMIT);
        check::answers(&asked.frame_bytes(), answered.frame.bytes());
    }

    /// Asks for each record, which must be in the answer bit for bit unless other rules say otherwise. Of records that are the same
    /// but for the letters of names, the first is.
    pub(crate) fn ask_for(&mut self, records: &[LocalRecord]) {
        for record in records {
            let plain = query("a. A").edns(1232, false);
            let asked = QueryFrame { name: record.name.to_vec(), qtype: record.rtype, ..plain };
            let Judged::OutgoingAnswer(frame) = self.ask(&asked) else { continue };
            let message = check::message(&frame).expect("a whole answer");
            let truncated = be16(message, header::FLAGS).is_some_and(|flags| flags & flag::TC != 0);
            let found = Records::new(message).expect("one question").flatten();
            let mut data = found.map(|record| &message[record.data_at..record.end]);
            let is_same = |one: &&LocalRecord| {
                one.rtype == record.rtype
                    && one.name.eq_ignore_ascii_case(&record.name)
                    && one.data.eq_ignore_ascii_case(&record.data)
            };
            let first = records.iter().find(is_same).unwrap_or(record);
            let is_there = |data: &[u8]| *data == *record.data || *data == *first.data;
            assert!(truncated || data.any(is_there), "bit for bit");
        }
    }
}

const LIFETIMES: Lifetimes =
    Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 900, max_body: 1232 };
