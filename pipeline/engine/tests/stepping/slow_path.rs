//! A thread of the slow path, turned by hand: what `pmdns_engine::slowpath` does with sockets and threads, done with a [`Network`].

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

use crossbeam_channel::Receiver;
use pmdns_engine::clock::Clock;
use pmdns_engine::data_core::Shard;
use pmdns_engine::ring::RingSender;
use pmdns_engine::slowpath::{
    Inlets, JobRequest, OutgoingAnswer, SlowPathParts, send_answers, time,
};
use pmdns_hierarchy::Rng;
use pmdns_resolver::validation::{ReplyValidator, ValidationReport, Work};
use pmdns_resolver::{Job, Means, NetworkLimits, Output, Query, Random, Resolver, Route, Time};

use super::Setup;
use super::network::{Arrival, Bytes, Network, Socket, Transport};
use super::port_wire::{Asked, PORT_UNREACHABLE, PortWire};

/// Steps of validation in a turn.
const MAX_STEPS: usize = 32;

/// A thread of the slow path.
pub(crate) struct SlowPath {
    /// What it works with.
    pub(crate) resolver: Resolver,
    number: usize,
    validation: Option<ReplyValidator>,
    now: Time,
    inlets: Inlets,
    outlets: Vec<RingSender<OutgoingAnswer>>,
    jobs: VecDeque<Job>,
    requests: Receiver<JobRequest>,
    batches: Vec<Option<Socket>>,
    /// The link for queries over a port, and the query of each batch that went over it.
    pub(crate) port: Option<PortWire>,
    pub(crate) over_port: Vec<Option<Asked>>,
    /// The batches that have left by a port, whether or not they have reached the far end.
    departed: BTreeSet<usize>,
    max_port_queries: usize,
    connections: Vec<Option<Socket>>,
    sockets: u64,
}

impl SlowPath {
    /// One that has not turned yet.
    pub(crate) fn new(number: usize, parts: SlowPathParts, mut chance: Rng, setup: &Setup) -> Self {
        let SlowPathParts { resolver, inlets, ports, outlets, clock, requests, .. } = parts;
        let port = ports.map(|parts| {
            let mut draws = Rng::new(chance.number());
            let random = Random::new(move |bytes| {
                draws.fill(bytes);
                Ok(())
            });
            PortWire::new(parts, resolver.config.upstreams.len(), random)
        });
        let threads = resolver.config.slow_path_shards();
        let mut rooms = port.as_ref().map(|port| port.max_queries(threads)).unwrap_or_default();
        for room in rooms.iter_mut().flatten() {
            *room = setup.port_queries.min(*room);
        }
        let max_port_queries = rooms.iter().flatten().sum();
        let patience = Duration::from_millis(resolver.config.slowpath.deadline_ms);
        let (trust, now) = (resolver.trust_anchors.clone(), time(&clock));
        let means = Means {
            time: now,
            ticks: &|duration| clock.ticks_of(duration),
            random: Random::new(move |bytes| {
                chance.fill(bytes);
                Ok(())
            }),
            outlets: outlets.iter().map(RingSender::capacity).collect(),
            limits: NetworkLimits { sockets: setup.sockets, port_queries: rooms },
        };
        Self {
            resolver: Resolver::new(resolver, means).expect("the groups have members"),
            number,
            validation: trust.map(|trust| ReplyValidator::new(trust, patience)),
            now,
            inlets,
            outlets,
            jobs: VecDeque::new(),
            requests,
            batches: Vec::new(),
            port,
            max_port_queries,
            over_port: Vec::new(),
            departed: BTreeSet::new(),
            connections: Vec::new(),
            sockets: 0,
        }
    }

    /// Has it do something with its shard of the cache, as soon as it takes jobs.
    pub(crate) fn order(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    /// Sockets that are open.
    pub(crate) fn open_sockets(&self) -> usize {
        let open = self.batches.iter().chain(&self.connections).flatten().count();
        open - self
            .over_port
            .iter()
            .zip(&self.batches)
            .filter(|(a, b)| a.is_some() && b.is_some())
            .count()
    }

    /// Queries over a port that are under way, and how many may be.
    pub(crate) fn over_port(&self) -> (usize, usize) {
        (self.departed.len(), self.max_port_queries)
    }

    /// Reads the clock, and tells the resolver how much room for answers the rings have.
    fn begin(&mut self, clock: &Clock) {
        self.now = time(clock);
        send_answers(&mut self.resolver, &mut self.outlets);
    }

    /// Takes one turn, and says how much there was to do.
    pub(crate) fn turn(&mut self, clock: &Clock, network: &mut dyn Network) -> usize {
        self.begin(clock);
        let Self { resolver, inlets, jobs, requests, now, .. } = self;
        if resolver.takes_jobs()
            && let Some(job) =
                jobs.pop_front().or_else(|| requests.try_recv().ok().map(JobRequest::into_job))
        {
            resolver.begin_job(*now, job);
        }
        // The network model knows encrypted upstreams by their slots.
        inlets.take_rules(*now, resolver, |_| {});
        let taken = inlets.take_misses(*now, resolver) + inlets.take_hits(*now, resolver);
        let taken = taken + self.port.as_mut().map_or(0, |port| port.receive(*now, resolver));
        let done = self.validate(clock) + self.resolver.turn(self.now);
        self.carry_out(clock, network);
        taken + done
    }

    /// Answers the next who wait with SERVFAIL, because the thread is about to end. `true`: nobody waits any more.
    pub(crate) fn drain(&mut self, network: &mut dyn Network, clock: &Clock) -> bool {
        self.begin(clock);
        let is_drained = self.resolver.drain(self.now);
        self.inlets.turn_away(self.now, &mut self.resolver);
        self.carry_out(clock, network);
        is_drained
    }

    /// Whether no worker can send it a miss any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.inlets.have_ended()
    }

    fn validate(&mut self, clock: &Clock) -> usize {
        let Some(worker) = &mut self.validation else { return 0 };
        let time = time(clock);
        while let Some(report) = worker.expire(time.now) {
            self.resolver.receive_validation(self.now, report);
        }
        let date = clock.date();
        for step in 0..MAX_STEPS {
            if !worker.is_ready() {
                return step;
            }
            if let Some(report) = worker.step(date) {
                self.resolver.receive_validation(self.now, report);
            }
        }
        MAX_STEPS
    }

    fn begin_validation(&mut self, work: Work, clock: &Clock) -> Option<ValidationReport> {
        let worker = self.validation.as_mut().expect("there is something to trust");
        worker.take(work, time(clock).now)
    }

    /// Does what the resolver wants done.
    fn carry_out(&mut self, clock: &Clock, network: &mut dyn Network) {
        while let Some(output) = self.resolver.next_output() {
            match output {
                Output::SendBatch { slot, route } => self.send_batch(slot, route, network),
                Output::CloseBatch(slot) => self.close_batch(slot, network),
                Output::Connect { slot, route } => self.connect(slot, route, network),
                Output::Write(slot) => self.write(slot, network),
                Output::CloseConnection(slot) => close(&mut self.connections, slot, network),
                Output::AskEncrypted(request) => network.ask_encrypted(self.number, request),
                Output::Validate(work) => {
                    if let Some(report) = self.begin_validation(work, clock) {
                        self.resolver.receive_validation(self.now, report);
                    }
                }
            }
        }
        send_answers(&mut self.resolver, &mut self.outlets);
    }

    fn send_batch(&mut self, slot: usize, route: Route, network: &mut dyn Network) {
        if route.port.is_some() {
            return self.send_over_port(slot, route, network);
        }
        let socket = self.socket(Transport::Udp, route.to);
        if let Err(error) = network.open(socket) {
            return self.resolver.fail_batch(self.now, slot, &error);
        }
        *place(&mut self.batches, slot) = Some(socket);
        let local = || Some(std::net::Ipv4Addr::new(198, 18, 0, 1).into());
        let send = |query: &Query| network.send(socket, query.bytes()).map(drop);
        let sent = self.resolver.send_messages(slot, local, send);
        if let Err(error) = sent {
            self.resolver.break_batch(self.now, slot, &error);
        }
    }

    /// Sends the query of a batch by the real driver.
    fn send_over_port(&mut self, slot: usize, route: Route, network: &mut dyn Network) {
        let Some(port) = &mut self.port else { panic!("the rig has no port for {route:?}") };
        self.departed.insert(slot);
        for asked in port.send(self.now, slot, route, &mut self.resolver) {
            self.reach(slot, asked, network);
        }
    }

    /// The query of a batch has reached the far end. To the network it is a socket that is open for as long as the batch.
    pub(super) fn reach(&mut self, slot: usize, asked: Asked, network: &mut dyn Network) {
        let socket = self.socket(Transport::Udp, asked.to);
        // A port has no sockets to run out of.
        let sent = network.open(socket).and_then(|()| network.send(socket, &asked.message));
        *place(&mut self.batches, slot) = sent.is_ok().then_some(socket);
        if self.over_port.len() <= slot {
            self.over_port.resize(slot + 1, None);
        }
        self.over_port[slot] = Some(asked);
    }

    /// What has arrived for a query over a port, as a frame, and which queue the query left by. `None`: it is for something
    /// else.
    pub(super) fn frame_of(&self, arrival: &Arrival) -> Option<(Option<Vec<u8>>, usize)> {
        let has = |one: &Option<Socket>| one.is_some_and(|one| one.number == arrival.socket);
        let slot = self.batches.iter().position(has)?;
        let (port, asked) = (self.port.as_ref()?, self.over_port.get(slot)?.as_ref()?);
        let frame = match &arrival.bytes {
            Bytes::Datagram(from, bytes) => port.datagram(*from, asked.from, bytes),
            Bytes::Broken(_) => Some(port.refusal(asked, PORT_UNREACHABLE)),
            _ => None,
        };
        Some((frame, asked.queue))
    }

    fn close_batch(&mut self, slot: usize, network: &mut dyn Network) {
        close(&mut self.batches, slot, network);
        self.departed.remove(&slot);
        self.port.iter_mut().for_each(|port| port.close(slot));
        if let Some(asked) = self.over_port.get_mut(slot) {
            *asked = None;
        }
    }

    fn connect(&mut self, slot: usize, route: Route, network: &mut dyn Network) {
        let socket = self.socket(Transport::Tcp, route.to);
        match network.open(socket) {
            Ok(()) => *place(&mut self.connections, slot) = Some(socket),
            Err(error) => self.resolver.fail_connection(self.now, slot, &error),
        }
    }

    fn write(&mut self, slot: usize, network: &mut dyn Network) {
        let Some(socket) = self.connections.get(slot).copied().flatten() else { return };
        let local = || Some(std::net::Ipv4Addr::new(198, 18, 0, 1).into());
        loop {
            let outgoing = self.resolver.outgoing(slot, local);
            if outgoing.is_empty() {
                return;
            }
            match network.send(socket, outgoing) {
                Ok(sent) => self.resolver.note_sent(slot, sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.resolver.break_connection(self.now, slot, &error),
            }
        }
    }

    fn socket(&mut self, transport: Transport, to: std::net::SocketAddr) -> Socket {
        self.sockets += 1;
        Socket { thread: self.number, number: self.sockets, transport, to }
    }

    /// Takes in what has arrived.
    pub(crate) fn receive(&mut self, arrival: Arrival, clock: &Clock, network: &mut dyn Network) {
        self.begin(clock);
        let Arrival { socket, bytes, .. } = arrival;
        let has = |one: &Option<Socket>| one.is_some_and(|one| one.number == socket);
        if let Bytes::Encrypted(report) = bytes {
            self.resolver.receive_encrypted(self.now, report);
        } else if let Some(slot) = self.batches.iter().position(has) {
            self.receive_batch(slot, bytes);
        } else if let Some(slot) = self.connections.iter().position(has) {
            self.receive_connection(slot, bytes, network);
        }
        self.carry_out(clock, network);
    }

    fn receive_batch(&mut self, slot: usize, bytes: Bytes) {
        if let Some(port) = &mut self.port
            && let Some(asked) = self.over_port.get(slot).cloned().flatten()
        {
            match bytes {
                Bytes::Datagram(from, bytes) => port.arrive(from, asked.from, &bytes),
                Bytes::Broken(_) => port.refuse(&asked),
                _ => {}
            }
            port.receive(self.now, &mut self.resolver);
            return;
        }
        let to = self.batches[slot].map(|socket| socket.to);
        match bytes {
            Bytes::Datagram(from, bytes) if Some(from) == to => {
                self.resolver.receive_batch(self.now, slot, &bytes);
            }
            Bytes::Broken(kind) => self.resolver.break_batch(self.now, slot, &kind.into()),
            _ => {}
        }
    }

    fn receive_connection(&mut self, slot: usize, bytes: Bytes, network: &mut dyn Network) {
        self.write(slot, network);
        if !self.resolver.has_connection(slot) {
            return;
        }
        match bytes {
            Bytes::Stream(bytes) => self.resolver.receive_connection(self.now, slot, &bytes),
            Bytes::End => {
                self.resolver.break_connection(
                    self.now,
                    slot,
                    &io::ErrorKind::UnexpectedEof.into(),
                );
            }
            Bytes::Broken(kind) => self.resolver.break_connection(self.now, slot, &kind.into()),
            _ => {}
        }
    }
}

/// A thread's work as a core that resolves does it.
pub(super) struct AtWork<'a> {
    pub(super) slow_path: &'a mut SlowPath,
    pub(super) clock: &'a Clock,
    pub(super) network: &'a mut dyn Network,
}

impl Shard for AtWork<'_> {
    fn turn(&mut self) -> usize {
        self.slow_path.turn(self.clock, self.network)
    }

    fn is_idle(&self) -> bool {
        self.slow_path.resolver.is_idle()
    }

    fn end(&mut self) -> bool {
        self.slow_path.drain(self.network, self.clock) && self.slow_path.has_ended()
    }
}

/// Closes what is in a slot.
fn close(sockets: &mut [Option<Socket>], slot: usize, network: &mut dyn Network) {
    if let Some(socket) = sockets.get_mut(slot).and_then(Option::take) {
        network.close(socket);
    }
}

/// The place of a slot.
fn place(sockets: &mut Vec<Option<Socket>>, slot: usize) -> &mut Option<Socket> {
    if sockets.len() <= slot {
        sockets.resize(slot + 1, None);
    }
    &mut sockets[slot]
}
