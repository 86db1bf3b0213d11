//! The word that an operator probably meant instead of an unknown one.

/// How alike two words must be to be offered, from 0 to 1: one or two slips in a short key.
const ALIKE: f64 = 0.8;

/// The candidate most like `word`, if any is like it at all.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_understood_and_other_words_are_not() {
        let keys = ["rx_descriptors", "tx_descriptors", "device", "max_udp_size"];
        assert_eq!(nearest("rx_descriptor", keys), Some("rx_descriptors"));
        assert_eq!(nearest("devcie", keys), Some("device"));
        assert_eq!(nearest("max_udp", keys), Some("max_udp_size"));
        assert_eq!(nearest("zebra", keys), None);
    }
}
