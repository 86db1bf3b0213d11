//! The group whose members may talk to the instance.

/// The number of a group: written as a number, or looked up by its name in the text of `/etc/group` (group(5)).
pub(super) fn number_of(group: &str, groups: &str) -> Option<u32> {
    group.parse().ok().or_else(|| {
        let mut lines = groups.lines().map(|line| line.split(':'));
        lines.find_map(|mut fields| {
            let is_it = fields.next() == Some(group);
            fields.nth(1).filter(|_| is_it)?.parse().ok()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_a_number_or_a_name_of_the_file() {
        let groups = "root:x:0:\n# pmdns:x:7:\npmdns:x:997:alice,bob\nbroken\nodd:x:x:\n";
        assert_eq!(number_of("pmdns", groups), Some(997));
        assert_eq!(number_of("1234", groups), Some(1234));
        assert_eq!(number_of("root", groups), Some(0));
        for nobody in ["alice", "odd", "broken", "", "x"] {
            assert_eq!(number_of(nobody, groups), None, "{nobody}");
        }
    }
}
