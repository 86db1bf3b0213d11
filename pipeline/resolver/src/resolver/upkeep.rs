//! Upkeep: questions for the cache only, and the operator's jobs on the cache.

use pmdns_stages::cache::{Entry, Hit, Key};

use super::{Resolver, Time};
use crate::answers::Answers;
use crate::cache_jobs::jobs::Job;
use crate::cache_jobs::prefetch::MAX_DUE;
use crate::counters::count;
use crate::questions::pending::Admission;
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::Question;
use crate::settings::Settings;

impl Resolver {
    /// Credits a hit, reported by a data core, to its answer.
    pub fn credit(&mut self, now: Time, hit: Hit) {
        self.set_time(now);
        self.prefetch.credit(hit, &mut self.answers);
    }

    /// Asks again for popular answers that are due, as far as the budget goes.
    pub(super) fn refresh_due(&mut self) {
        for _ in 0..MAX_DUE {
            let Time { context, now } = self.time;
            let Some(hash) = self.prefetch.next(context.seconds, now) else { return };
            let Some(question) = self.prefetch.question(hash, &mut self.answers) else { continue };
            let question = question.validating(self.validation.is_on());
            match self.open(ClientPrefix::OURS, question) {
                Admission::Leads(ticket) => {
                    self.prefetch.spend();
                    count(&self.counters.prefetched);
                    self.advance(ticket);
                }
                Admission::Waits => {}
                Admission::Shed(_) => count(&self.counters.prefetch_shed),
            }
        }
    }

    /// Asks the question of a cached NXDOMAIN again over TCP, because that may be forged.
    pub(super) fn confirm(&mut self, entry: &Entry) {
        let question = Question::of_entry(entry, self.answers.store.seed())
            .validating(self.validation.is_on());
        // Clients that send a client subnet get answers for their network, and this question has no client network.
        let is_for_networks = question.key().flags & Key::SUBNET != 0;
        if is_for_networks
            || !self.answers.store.writer.owns(question.hash())
            || self.questions.why_failed(&question).is_some()
        {
            return;
        }
        let Self { questions, upstreams, .. } = self;
        let plan = |question: &Question| upstreams.peers.plan(question).over_tcp();
        if let Admission::Leads(ticket) = questions.open(ClientPrefix::OURS, &question, plan) {
            count(&self.counters.nxdomain_confirmed);
            self.advance(ticket);
        }
    }

    /// Takes other settings over, and gives the old ones back. Questions under way go on with the upstreams that are asked
    /// now. The queries to upstreams that have left are given up.
    pub fn swap_settings(&mut self, now: Time, fresh: &mut Settings) {
        self.set_time(now);
        let Answers { store, stale, cuts_at_nxdomain, .. } = &mut self.answers;
        store.set_lifetimes(fresh.lifetimes, &fresh.retention);
        stale.apply(&fresh.cache, self.deadline, self.client_patience);
        *cuts_at_nxdomain = fresh.cache.nxdomain_cut;
        self.questions.set_rest(fresh.cache.stale_backoff_seconds);
        self.upstreams.apply(fresh);
        let Self { questions, upstreams, .. } = self;
        for (question, plan) in questions.pending.all() {
            plan.replace_upstreams(upstreams.peers.plan(question));
        }
        self.learn_failures();
    }

    /// Another process has written to the cache. What it has left has not been judged by the rules in use.
    fn go_on_writing(&mut self) {
        self.answers.store.resume(self.time.context.seconds);
        self.jobs.note_rules();
    }

    /// Whether another job may begin.
    pub fn takes_jobs(&self) -> bool {
        self.jobs.has_room()
    }

    /// Begins a job.
    pub fn begin_job(&mut self, now: Time, job: Job) {
        self.set_time(now);
        match job {
            Job::Outlook(inquiry, tell) => tell(self.outlook(&inquiry)),
            Job::SetWriting(is_on, done) => {
                match is_on {
                    true => self.go_on_writing(),
                    false => self.answers.store.writer.freeze(),
                }
                done(());
            }
            job => self.jobs.begin(job),
        }
    }
}
