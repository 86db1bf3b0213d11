//! The module dns64 and its settings.

use super::clause::{Conf, Setting};
use crate::meaning::{Forwarder, NONE, network, truth};

/// The prefix if none is set.
const USUAL_PREFIX: &str = "64:ff9b::/96";

pub(super) fn map(conf: &Conf, forwarder: &mut Forwarder) {
    let settings: Vec<&Setting> = conf.server.settings.iter().collect();
    let own = || settings.iter().filter(|one| one.key.starts_with("dns64-"));
    let last = |key: &str| settings.iter().rfind(|one| one.key == key);
    let has_module = |one: &&&Setting| {
        one.values.iter().flat_map(|value| value.split_whitespace()).any(|word| word == "dns64")
    };
    let Some(module) = last("module-config").filter(has_module) else {
        // Without the module they have no effect.
        return own().for_each(|one| forwarder.draft.unneeded(&one.origin));
    };
    let prefix = last("dns64-prefix");
    let origin = Some(prefix.unwrap_or(module).origin.clone());
    let text = prefix.map_or(USUAL_PREFIX, |one| one.value());
    let plain = network(text).map_or_else(|| text.to_owned(), |prefix| prefix.to_string());
    let is_on = |one: &&&Setting| truth(one.value()) == Some(true);
    let all = last("dns64-synthall").filter(is_on);
    let table = forwarder.draft.add("dns64", origin.clone());
    table.set("prefix", plain, origin);
    if let Some(all) = all {
        // No AAAA record counts.
        table.push("exclude", "::/0", Some(all.origin.clone()));
    }
    for one in own() {
        match &*one.key {
            "dns64-prefix" => forwarder.draft.read(&one.origin),
            "dns64-synthall" if all.is_some() => {}
            "dns64-synthall" => forwarder.draft.unneeded(&one.origin),
            "dns64-ignore-aaaa" => {
                let why = "`dns64.exclude` has addresses whose AAAA records are ignored, not names";
                forwarder.draft.unmapped(&one.origin, why);
            }
            _ => forwarder.draft.unmapped(&one.origin, NONE),
        }
    }
}
