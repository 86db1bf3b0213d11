//! The work of each thread, made of the parts that all of them share and of its own.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crossbeam_channel::Sender;
use pmdns_config::narrow::{to_u8, to_u32};
use pmdns_config::{Config, StageName};
use pmdns_nics::FramePool;
use pmdns_nics::crash::InHand;
use pmdns_resolver::Roster;
use pmdns_stages::cache::{Cache, Lifetimes, Writer};
use pmdns_stages::exceptions::KnownRouters;
use pmdns_stages::ports::Ports;

use super::asking::Asking;
use super::error::EngineError;
use super::gauges::Gauges;
use super::rings::SlowPathRings;
use crate::encrypted::LoadEncrypted;
use crate::exceptions::{TapRings, TapThread};
use crate::line::Stages;
use crate::news::AllPortNews;
use crate::rules::{ResolverRules, RulesInbox};
use crate::slowpath::{self, Anchors, Inlets, JobRequest, Parts, PortParts, SlowPathParts};
use crate::topology::{Topology, WorkerPlan};
use crate::worker::{Lent, Worker, WorkerEnds, WorkerMeans};

/// The parts that all threads share.
pub(super) struct SharedByThreads {
    pub(super) config: Arc<Config>,
    pub(super) ports: Ports,
    pub(super) cache: Arc<Cache>,
    pub(super) stages: Stages,
    pub(super) gauges: Gauges,
    pub(super) stream_pool: Option<(u8, FramePool)>,
    pub(super) news: AllPortNews,
    pub(super) peers: Arc<KnownRouters>,
    pub(super) load_encrypted: LoadEncrypted,
    pub(super) stop: Arc<AtomicBool>,
}

impl SharedByThreads {
    /// The slow path's threads' work, and the channel to each thread for requests of jobs on its shard.
    pub(super) fn slow_path(
        &self,
        mut asking: Asking,
        writers: Vec<Writer>,
        rings: Vec<SlowPathRings>,
        burst: usize,
        inboxes: Vec<RulesInbox<ResolverRules>>,
    ) -> Result<(Vec<SlowPathParts>, Vec<Sender<JobRequest>>), EngineError> {
        let encrypted = (self.load_encrypted)(&self.config)?;
        let anchors = Anchors::load(&self.config.dnssec)?;
        let threads = writers.into_iter().zip(rings).zip(inboxes).enumerate();
        let threads = threads.map(|(index, ((writer, rings), rules))| {
            let (give, requests) = slowpath::job_requests();
            let resolver = Parts {
                config: Arc::clone(&self.config),
                trust_anchors: anchors.as_ref().map(|anchors| anchors.trust().clone()),
                lifetimes: Lifetimes::of(&self.config),
                cache: Arc::clone(&self.cache),
                writer,
                encode: self.stages.encode.clone(),
                pool: self.gauges.pool.clone(),
                stream_pool: self.stream_pool.clone(),
                counters: Arc::clone(&self.gauges.slow_path[index]),
                cache_counters: Arc::clone(&self.gauges.cache[index]),
                roster: Roster::clone(&self.gauges.upstreams.roster()),
            };
            let ports = rings.queries.map(|queries| {
                let parts = PortParts {
                    thread: to_u8(index),
                    sources: Arc::clone(&asking.sources),
                    ports: Arc::clone(&asking.ports),
                    pool: self.gauges.pool.clone(),
                    queries,
                    replies: rings.replies,
                    burst,
                };
                (parts, asking.hops(&self.config, &self.news))
            });
            let parts = SlowPathParts {
                resolver,
                ports,
                encrypted: Arc::clone(&encrypted),
                inlets: Inlets {
                    misses: rings.misses,
                    answered_by: rings.answers_to,
                    hits: rings.hits,
                    burst,
                    rules,
                },
                outlets: rings.answers,
                clock: self.gauges.clock,
                requests,
                stop: Arc::clone(&self.stop),
            };
            (parts, give)
        });
        Ok(threads.unzip())
    }

    /// The work of the TAPs' threads.
    pub(super) fn taps(&self, rings: Vec<TapRings>) -> Vec<TapThread> {
        let threads = rings.into_iter().zip(&*self.gauges.taps);
        let threads = threads.map(|(rings, (_, counters))| TapThread {
            kernel: None,
            reads: Arc::new(true.into()),
            told: None,
            left: Default::default(),
            pool: self.gauges.pool.clone(),
            partial_checksums: self.ports[rings.port].partial_checksums,
            rings,
            peers: Arc::clone(&self.peers),
            news: Arc::clone(&self.news),
            counters: Arc::clone(counters),
            stop: Arc::clone(&self.stop),
        });
        threads.collect()
    }

    /// The data cores' work, in the order of the topology.
    pub(super) fn workers(
        &self,
        topology: &Topology,
        ends: Vec<WorkerEnds>,
        lent: impl Iterator<Item = Lent>,
    ) -> Vec<Worker> {
        let has_neighbor = |plan: &WorkerPlan| plan.stages.contains(StageName::Neighbor);
        let announcer = topology.workers.iter().position(has_neighbor);
        let workers = topology.workers.iter().zip(ends).zip(lent).enumerate();
        let workers = workers.map(|(index, ((plan, ends), lent))| {
            let means = WorkerMeans {
                limit: usize::from(self.config.frames.batch),
                cache: Arc::clone(&self.cache),
                news: Arc::clone(&self.news),
                announces: announcer == Some(index),
                pool: self.gauges.pool.clone(),
                clock: self.gauges.clock,
                published: Arc::clone(&self.gauges.workers[index]),
                in_hand: Arc::new(InHand::new(to_u32(plan.core))),
            };
            Worker::new(self.stages.line_for(plan.stages), ends, lent, means)
        });
        workers.collect()
    }
}
