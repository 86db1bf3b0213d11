//! The instance and the configuration in use, for people.

use std::fmt;

use crate::answers::{
    ConfigDifference, Configuration, DifferentKey, HandOverState, InstanceState, MAX_CHANGES_SHOWN,
    RuntimeChange,
};
use crate::listings::whose;

impl fmt::Display for InstanceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, uptime_seconds, rules, reloading, entries, records, .. } = self;
        writeln!(f, "pmdns {version}, process {}, up for {uptime_seconds} s", self.process)?;
        match &self.hand_over {
            Some(HandOverState::Starting) => writeln!(f, "the next process is started")?,
            Some(HandOverState::UnderWay(Some(process))) => {
                writeln!(f, "process {process} takes over")?;
            }
            Some(HandOverState::UnderWay(None)) => writeln!(f, "another process takes over")?,
            Some(HandOverState::Failed(why)) => writeln!(f, "no other process took over: {why}")?,
            None => {}
        }
        if self.standby {
            writeln!(f, "standby: another node has the addresses")?;
        }
        if self.drained {
            writeln!(f, "drained: clients shall come no more")?;
        }
        writeln!(f, "rules: {rules}")?;
        if *reloading {
            writeln!(f, "files are being read for a reload")?;
        }
        let end = if self.kept { "" } else { ", until the instance stops" };
        writeln!(f, "{entries} names and {records} local records of run time{end}")
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { toml, changes, entries, records } = self;
        f.write_str(toml)?;
        changes.iter().try_for_each(|change| writeln!(f, "# {change}"))?;
        let (entries, records) = (entries.len(), records.len());
        writeln!(
            f,
            "# {entries} names and {records} local records of run time: `pmdns entries`, `pmdns local list`"
        )
    }
}

impl fmt::Display for ConfigDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, next, changes, entries, records, clients, limits, .. } = self;
        for DifferentKey { key, running, file, needs_restart } in keys {
            let value =
                |value: &Option<String>| value.clone().unwrap_or_else(|| "(absent)".to_owned());
            let how = if *needs_restart { "another process" } else { "reload" };
            writeln!(f, "{key}: {} in use, {} in the file ({how})", value(running), value(file))?;
        }
        next.iter().try_for_each(|next| writeln!(f, "a reload: {next}"))?;
        changes.iter().try_for_each(|change| writeln!(f, "{change}"))?;
        // There may be more.
        let least = if changes.len() < MAX_CHANGES_SHOWN { "" } else { "at least " };
        writeln!(
            f,
            "{} keys differ; {least}{} changes of run time are in no file of configuration; among them {entries} names, \
             {records} local records, {clients} clients, {limits} limits",
            keys.len(),
            changes.len()
        )
    }
}

impl fmt::Display for RuntimeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { change, by, since, until_restart, after_restart } = self;
        let when = if *after_restart { "after a restart" } else { "at run time" };
        write!(f, "{when}: {change} ({})", whose(by, *since, *until_restart))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_under_way_and_what_is_not_kept_are_told() {
        let state = InstanceState {
            version: "1.2.3".into(),
            uptime_seconds: 60,
            rules: "7 local names".into(),
            entries: 3,
            kept: true,
            process: 7,
            ..InstanceState::default()
        };
        let start = "pmdns 1.2.3, process 7, up for 60 s\nrules: 7 local names\n";
        let end = "3 names and 0 local records of run time";
        assert_eq!(state.to_string(), format!("{start}{end}\n"));
        let failed = Some(HandOverState::Failed("no room".into()));
        let told = InstanceState { hand_over: failed, ..state.clone() }.to_string();
        assert!(told.contains("\nno other process took over: no room\n"), "{told}");
        let told = InstanceState { standby: true, drained: true, ..state.clone() }.to_string();
        assert!(told.contains("\nstandby: ") && told.contains("\ndrained: "), "{told}");
        let state = InstanceState { reloading: true, kept: false, ..state };
        assert_eq!(
            state.to_string(),
            format!("{start}files are being read for a reload\n{end}, until the instance stops\n")
        );
    }

    #[test]
    fn a_key_that_needs_another_process_is_told_from_one_that_a_reload_changes() {
        let key = |key: &str, needs_restart| DifferentKey {
            key: key.into(),
            needs_restart,
            ..DifferentKey::default()
        };
        let keys = vec![key("cache.size", true), key("block", false)];
        let told = ConfigDifference { keys, ..ConfigDifference::default() }.to_string();
        assert!(
            told.starts_with(
                "cache.size: (absent) in use, (absent) in the file (another process)\n\
                 block: (absent) in use, (absent) in the file (reload)\n"
            ),
            "{told}"
        );
    }

    #[test]
    fn what_comes_back_with_a_restart_is_told_beside_what_holds_until_then() {
        let change =
            RuntimeChange { by: "user 0".into(), since: 951_827_696, ..Default::default() };
        let of_now =
            RuntimeChange { change: "name a".into(), until_restart: true, ..change.clone() };
        let after = RuntimeChange { change: "name b".into(), after_restart: true, ..change };
        let changes = vec![of_now, after];
        let told = ConfigDifference { changes, ..ConfigDifference::default() }.to_string();
        assert!(
            told.starts_with(
                "at run time: name a (user 0, 2000-02-29T12:34:56Z, until a restart)\n\
                 after a restart: name b (user 0, 2000-02-29T12:34:56Z)\n"
            ),
            "{told}"
        );
    }
}
