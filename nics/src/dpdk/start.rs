//! A port from configured to running, and its counters while it runs.

use std::ffi::{CStr, c_int};
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dpdk_sys::{
    DPDK_MQ_RX_NONE, DPDK_MQ_RX_RSS, DPDK_RX_OFFLOAD_IPV4_CKSUM, DPDK_RX_OFFLOAD_UDP_CKSUM,
    DPDK_RX_OFFLOAD_VLAN_FILTER, DPDK_TX_OFFLOAD_FAST_FREE, rte_eth_conf, rte_eth_dev_info,
    rte_eth_xstat, rte_eth_xstat_name,
};

use super::mempool::{FastFree, Mempool};
use super::port::{CHECKSUMS, ClosedPort, PortError};
use super::queue::{Rx, Tx};
use super::started::Started;
use super::{advice, error_text, hear, interrupts, isolation, log, rss};
use crate::xdp::{Interface, XdpSteering};
use crate::{Nic, PortFacts, PortPlan, PortStats, Queues};

/// How often the link is looked at while it comes up.
const LINK_POLL: Duration = Duration::from_millis(20);

/// A DPDK port that runs.
pub struct DpdkNic {
    /// `None`: the device was given back, or another process has it.
    started: Option<Arc<Started>>,
    /// What was counted before the device was opened.
    before: PortStats,
    facts: PortFacts,
    choice: String,
    /// `None`: it is no port over AF_XDP, or what the driver has opened was not found.
    steering: Option<XdpSteering>,
    /// The kernel is in multicast groups for us as long as these are open.
    _groups: Vec<OwnedFd>,
    warnings: Vec<String>,
    messages: Vec<String>,
}

impl ClosedPort {
    /// Starts the port with this many queues; the frames it receives come from `pool`.
    pub fn start(self, plan: &PortPlan, pool: &Mempool) -> Result<(DpdkNic, Queues), PortError> {
        self.start_or_stay(plan, pool).map_err(|failed| failed.1)
    }

    /// The same. If it fails, the device is kept, because to close it may take a program off its interface.
    pub(super) fn start_or_stay(
        self,
        plan: &PortPlan,
        pool: &Mempool,
    ) -> Result<(DpdkNic, Queues), Box<(Self, PortError)>> {
        if let Err(error) = self.check_queues(plan) {
            return Err(Box::new((self, error)));
        }
        let (outcome, lines) = log::capture(|| self.bring_up(plan, pool));
        let setup = match outcome {
            Ok(setup) => setup,
            Err((step, code)) => {
                let error = PortError::Refused {
                    port: self.settings.name.clone(),
                    step,
                    reason: error_text(code),
                    detail: advice::detail(&lines),
                    advice: advice::step(step, &lines),
                };
                return Err(Box::new((self, error)));
            }
        };
        let Setup { fast_free, mut warnings, has_interrupts, choice, groups, steering } = setup;
        let Self { mut device, settings, number, facts, mut messages, interface: _ } = self;
        messages.extend(lines);
        device.started = true;
        device.watch_removal();
        let unfit = AtomicU64::new(0);
        let _pool = pool.clone();
        let started = Started { device, _fast_free: fast_free, _pool, unfit, has_interrupts };
        let started = Arc::new(started);
        let queues = queues(&started, &facts, plan, number);
        let nic = DpdkNic {
            started: Some(started),
            choice,
            steering,
            _groups: groups,
            messages,
            ..DpdkNic::closed(facts)
        };
        warnings.extend(nic.wait_for_link(settings.link_wait_ms));
        Ok((DpdkNic { warnings, ..nic }, queues))
    }

    fn check_queues(&self, plan: &PortPlan) -> Result<(), PortError> {
        let facts = &self.facts;
        let sides = [
            ("RX", facts.max_rx_queues, plan.rx_queues),
            ("TX", facts.max_tx_queues, plan.tx_queues),
        ];
        for (direction, has, asked) in sides {
            if asked > has {
                let (port, driver) = (facts.name.clone(), facts.driver.clone());
                return Err(PortError::TooFewQueues { port, driver, has, asked, direction });
            }
        }
        Ok(())
    }

    fn bring_up(&self, plan: &PortPlan, pool: &Mempool) -> Result<Setup, (&'static str, c_int)> {
        let id = self.device.id;
        let info = self.device.info().map_err(|code| ("ask what the port can do", code))?;
        let mut setup = Setup::default();
        let is_isolated = isolation::is_asked_for(&self.settings);
        if is_isolated {
            isolation::isolate(id).map_err(|code| (advice::ISOLATE, code))?;
        }
        setup.warnings.extend(self.descriptors_refused());
        let (mut conf, fast_free) = self.configuration(plan, &info, &mut setup.warnings);
        setup.fast_free = fast_free;
        let mut is_started = false;
        if plan.interrupts {
            conf.intr_conf.set_rxq(1);
            if let Ok(steering) = self.start_configured(plan, pool, &info, &conf) {
                (is_started, setup.steering) = (true, steering);
            }
            conf.intr_conf.set_rxq(0);
            setup.has_interrupts = is_started && interrupts::work(id, &self.facts.driver);
        }
        // Some drivers refuse to start if they have no interrupts.
        if !is_started {
            setup.steering = self.start_configured(plan, pool, &info, &conf)?;
        }
        if is_isolated {
            let taken = isolation::add_rules(id, &self.settings, plan, &info);
            let taken = taken.map_err(|code| (advice::ADD_RULES, code))?;
            setup.choice = taken.choice;
            setup.warnings.extend(taken.warnings);
        } else {
            self.hear(&conf, &mut setup);
        }
        // SAFETY: the port is ours. A driver that cannot reset its counters starts them at zero.
        let _best_effort = unsafe { dpdk_sys::rte_eth_stats_reset(id) };
        Ok(setup)
    }

    /// Checks or sets which frames the port hears, and by which queue. In isolated mode rules say all that.
    fn hear(&self, conf: &rte_eth_conf, setup: &mut Setup) {
        let id = self.device.id;
        if let Some(missing) = rss::refused(id, conf.rx_adv_conf.rss_conf.rss_hf) {
            setup.warnings.push(format!(
                "{} does not hash {missing}, although it was asked to: such queries may all come to one RX queue",
                self.facts.driver
            ));
        }
        let heard = hear::choose(id, &self.settings, &self.facts.driver);
        setup.choice = heard.choice;
        setup.warnings.extend(heard.warnings);
        if let Some(interface) = &self.interface {
            self.hear_by(interface, setup);
        }
        if conf.rxmode.offloads & DPDK_RX_OFFLOAD_VLAN_FILTER != 0 {
            self.let_vlans_in(&mut setup.warnings);
        }
    }

    fn hear_by(&self, interface: &Interface, setup: &mut Setup) {
        let of_whom = if interface.is_shared() {
            "gets queries, pings and ARP for its addresses by an XDP program, and the kernel the rest"
        } else {
            "gets every frame of its queues"
        };
        match interface.join_groups(&self.settings) {
            Ok(groups) => setup.groups = groups,
            Err(error) => setup.warnings.push(format!(
                "the kernel does not join the groups that IPv6 neighbours ask in ({error}), so they may not find us. \
                 Enable IPv6 on the interface, or set promiscuous = true"
            )),
        }
        of_whom.clone_into(&mut setup.choice);
    }

    fn start_configured(
        &self,
        plan: &PortPlan,
        pool: &Mempool,
        info: &rte_eth_dev_info,
        conf: &rte_eth_conf,
    ) -> Result<Option<XdpSteering>, (&'static str, c_int)> {
        let id = self.device.id;
        // SAFETY: the port is ours and stopped; `conf` outlives the call.
        let code =
            unsafe { dpdk_sys::rte_eth_dev_configure(id, plan.rx_queues, plan.tx_queues, conf) };
        check("configure the port", code)?;
        let steering = self.set_up_queues(plan, pool, info, conf)?;
        // SAFETY: the port is ours, configured, and all its queues are set up.
        check("start the port", unsafe { dpdk_sys::rte_eth_dev_start(id) })?;
        Ok(steering)
    }

    /// Which numbers of descriptors the port does not have.
    fn descriptors_refused(&self) -> impl Iterator<Item = String> {
        let (settings, facts) = (&self.settings, &self.facts);
        let sides = [
            ("rx_descriptors", settings.rx_descriptors, facts.rx_descriptors),
            ("tx_descriptors", settings.tx_descriptors, facts.tx_descriptors),
        ];
        let refused = sides.into_iter().filter(|(_, asked, given)| asked != given);
        refused.map(|(key, asked, given)| {
            format!("{key} is {asked}, but {} takes {given} instead", facts.driver)
        })
    }

    fn configuration(
        &self,
        plan: &PortPlan,
        info: &rte_eth_dev_info,
        warnings: &mut Vec<String>,
    ) -> (rte_eth_conf, Option<FastFree>) {
        // SAFETY: the struct is numbers and nullable pointers; zero is valid and means the default.
        let mut conf: rte_eth_conf = unsafe { mem::zeroed() };
        conf.rxmode.mq_mode = DPDK_MQ_RX_NONE;
        if plan.rx_queues > 1 {
            let hash = rss::functions(plan.rss, info.flow_type_rss_offloads);
            if hash == 0 {
                warnings.push(format!(
                    "{} cannot spread queries over {} RX queues by RSS: the device or \
                     its peer chooses the queue of each query, and some may get none",
                    self.facts.driver, plan.rx_queues
                ));
            } else {
                conf.rxmode.mq_mode = DPDK_MQ_RX_RSS;
                conf.rx_adv_conf.rss_conf.rss_hf = hash;
            }
        }
        if self.settings.checksum_offload {
            let checked = DPDK_RX_OFFLOAD_IPV4_CKSUM | DPDK_RX_OFFLOAD_UDP_CKSUM;
            conf.rxmode.offloads |= checked & info.rx_offload_capa;
        }
        if hear::filters_vlans(&self.facts.driver, &self.settings.vlans) {
            conf.rxmode.offloads |= DPDK_RX_OFFLOAD_VLAN_FILTER & info.rx_offload_capa;
        }
        if self.facts.checksum_offload {
            conf.txmode.offloads |= CHECKSUMS;
        }
        let mut fast_free = None;
        if info.tx_offload_capa & DPDK_TX_OFFLOAD_FAST_FREE != 0 {
            fast_free = FastFree::claim();
        }
        if fast_free.is_some() {
            conf.txmode.offloads |= DPDK_TX_OFFLOAD_FAST_FREE;
        }
        (conf, fast_free)
    }

    fn let_vlans_in(&self, warnings: &mut Vec<String>) {
        for id in hear::vlan_ids(&self.settings.vlans) {
            // SAFETY: the port is ours and runs.
            let code = unsafe { dpdk_sys::rte_eth_dev_vlan_filter(self.device.id, id, 1) };
            if code != 0 {
                warnings.push(format!(
                    "{} cannot let VLAN {id} in, so its queries may not arrive: {}",
                    self.facts.driver,
                    error_text(code)
                ));
            }
        }
    }
}

/// The result of bringing a port up.
#[derive(Default)]
struct Setup {
    choice: String,
    groups: Vec<OwnedFd>,
    fast_free: Option<FastFree>,
    warnings: Vec<String>,
    has_interrupts: bool,
    steering: Option<XdpSteering>,
}

pub(super) fn check(step: &'static str, code: c_int) -> Result<(), (&'static str, c_int)> {
    if code == 0 { Ok(()) } else { Err((step, code)) }
}

/// The queues of a started port, which receives as the number `number`.
fn queues(started: &Arc<Started>, facts: &PortFacts, plan: &PortPlan, number: u8) -> Queues {
    let mut queues = Queues::default();
    for queue in 0..plan.rx_queues {
        queues.rx.push(Box::new(Rx::new(Arc::clone(started), queue, number)));
    }
    for queue in 0..plan.tx_queues {
        queues.tx.push(Box::new(Tx::new(Arc::clone(started), queue, facts.checksum_offload)));
    }
    queues
}

impl DpdkNic {
    /// A port whose device another process has.
    pub fn closed(facts: PortFacts) -> Self {
        Self {
            started: None,
            before: PortStats::default(),
            facts,
            choice: String::new(),
            steering: None,
            _groups: Vec::new(),
            warnings: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// The same port, which goes on with these counters.
    #[must_use]
    pub fn after(self, before: PortStats) -> Self {
        Self { before, ..self }
    }

    /// Faults of the port's start that do not keep it from working. They do not name the port.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Which frames it gets besides those to its own MAC address, in words that follow the port's name.
    pub fn choice(&self) -> &str {
        &self.choice
    }

    /// What leads frames to its sockets, if it is a port over AF_XDP and what its driver has opened was found.
    pub fn take_steering(&mut self) -> Option<XdpSteering> {
        self.steering.take()
    }

    /// Received frames that did not fit one buffer, so far.
    pub(super) fn unfit(&self) -> u64 {
        self.started.as_ref().map_or(0, |started| started.unfit.load(Ordering::Relaxed))
    }

    /// The log of DPDK and the driver while the port was opened and started.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }

    fn wait_for_link(&self, wait_ms: u64) -> Option<String> {
        let deadline = Instant::now() + Duration::from_millis(wait_ms);
        while !self.link_up() {
            if Instant::now() >= deadline {
                return (wait_ms > 0).then(|| {
                    format!(
                        "the link is still down after {wait_ms} ms: check the cable and the other end; \
                         pmdns answers as soon as it comes up"
                    )
                });
            }
            std::thread::sleep(LINK_POLL);
        }
        None
    }
}

impl Nic for DpdkNic {
    fn facts(&self) -> &PortFacts {
        &self.facts
    }

    fn stats(&self) -> PortStats {
        self.started.as_ref().map_or(self.before, |started| started.stats().after(self.before))
    }

    fn xstats(&self) -> Vec<(String, u64)> {
        let Some(started) = &self.started else { return Vec::new() };
        let id = started.device.id;
        // SAFETY: with no room it only says how many there are.
        let count = unsafe { dpdk_sys::rte_eth_xstats_get_names(id, std::ptr::null_mut(), 0) };
        let Ok(count) = u32::try_from(count) else { return Vec::new() };
        let mut names = vec![rte_eth_xstat_name { name: [0; 64] }; count as usize];
        let mut values = vec![rte_eth_xstat { id: 0, value: 0 }; count as usize];
        // SAFETY: `names` has `count` entries.
        let named = unsafe { dpdk_sys::rte_eth_xstats_get_names(id, names.as_mut_ptr(), count) };
        // SAFETY: `values` has `count` entries.
        let read = unsafe { dpdk_sys::rte_eth_xstats_get(id, values.as_mut_ptr(), count) };
        let filled = usize::try_from(named.min(read)).unwrap_or(0).min(names.len());
        let text = |name: &rte_eth_xstat_name| {
            // SAFETY: DPDK ends each name with a zero byte inside its 64.
            unsafe { CStr::from_ptr(name.name.as_ptr()) }.to_string_lossy().into_owned()
        };
        // Values come in the order of the names, and each says its index all the same.
        let value = |value: &rte_eth_xstat| {
            let name = usize::try_from(value.id).ok().and_then(|id| names.get(id));
            (name.map(text), value.value)
        };
        values[..filled].iter().map(value).filter_map(|(name, n)| Some((name?, n))).collect()
    }

    fn link_up(&self) -> bool {
        let Some(started) = &self.started else { return false };
        // SAFETY: takes any port number.
        unsafe { dpdk_sys::shim_link_up(started.device.id) == 1 }
    }

    fn is_open(&self) -> bool {
        self.started.is_some()
    }

    fn is_being_removed(&self) -> bool {
        self.started.as_ref().is_some_and(|started| started.device.is_being_removed())
    }

    fn release(&mut self) -> bool {
        let Some(started) = self.started.take() else { return true };
        match Arc::try_unwrap(started) {
            Ok(mut started) => {
                self.before = started.stats().after(self.before);
                started.device.is_alone = true;
                true
            }
            Err(started) => {
                self.started = Some(started);
                false
            }
        }
    }

    fn close(self: Box<Self>) {
        // The port stops when its last queue is dropped, or now if none is left.
    }
}
