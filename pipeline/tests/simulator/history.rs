//! One seed is one history: a storm, in which everything goes wrong; then calm, in which nothing does, and everybody has to be
//! served; then the end, at which everything has to be back where it was.

use std::time::Duration;

use pmdns_hierarchy::{Name, Rng, rtype};
use pmdns_nics::Frame;

use crate::checks::{check_always, check_end, check_quiet};
use crate::clients::{Ask, Clients, Promise, TYPES};
use crate::internet::Internet;
use crate::manners::{Manners, Trouble};
use crate::operator::{Dump, Files, Operator, purge};
use crate::setup::Start;
use crate::signed;
use crate::stepping::Stepping;
use crate::trace::Trace;
use crate::truth::{Realm, SERVFAIL, TTL};

/// The longest step of a storm.
const STEP_US: usize = 8_000;
/// What the operator's failed reloads may need until they are tried again.
const RELOAD_PAUSE: Duration = Duration::from_secs(310);
/// What upstreams, failures and expired answers need until they are asked again.
const RECOVERY: Duration = Duration::from_secs(8);
/// Longer than a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(14);
/// Turns that a worker takes in a step of the calm at most: it spins.
const CALM_TURNS: usize = 1_000;
/// Turns in which everything stops.
const STOP_TURNS: usize = 5_000;
/// How long it takes until everybody has heard what servers say at once.
const SOON: Duration = Duration::from_millis(300);
/// Steps between two looks at all counters.
const LOOK: u64 = 40;

/// A history, as far as it has come.
pub(crate) struct History {
    pub(crate) line: Stepping,
    pub(crate) internet: Internet,
    pub(crate) clients: Clients,
    pub(crate) start: Start,
    pub(crate) trace: Trace,
    chance: Rng,
    operator: Option<Operator>,
    dump: Option<Dump>,
    /// The thread that does not turn: a worker, or one of the slow path behind them. And until when.
    stalled: Option<(usize, Duration)>,
    /// Frames that nobody gives back.
    kept: Vec<Frame>,
    /// How far the clock has jumped, in seconds.
    jumped: u32,
    /// Turns that a worker takes in a step, if it finds something to do.
    diligence: usize,
    turns: u64,
    steps: u64,
}

/// What has come of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Stands for the whole trace.
    pub(crate) hash: u64,
    /// Queries that clients sent.
    pub(crate) queries: u64,
    /// Those that were answered, and with something.
    pub(crate) answered: u64,
    pub(crate) succeeded: u64,
}

/// Lives through the history of a seed.
pub(crate) fn run(seed: u64, is_printed: bool) -> Result<Summary, String> {
    let mut history = History::begin(seed, Trace::new(is_printed));
    if is_printed {
        println!("{}", history.start.text);
    }
    let lived = history.live();
    if is_printed && lived.is_err() {
        println!("{}", counters(&history.line));
    }
    lived
}

/// What the slow path has counted.
fn counters(line: &Stepping) -> String {
    let mut text = String::new();
    for (number, thread) in line.counters().enumerate() {
        let named = thread.named().filter(|(_, count, _)| *count > 0);
        let counts: Vec<String> = named.map(|(name, count, _)| format!("{name} {count}")).collect();
        text += &format!("thread {number}: {}\n", counts.join(", "));
    }
    text
}

impl History {
    fn begin(seed: u64, trace: Trace) -> Self {
        let mut chance = Rng::new(seed);
        let files = (chance.below(4) == 0).then(Files::new);
        let zone = files.as_ref().map(Files::zone);
        let start = Start::draw(seed, &mut chance, zone.as_deref());
        let mut line = Stepping::new(&start.config, &start.rig);
        let operator = files.map(|files| {
            Operator::new(files, &start.text, &start.config, &mut line, trace.clone())
        });
        let servers = start.servers.clone();
        Self {
            internet: Internet::new(servers, Rng::new(chance.number()), trace.clone()),
            clients: Clients::new(trace.clone()),
            line,
            start,
            trace,
            chance,
            operator,
            dump: None,
            stalled: None,
            kept: Vec::new(),
            jumped: 0,
            diligence: 1,
            turns: 0,
            steps: 0,
        }
    }

    fn note(&self, what: std::fmt::Arguments<'_>) {
        self.trace.note(self.line.now(), what);
    }

    fn live(&mut self) -> Result<Summary, String> {
        self.storm()?;
        // Some are stopped in the middle of it.
        if self.chance.below(6) > 0 {
            self.recover()?;
            self.calm()?;
            self.come_to_rest()?;
        }
        self.stop()
    }

    /// Everything goes wrong for a few seconds.
    fn storm(&mut self) -> Result<(), String> {
        let end = self.line.now() + Duration::from_millis(1000 + self.chance.below(3000) as u64);
        while self.line.now() < end {
            self.ask_something();
            if self.chance.one_in(12) {
                self.change_manners();
            }
            if self.chance.one_in(60) {
                self.trouble_the_machine();
            }
            if self.chance.one_in(60) {
                self.give_an_order();
            }
            let step = Duration::from_micros(1 + self.chance.below(STEP_US) as u64);
            self.step(step)?;
        }
        Ok(())
    }

    fn change_manners(&mut self) {
        let server = self.chance.below(self.internet.servers.len());
        let manners = match self.chance.below(3) {
            0 => Manners::good(),
            _ => Manners::bad(&mut self.chance),
        };
        self.internet.servers[server].manners = manners;
        self.note(format_args!("{} is {manners:?}", self.internet.servers[server].address));
    }

    fn trouble_the_machine(&mut self) {
        let now = self.line.now();
        match self.chance.below(6) {
            0 => self.internet.has_sockets = !self.internet.has_sockets,
            1 => {
                let threads = self.line.rig.workers.len() + self.line.slow_path.len();
                let until = now + Duration::from_millis(20 + self.chance.below(700) as u64);
                self.stalled = Some((self.chance.below(threads), until));
                self.note(format_args!("stalled: {:?}", self.stalled));
            }
            2 => {
                let seconds = 1 + self.chance.below(60) as u32;
                self.jumped += seconds;
                self.line.time.advance(Duration::from_secs(seconds.into()));
                self.note(format_args!("the clock jumps"));
            }
            3 => {
                self.kept = std::iter::from_fn(|| self.line.rig.pool.take()).collect();
                self.note(format_args!("the pool is empty"));
            }
            _ => {
                self.kept.clear();
                self.internet.has_sockets = true;
            }
        }
    }

    fn give_an_order(&mut self) {
        let now = self.line.now();
        if let Some(operator) = &mut self.operator
            && self.chance.below(4) > 0
        {
            return operator.act(now, &mut self.chance);
        }
        match self.chance.below(3) {
            0 => {
                let realm = [Realm::Public, Realm::Inner, Realm::Secret][self.chance.below(3)];
                let thread = self.chance.below(self.line.slow_path.len());
                self.note(format_args!("thread {thread} loses {realm:?}"));
                purge(&mut self.line, thread, realm);
            }
            _ => self.dump = Some(Dump::begin(&mut self.line)),
        }
    }

    /// Clients of all kinds ask.
    fn ask_something(&mut self) {
        match self.chance.below(200) {
            0 => {
                let (name, qtype) = self.question(8);
                for _ in 0..20 + self.chance.below(130) {
                    let client = self.client();
                    self.ask(Ask::new(client, name.clone(), qtype));
                }
            }
            1 => {
                let network = self.chance.below(250) as u8;
                for _ in 0..20 + self.chance.below(100) {
                    let client = [203, 0, network, self.chance.below(256) as u8];
                    let (name, qtype) = self.question(1 << 20);
                    self.ask(Ask::new(client, name, qtype));
                }
            }
            2 => self.clients.send_rubbish(&mut self.line, &[0x55; 60]),
            3..100 => {
                let (client, (name, qtype)) = (self.client(), self.question(8));
                let mut ask = Ask::new(client, name, qtype);
                ask.dnssec = [None, Some(false), Some(true)][self.chance.below(3)];
                self.ask(ask);
            }
            _ => {}
        }
    }

    fn ask(&mut self, ask: Ask) {
        self.clients.ask(&mut self.line, self.start.queues, ask);
    }

    fn client(&mut self) -> [u8; 4] {
        [10, 77, self.chance.below(8) as u8, 3 + self.chance.below(200) as u8]
    }

    /// A question about one of so many names of each kind.
    fn question(&mut self, names: usize) -> (Name, u16) {
        if self.operator.is_some() && self.chance.one_in(6) {
            return (Name::new("v.here"), rtype::A);
        }
        if self.start.is_signed {
            let (name, qtype, _) = signed::question(&mut self.chance);
            return (name, qtype);
        }
        let realm = match self.chance.below(6) {
            0 => Realm::Inner,
            1 => Realm::Secret,
            _ => Realm::Public,
        };
        let number = self.chance.below(names);
        let kind = ["a", "a", "A", "b", "c", "C", "e", "x", "x", "z"][self.chance.below(10)];
        let deeper = if self.chance.one_in(6) { "deep." } else { "" };
        let name = realm.apex().below(&format!("{deeper}{kind}{number}"));
        (name, TYPES[self.chance.below(TYPES.len())])
    }

    /// Nothing goes wrong any more, and time passes until that has been noticed.
    fn recover(&mut self) -> Result<(), String> {
        self.note(format_args!("calm"));
        for server in &mut self.internet.servers {
            server.manners = Manners::good();
        }
        self.internet.has_sockets = true;
        self.kept.clear();
        self.stalled = None;
        self.diligence = CALM_TURNS;
        let now = self.line.now();
        if let Some(operator) = &mut self.operator {
            operator.mend(now);
            self.pass(RELOAD_PAUSE, Duration::from_secs(1))?;
        }
        self.pass(RECOVERY, Duration::from_millis(20))?;
        // By now the last version is in use.
        if let Some(operator) = &mut self.operator {
            operator.versions.0 = operator.versions.1;
        }
        Ok(())
    }

    /// Lets time pass, in steps of so long.
    fn pass(&mut self, duration: Duration, step: Duration) -> Result<(), String> {
        let end = self.line.now() + duration;
        while self.line.now() < end {
            self.step(step)?;
        }
        Ok(())
    }

    /// Everybody who asks now has to get an answer, and a true one.
    fn calm(&mut self) -> Result<(), String> {
        self.ask_all("1")?;
        self.ask_all("2")?;
        for server in &mut self.internet.servers {
            server.manners.forgers = 1;
        }
        self.note(format_args!("forgers"));
        self.ask_all("3")?;
        for server in &mut self.internet.servers {
            server.manners.forgers = 0;
        }
        if self.start.is_roomy && !self.start.is_signed {
            match self.chance.below(3) {
                0 => self.flood()?,
                1 => self.crowd()?,
                _ => self.failing_crowd()?,
            }
        }
        if self.start.is_vast {
            self.burst()?;
        }
        Ok(())
    }

    /// A question about each kind of name.
    fn ask_all(&mut self, round: &str) -> Result<(), String> {
        if self.operator.is_some() {
            self.ask(Ask::new([10, 78, 0, 9], Name::new("v.here"), rtype::A).for_sure());
        }
        if self.start.is_signed {
            return self.ask_signed();
        }
        for (network, realm) in (1..).zip([Realm::Public, Realm::Inner, Realm::Secret]) {
            for (client, kind) in (3..).zip(["a", "c", "e", "x", "b"]) {
                let name = realm.apex().below(&format!("{kind}calm{round}"));
                let qtype = if kind == "b" { rtype::TXT } else { rtype::A };
                self.ask(Ask::new([10, 78, network, client], name, qtype).for_sure());
                self.step(Duration::from_millis(3))?;
            }
        }
        self.serve_all()
    }

    /// Some questions about signed zones to which there are answers.
    fn ask_signed(&mut self) -> Result<(), String> {
        for client in 3..12 {
            let (name, qtype, is_answered) = signed::question(&mut self.chance);
            let mut ask = Ask::new([10, 78, 4, client], name, qtype);
            (ask.must_succeed, ask.dnssec) = (is_answered, Some(client % 2 > 0));
            self.ask(ask);
            self.step(Duration::from_millis(3))?;
        }
        self.serve_all()
    }

    /// Waits until everybody is answered who has to be.
    fn serve_all(&mut self) -> Result<(), String> {
        let end = self.line.now() + self.start.deadline() + Duration::from_secs(1);
        while self.line.now() < end {
            self.step(Duration::from_millis(4))?;
            if self.clients.disappointed().is_none() {
                return Ok(());
            }
        }
        self.clients.disappointed().map_or(Ok(()), Err)
    }

    /// Hundreds ask for one name.
    fn crowd(&mut self) -> Result<(), String> {
        self.note(format_args!("a crowd"));
        for number in 0..300u32 {
            let client = [10, 80, (number / 200) as u8, (number % 200) as u8];
            self.ask(Ask::new(client, Name::new("acrowd.test"), rtype::A).for_sure());
            if number % 64 == 0 {
                self.step(Duration::from_micros(300))?;
            }
        }
        self.serve_all()
    }

    /// A hundred ask for one name, and every server says at once that it has no answer. All have to hear of that soon.
    fn failing_crowd(&mut self) -> Result<(), String> {
        self.note(format_args!("a failing crowd"));
        for server in &mut self.internet.servers {
            server.manners.trouble = (Trouble::Rcode(SERVFAIL), 1);
        }
        let before = self.clients.unanswered();
        for number in 0..100 {
            self.ask(Ask::new([10, 81, 0, number], Name::new("afailing.test"), rtype::A));
        }
        self.pass(SOON, Duration::from_millis(4))?;
        for server in &mut self.internet.servers {
            server.manners.trouble = Manners::good().trouble;
        }
        match self.clients.unanswered() - before {
            0 => Ok(()),
            left => Err(format!("{left} clients have not heard that their question failed")),
        }
    }

    /// One network asks for more than there is room for. Somebody else asks for little, and gets it.
    fn flood(&mut self) -> Result<(), String> {
        self.note(format_args!("a flood"));
        for number in 0..1200u32 {
            let client = [203, 0, 113, number as u8];
            let name = Name::new(&format!("aflood{number}.test"));
            self.ask(Ask::new(client, name, rtype::A));
            if number % 100 == 50 {
                let name = Name::new(&format!("ahonest{number}.test"));
                self.ask(Ask::new([10, 79, 0, 7], name, rtype::A).for_sure());
            }
            if number % 16 == 0 {
                self.step(Duration::from_micros(500))?;
            }
        }
        self.serve_all()
    }

    /// More is asked of an encrypted upstream at once than it is asked at a time.
    fn burst(&mut self) -> Result<(), String> {
        self.note(format_args!("a burst"));
        for server in &mut self.internet.servers {
            server.manners.delay = (Duration::from_millis(120), Duration::from_millis(150));
        }
        for number in 0..2400u32 {
            let client = [11, (number / 200) as u8, (number % 200) as u8, 1];
            let name = Realm::Secret.apex().below(&format!("aburst{number}"));
            self.ask(Ask::new(client, name, rtype::A).for_sure());
            if number % 16 == 0 {
                self.step(Duration::from_micros(300))?;
            }
        }
        self.serve_all()
    }

    /// Everything that is under way ends by itself.
    fn come_to_rest(&mut self) -> Result<(), String> {
        self.note(format_args!("rest"));
        if self.start.config.prefetch.enabled {
            self.pass(Duration::from_secs(2 * u64::from(TTL)), Duration::from_millis(500))?;
        }
        self.pass(IDLE, Duration::from_millis(100))?;
        self.dump = Some(Dump::begin(&mut self.line));
        self.pass(Duration::from_millis(400), Duration::from_millis(20))?;
        self.look_at_dump()?;
        check_quiet(self)
    }

    /// The end.
    fn stop(&mut self) -> Result<Summary, String> {
        self.note(format_args!("stop"));
        self.kept.clear();
        if !self.line.stop(STOP_TURNS, &mut self.internet) {
            return Err("not everything ends".into());
        }
        self.take_answers()?;
        check_end(self)?;
        let Clients { sent, answered, succeeded, .. } = self.clients;
        Ok(Summary { hash: self.trace.hash(), queries: sent, answered, succeeded })
    }

    /// Lets so much time pass, and each thread take a turn.
    fn step(&mut self, duration: Duration) -> Result<(), String> {
        self.line.time.advance(duration);
        let now = self.line.now();
        self.internet.now = now;
        if let Some(operator) = &mut self.operator {
            operator.turn(now);
        }
        self.stalled = self.stalled.filter(|(_, until)| *until > now);
        let stalled = self.stalled.map(|(thread, _)| thread);
        let workers = self.line.rig.workers.len();
        if stalled.is_none_or(|thread| thread < workers) {
            self.line.hear(&mut self.internet);
        }
        for thread in (0..workers + self.line.slow_path.len()).filter(|one| Some(*one) != stalled) {
            match thread.checked_sub(workers) {
                None => self.line.turn_worker(thread, self.diligence),
                Some(thread) => self.line.turn_slow_path(thread, &mut self.internet),
            }
        }
        self.turns += u64::from(stalled.is_none());
        self.take_answers()?;
        self.clients.look_for_late(now, self.turns, self.start.deadline());
        self.look_at_dump()?;
        self.steps += 1;
        if self.steps % LOOK == 0 { check_always(self) } else { Ok(()) }
    }

    fn take_answers(&mut self) -> Result<(), String> {
        let (now, promise) = (self.line.now(), self.promise());
        let mut frames = self.line.sent().into_iter();
        frames.try_for_each(|frame| self.clients.take(&frame, now, &promise))
    }

    fn promise(&self) -> Promise {
        Promise {
            oldest: self.start.oldest() + self.jumped,
            versions: self.operator.as_ref().map_or((0, 0), |operator| operator.versions),
            is_signed: self.start.is_signed,
        }
    }

    fn look_at_dump(&mut self) -> Result<(), String> {
        let Some(dump) = &self.dump else { return Ok(()) };
        dump.check(&self.line, self.line.now(), &self.promise()).map(drop)
    }
}
