//! What happens in one step of a history.

use std::time::Duration;

use super::*;

impl World {
    fn kill(&mut self, side: Side) {
        let (closes_in, unlocks_in) = (self.chance.below(4), self.chance.below(6));
        let process = self.process(side);
        if process.is_alive {
            let closes_in = Some(closes_in);
            *process = Process { closes_in, unlocks_in, ..Process::default() };
        }
    }

    fn fails(&mut self) -> bool {
        !self.is_calm && self.chance.one_in(self.fault)
    }

    /// What happens next.
    pub(super) fn step(&mut self) {
        let is_leap = self.fails();
        self.now += Duration::from_millis(if is_leap { 20_000 } else { self.chance.below(200) });
        for side in [Side::Outgoing, Side::Incoming] {
            if self.fails() {
                self.kill(side);
            }
            self.after_end(side);
        }
        self.deliver();
        self.garble();
        for side in [Side::Outgoing, Side::Incoming] {
            self.work(side);
            self.work_on_devices(side);
        }
        let now = self.now;
        if self.outgoing.1.is_alive {
            self.outgoing.0.turn(now);
            self.carry_out_outgoing();
        }
        if self.incoming.1.is_alive {
            self.incoming.0.turn(now);
            self.carry_out_incoming();
        }
        self.check();
    }

    /// The kernel closes what a dead process had, in any order.
    fn after_end(&mut self, side: Side) {
        let process = self.process(side);
        if process.is_alive {
            return;
        }
        process.unlocks_in = process.unlocks_in.saturating_sub(1);
        let is_unlocked = process.unlocks_in == 0;
        let has_closed = match process.closes_in {
            Some(0) => process.closes_in.take().is_some(),
            Some(steps) => {
                process.closes_in = Some(steps - 1);
                false
            }
            None => false,
        };
        if is_unlocked && self.lock == Some(side) {
            self.lock = None;
        }
        if is_unlocked && self.devices.holder == Some(side) {
            self.devices.holder = None;
        }
        if has_closed && self.process(side.other()).is_alive {
            // What was sent before arrives before.
            self.deliver_all();
            match side {
                Side::Outgoing => self.incoming.0.closed(),
                Side::Incoming => self.outgoing.0.closed(),
            }
        }
    }

    /// A packet that is no message.
    fn garble(&mut self) {
        if self.outgoing.1.is_alive && self.fails() {
            self.outgoing.0.misunderstood(FAULTS[0].to_owned());
        }
        if self.incoming.1.is_alive && self.fails() {
            self.incoming.0.misunderstood(FAULTS[0].to_owned());
        }
    }

    fn deliver(&mut self) {
        let (now, offer) = (self.now, self.offer());
        if let Some((left, _)) = self.to_outgoing.front_mut() {
            *left = left.saturating_sub(1);
        }
        if let Some((left, _)) = self.to_incoming.front_mut() {
            *left = left.saturating_sub(1);
        }
        if let Some((_, message)) = self.to_outgoing.pop_front_if(|(left, _)| *left == 0)
            && self.outgoing.1.is_alive
        {
            self.outgoing.0.receive(message, || offer, now);
        }
        if let Some((_, message)) = self.to_incoming.pop_front_if(|(left, _)| *left == 0)
            && self.incoming.1.is_alive
        {
            self.incoming.0.receive(message);
        }
    }

    fn deliver_all(&mut self) {
        let (now, offer) = (self.now, self.offer());
        for (_, message) in std::mem::take(&mut self.to_outgoing) {
            self.outgoing.0.receive(message, || offer.clone(), now);
        }
        for (_, message) in std::mem::take(&mut self.to_incoming) {
            self.incoming.0.receive(message);
        }
    }

    /// The steps of some work. What waits for others may never end.
    fn duration(&mut self, may_hang: bool) -> u64 {
        match may_hang && self.fails() {
            true => u64::from(MAX_STEPS),
            false => self.chance.below(20),
        }
    }

    fn begin(&mut self, side: Side, work: Work) {
        let steps = self.duration(matches!(work, Work::Prepare | Work::Take | Work::Drain));
        let before = self.process(side).work.replace((work, steps));
        let is_over = matches!(before, None | Some((Work::Drain, _)));
        assert!(is_over, "seed {}: {before:?} is not over, and {work:?} begins", self.seed);
    }

    /// A thread of the process goes on.
    fn work(&mut self, side: Side) {
        let Some((work, left)) = self.process(side).work.take() else { return };
        if left > 1000 && self.is_calm && !self.process(side.other()).is_alive {
            // The supervisor's watchdog ends it.
            return self.kill(side);
        }
        if left > 0 {
            self.process(side).work = Some((work, left - 1));
            return;
        }
        let (now, is_free) = (self.now, self.lock.is_none_or(|holder| holder == side));
        match work {
            Work::Freeze => {
                assert_eq!(self.lock.take(), Some(Side::Outgoing));
                self.outgoing.0.frozen(NodeRole::default(), now);
            }
            Work::Thaw => {
                if is_free {
                    self.lock = Some(Side::Outgoing);
                }
                self.outgoing.0.thawed(is_free);
            }
            Work::Drain => {
                if !self.outgoing.0.is_draining() {
                    // The other one has not opened the devices, so this does not count yet.
                    self.process(side).work = Some((Work::Drain, 0));
                }
                self.outgoing.0.drained();
            }
            Work::Prepare => {
                let devices = vec![String::new(); usize::from(self.devices.exist)];
                let outcome = if self.fails() { Err(FAULTS[1].to_owned()) } else { Ok(devices) };
                self.incoming.0.prepared(outcome, now);
            }
            Work::Take if !is_free && !self.outgoing.1.is_alive => {
                // It tries again as long as the dead one's files are closed.
                self.process(side).work = Some((Work::Take, 1));
            }
            Work::Take => {
                let outcome = match is_free && !self.fails() {
                    true => Ok(()),
                    false => Err(FAULTS[2].to_owned()),
                };
                if outcome.is_ok() {
                    self.lock = Some(Side::Incoming);
                    self.incoming.1.serves = true;
                }
                self.incoming.0.taken(outcome, now);
            }
        }
    }

    fn begin_devices(&mut self, side: Side, work: DeviceWork) {
        let steps = self.duration(true);
        let before = self.process(side).device_work.replace((work, steps));
        assert_eq!(before, None, "seed {}: it is not over, and {work:?} begins", self.seed);
    }

    /// The thread of the process that closes and opens devices goes on.
    fn work_on_devices(&mut self, side: Side) {
        let Some((work, left)) = self.process(side).device_work.take() else { return };
        if left > 1000 && self.is_calm && !self.process(side.other()).is_alive {
            return self.kill(side);
        }
        if left > 0 {
            self.process(side).device_work = Some((work, left - 1));
            return;
        }
        let other_has_them = self.devices.holder == Some(side.other());
        match work {
            DeviceWork::Close => {
                assert_eq!(self.devices.holder.take(), Some(side), "seed {}", self.seed);
                self.devices.way = Way::Closed;
                self.outgoing.0.devices_closed();
                if self.outgoing.1.serves {
                    // It was told to resume meanwhile.
                    self.begin_devices(side, DeviceWork::Open);
                }
            }
            DeviceWork::Open if other_has_them => {
                let is_alive = self.process(side.other()).is_alive;
                assert!(!is_alive, "seed {}: two have the devices", self.seed);
                // It tries again as long as the dead one's files are closed.
                self.process(side).device_work = Some((DeviceWork::Open, 1));
            }
            DeviceWork::Open => match (self.fails(), side) {
                (false, _) => self.have_devices(side),
                (true, Side::Incoming) if self.outgoing.1.is_alive => {
                    self.incoming.0.opened(Err(FAULTS[3].to_owned()));
                }
                // Nobody else could open them, so it tries again.
                (true, _) => self.process(side).device_work = Some((DeviceWork::Open, 1)),
            },
        }
    }

    fn have_devices(&mut self, side: Side) {
        assert_eq!(self.devices.holder.replace(side), None, "seed {}", self.seed);
        let was_told = self.outgoing.1.is_alive;
        self.devices.way = match (side, self.devices.way) {
            (Side::Outgoing, Way::Passed) => Way::Returned,
            (Side::Outgoing, _) => Way::Reopened,
            (Side::Incoming, _) if was_told => Way::Passed,
            (Side::Incoming, _) => Way::Inherited,
        };
        if side == Side::Incoming {
            self.incoming.0.opened(Ok(()));
        }
    }

    fn carry_out_outgoing(&mut self) {
        while let Some(output) = self.outgoing.0.next_output() {
            match output {
                OutgoingOutput::Send(message) => {
                    let late = self.chance.below(5);
                    self.to_incoming.push_back((late, message));
                }
                OutgoingOutput::Freeze => self.begin(Side::Outgoing, Work::Freeze),
                OutgoingOutput::Thaw => self.begin(Side::Outgoing, Work::Thaw),
                OutgoingOutput::Drain => {
                    (self.outgoing.1.serves, self.outgoing.1.drains) = (false, true);
                    self.begin(Side::Outgoing, Work::Drain);
                    if self.outgoing.0.is_closing() {
                        self.begin_devices(Side::Outgoing, DeviceWork::Close);
                    }
                }
                OutgoingOutput::Resume => {
                    (self.outgoing.1.serves, self.outgoing.1.drains) = (true, false);
                    // They may still be open, or be closed only now. What closes them opens them then.
                    let has_them = self.devices.holder == Some(Side::Outgoing);
                    if self.devices.exist && !has_them {
                        self.begin_devices(Side::Outgoing, DeviceWork::Open);
                    }
                }
                OutgoingOutput::Kill(_) => self.kill(Side::Incoming),
                OutgoingOutput::Close(_) => {
                    self.deliver_all();
                    self.incoming.0.closed();
                }
                OutgoingOutput::End => {
                    let may_end = !self.devices.exist || self.devices.way == Way::Passed;
                    assert!(may_end, "seed {}: it ends, and the devices are closed", self.seed);
                    self.kill(Side::Outgoing);
                    return;
                }
            }
        }
    }

    fn carry_out_incoming(&mut self) {
        while let Some(output) = self.incoming.0.next_output() {
            match &output {
                IncomingOutput::Send(message) => {
                    let late = self.chance.below(5);
                    self.to_outgoing.push_back((late, message.clone()));
                }
                IncomingOutput::Prepare(_) => self.begin(Side::Incoming, Work::Prepare),
                IncomingOutput::Take => self.begin(Side::Incoming, Work::Take),
                IncomingOutput::OpenDevices => {
                    let is_first = !std::mem::replace(&mut self.devices.is_asked, true);
                    assert!(is_first && self.devices.exist, "seed {}", self.seed);
                    self.begin_devices(Side::Incoming, DeviceWork::Open);
                }
                IncomingOutput::Kill => self.kill(Side::Outgoing),
                IncomingOutput::Own => assert!(!self.outgoing.1.is_alive, "seed {}", self.seed),
                // The socket of the other one refuses it, or is gone.
                IncomingOutput::StartAlone | IncomingOutput::End(_) => {
                    let (seed, is_fault) =
                        (self.seed, FAULTS.iter().any(|fault| output == end(fault)));
                    let other_is_left =
                        self.outgoing.1.is_alive || self.outgoing.1.closes_in.is_some();
                    let may_end = other_is_left || is_fault || output == IncomingOutput::StartAlone;
                    assert!(may_end, "seed {seed}: nobody is left, by {output:?}");
                    self.kill(Side::Incoming);
                    return;
                }
            }
        }
    }
}
