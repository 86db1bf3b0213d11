//! Which list has the rule that decides, for those who log it.

use super::Ruleset;
use crate::policy::list_number::ListNumber;

impl Ruleset {
    /// The list with the rule that decides about a query of this client, whose address has 4 or 16 bytes. `None`: none does, or
    /// a local record answers.
    pub fn list_of(&self, name: &[u8], qtype: u16, client: &[u8], view: u8) -> Option<ListNumber> {
        let runtime = self.runtime.as_ref();
        if runtime.is_some_and(|runtime| runtime.local(name, qtype).is_some()) {
            return None;
        }
        let said = runtime.and_then(|runtime| runtime.said_of(name, view));
        if let Some(Some(_)) = said {
            return Some(ListNumber::Runtime);
        }
        let candidates = self.read.filter.candidates(name);
        let local = self.read.local.get(usize::from(view));
        let is_local = local.is_some_and(|local| local.find(name, &candidates, qtype).is_some());
        if is_local || said.is_some() {
            return None;
        }
        for zone in self.policies_in(view) {
            let action = zone.of_client(client).or_else(|| zone.of_name(name, &candidates));
            if action.is_some() {
                return Some(ListNumber::Zone(zone.number));
            }
        }
        let (_, list) = self.read.blocked.decide(name, &candidates, view)?;
        Some(ListNumber::of_blocked(list))
    }
}
