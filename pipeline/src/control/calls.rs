//! Answers that the main thread makes of what it knows.

use std::path::Path;
use std::time::SystemTime;

use pmdns_config::files::ListSummary;
use pmdns_config::narrow::to_usize;
use pmdns_config::{Blocklist, Config, ConfigText, DEFAULT_GROUP, Strategy, WrittenConfig};
use pmdns_control::answers::{
    BlockLists, ConfigDifference, DifferentKey, InstanceState, ListAnswer, UpstreamAnswer,
    UpstreamTable, ViewAnswer, Views,
};
use pmdns_engine::engine::Gauges;
use pmdns_engine::rule_names::RuleNames;
use serde_json::{Map, Value};

use super::reload::Reloader;
use crate::lists::FetchState;
use pmdns_changes::overlay::Overlay;

/// What runs, and since when, without what is said at run time.
pub fn state(reloader: &Reloader, gauges: &Gauges) -> InstanceState {
    InstanceState {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: gauges.clock.duration_of(gauges.clock.now()).as_secs(),
        rules: reloader.rules().to_owned(),
        reloading: reloader.is_reading(),
        process: std::process::id(),
        ..InstanceState::default()
    }
}

/// The groups of clients.
pub fn views(config: &Config) -> Views {
    let group = |group: Option<&String>| group.map_or(DEFAULT_GROUP, String::as_str).to_owned();
    let lists_in = |number: u8| {
        let lists = config.blocklists.iter().map(|list| (&list.file, &list.views));
        let zones = config.rpz.iter().map(|zone| (&zone.file, &zone.views));
        let here = lists.chain(zones).filter(|(_, views)| config.view_set(views).has(number));
        here.map(|(file, _)| file.display().to_string()).collect()
    };
    let others = ViewAnswer {
        name: "default".to_owned(),
        clients: Vec::new(),
        group: group(None),
        queries_per_second: None,
        lists: lists_in(0),
    };
    let views = config.view_numbers().skip(1).zip(&config.views);
    let views = views.filter(|(_, view)| !view.is_gone()).map(|(number, view)| ViewAnswer {
        name: view.name.clone(),
        clients: view.clients.iter().map(ToString::to_string).collect(),
        group: group(view.group.as_ref()),
        queries_per_second: view.queries_per_second,
        lists: lists_in(number),
    });
    Views { views: [others].into_iter().chain(views).collect() }
}

/// The resolvers that are asked.
pub fn upstreams(config: &Config, gauges: &Gauges, overlay: &Overlay) -> UpstreamTable {
    let roster = gauges.upstreams.roster();
    let upstreams = roster.in_use().into_iter().map(|(_, slot)| UpstreamAnswer {
        address: slot.upstream.address.to_string(),
        group: slot.upstream.group.clone(),
        weight: slot.upstream.weight,
        weighted: config.strategy_of(&slot.upstream.group) == Strategy::RoundRobin,
        drained: slot.upstream.is_drained,
        until_restart: overlay.is_upstream_passing(&slot.upstream.address),
        counters: match serde_json::to_value(slot.counters.snapshot()) {
            Ok(Value::Object(counters)) => counters,
            _ => Map::new(),
        },
    });
    UpstreamTable { upstreams: upstreams.collect() }
}

/// The block lists. `state_of` knows those that are fetched.
pub fn lists(
    config: &Config,
    names: &RuleNames,
    overlay: &Overlay,
    state_of: impl Fn(&Path) -> Option<FetchState>,
) -> BlockLists {
    let in_use = names.in_use();
    let read = in_use.iter().flat_map(|in_use| in_use.lists.summaries()).map(Option::as_ref);
    let lists = config.blocklists.iter().zip(read.chain(std::iter::repeat(None)));
    let list = |(one, read): (&Blocklist, _)| ListAnswer {
        added: overlay.has_list(&one.file),
        until_restart: overlay.is_list_passing(&one.file),
        ..list(one, read, state_of(&one.file).unwrap_or_default())
    };
    let lists = lists.map(list).chain(left_out(config, overlay)).collect();
    BlockLists { lists, addable: config.control.lists.is_some() }
}

/// The lists that could not be used at the start. Another one may have the name by now.
fn left_out(config: &Config, overlay: &Overlay) -> impl Iterator<Item = ListAnswer> {
    overlay.unusable_lists().filter_map(|(new, why)| {
        let file = config.control.lists.as_ref()?.join(&new.name);
        let is_other = config.blocklists.iter().any(|list| list.file == file);
        (!is_other).then(|| ListAnswer {
            file: file.display().to_string(),
            url: Some(new.url.clone()),
            views: new.views.clone(),
            added: true,
            left_out: Some(why.to_owned()),
            ..ListAnswer::default()
        })
    })
}

fn list(list: &Blocklist, read: Option<&ListSummary>, fetches: FetchState) -> ListAnswer {
    let changed = std::fs::metadata(&list.file).and_then(|facts| facts.modified()).ok();
    let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
    ListAnswer {
        file: list.file.display().to_string(),
        url: list.url.as_ref().map(ToString::to_string),
        names: read.map(|read| to_usize(read.names)),
        unknown_lines: read.map_or(0, |read| read.unknown),
        age_seconds: age.map(|age| age.as_secs()),
        views: list.views.clone(),
        failing: fetches.failing,
        last_error: fetches.last_error,
        ..ListAnswer::default()
    }
}

/// Where the file differs from the configuration in use.
pub fn difference(reloader: &Reloader) -> ConfigDifference {
    let read = ConfigText::read(reloader.path());
    let (file, error) = match &read {
        Ok(text) => (text.written(), text.error.as_ref().map(ToString::to_string)),
        Err(error) => (WrittenConfig::default(), Some(error.to_string())),
    };
    if read.is_err() {
        return ConfigDifference { error, ..ConfigDifference::default() };
    }
    let keys = reloader.written().differences(&file).into_iter().map(|one| DifferentKey {
        key: one.key,
        running: one.one,
        file: one.other,
        needs_restart: one.needs_restart,
    });
    let usable = read.as_ref().ok().filter(|text| text.error.is_none());
    let next = usable.and_then(|text| reloader.forecast(text));
    ConfigDifference { keys: keys.collect(), next, error, ..ConfigDifference::default() }
}

#[cfg(test)]
mod tests {
    use pmdns_engine::testing::{Rig, config};

    use super::*;

    #[test]
    fn lists_tell_what_was_read_of_them() {
        let file = std::env::temp_dir().join(format!("pmdns-read-list-{}", std::process::id()));
        std::fs::write(&file, "a.example\nno rule at all\n||b.example^$script\nc.example\n")
            .unwrap();
        let config = config(&format!(
            "[[blocklist]]\nfile = \"/nonexistent/ads\"\nurl = \"https://lists.example/ads\"\n\
             [[blocklist]]\nfile = {file:?}\n"
        ));
        let rig = Rig::new(&config);
        let state_of = |file: &Path| {
            let last_error = Some("no server".to_owned());
            file.ends_with("ads").then_some(FetchState { failing: 3, last_error })
        };
        let told = lists(&config, &rig.gauges.names, &Overlay::default(), state_of).lists;
        std::fs::remove_file(&file).unwrap();
        assert_eq!((told[0].names, told[0].unknown_lines), (None, 0), "not fetched yet");
        assert_eq!((told[0].failing, told[0].last_error.as_deref()), (3, Some("no server")));
        assert_eq!((told[1].names, told[1].unknown_lines), (Some(2), 2));
        assert_eq!((told[1].failing, told[1].last_error.as_deref()), (0, None));
    }

    #[test]
    fn d23_what_can_be_changed_is_told() {
        let turns = "[[group]]\nname = \"default\"\nstrategy = \"round_robin\"\n";
        for (text, is_weighted) in [("", false), (turns, true)] {
            let config = config(text);
            let told = upstreams(&config, &Rig::new(&config).gauges, &Overlay::default());
            assert!(
                !told.upstreams.is_empty()
                    && told.upstreams.iter().all(|one| one.weighted == is_weighted),
                "{told:?}"
            );
        }
        for (text, can_add) in [("", false), ("lists = \"/var/lib/pmdns/lists\"\n", true)] {
            let config = config(text);
            let names = &Rig::new(&config).gauges.names;
            let told = lists(&config, names, &Overlay::default(), |_| None);
            assert_eq!(told.addable, can_add, "{text}");
        }
    }

    #[test]
    fn a_view_is_told_with_its_rate_and_its_lists() {
        let config = config(
            "[[view]]\nname = \"kids\"\nclients = [\"192.0.2.0/24\"]\nqueries_per_second = 50\n\
             [[view]]\nname = \"guests\"\nclients = [\"198.51.100.0/24\"]\n\
             [[blocklist]]\nfile = \"/lists/ads\"\n\
             [[blocklist]]\nfile = \"/lists/adult\"\nviews = [\"kids\"]\n\
             [[rpz]]\nfile = \"/zones/threats\"\nviews = [\"default\", \"kids\"]\n",
        );
        let told: Vec<_> = views(&config)
            .views
            .into_iter()
            .map(|view| (view.name, view.queries_per_second, view.lists.join(" ")))
            .collect();
        let expected = [
            ("default", None, "/lists/ads /zones/threats"),
            ("kids", Some(50), "/lists/ads /lists/adult /zones/threats"),
            ("guests", None, "/lists/ads"),
        ];
        assert_eq!(told, expected.map(|(name, rate, lists)| (name.into(), rate, lists.into())));
    }
}
