//! Addresses of private networks in upstreams' answers.

use pmdns_config::{Rebinding, RebindingAction};
use pmdns_stages::testing::query;

use super::rig::Setup;
use super::stub::Stub;

#[test]
fn strangers_lead_nowhere_private_and_the_office_does() {
    let stranger = Stub::replying(|asked| asked.address());
    let office = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stranger, &office]).forward("corp.test", 1).start();
    // The stubs' address stands for one of a private network.
    let table = |except: &[&str], action| Rebinding {
        addresses: vec!["0.0.0.0/0".parse().unwrap()],
        except: except.iter().map(|name| (*name).to_owned()).collect(),
        action,
        ..Rebinding::default()
    };
    rig.reload(|config| config.rebindings = vec![table(&["corp.test"], RebindingAction::Remove)]);
    for _ in 0..2 {
        let answer = rig.resolve(&query("page.test. A"));
        assert_eq!((answer.rcode, answer.records), (0, 0));
        assert_eq!(rig.resolve(&query("www.corp.test. A")).records, 1);
    }
    assert_eq!((stranger.asked().len(), office.asked().len()), (1, 1), "both are cached");
    rig.reload(|config| config.rebindings = vec![table(&[], RebindingAction::Refuse)]);
    assert_eq!(rig.resolve(&query("other.test. A")).rcode, 5);
    assert_eq!(rig.resolve(&query("new.corp.test. A")).rcode, 5, "forwarding excepts nothing");
    rig.reload(|config| config.rebindings.clear());
    assert_eq!(rig.resolve(&query("again.test. A")).records, 1);
    rig.finish();
}
