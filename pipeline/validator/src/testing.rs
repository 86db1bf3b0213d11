//! What tests are made of.

use crate::name::Name;

/// A name in wire format.
pub(crate) fn name(text: &str) -> Name {
    let mut name = Vec::new();
    for label in text.split('.').filter(|label| !label.is_empty()) {
        name.push(label.len() as u8);
        name.extend(label.bytes());
    }
    name.push(0);
    name.into()
}
