//! Whether a node is fit to serve.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether clients shall come to this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// They shall.
    #[default]
    Serving,
    /// Those that come are served, but no more shall come.
    Drained,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serving => "serving",
            Self::Drained => "drained",
        })
    }
}

/// The verdict on a node. Every place that tells of it has it from [`NodeVerdict::of`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeVerdict {
    /// Clients shall come, and nothing is wrong.
    #[default]
    Serving,
    /// The operator sends clients elsewhere.
    Drained,
    /// It is not fit to serve.
    Unfit,
}

impl NodeVerdict {
    /// The verdict on a node that the operator wants in this state, and that has these problems.
    pub fn of(state: NodeState, problems: &[String]) -> Self {
        match state {
            NodeState::Drained => Self::Drained,
            NodeState::Serving if problems.is_empty() => Self::Serving,
            NodeState::Serving => Self::Unfit,
        }
    }
}

impl fmt::Display for NodeVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serving => "serving",
            Self::Drained => "drained",
            Self::Unfit => "NOT FIT",
        })
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = Health)]
pub struct NodeHealth {
    /// Whether clients shall come to this node: it serves, and nothing is wrong.
    pub healthy: bool,
    /// The state that the operator wants.
    pub state: NodeState,
    /// What comes of both.
    pub verdict: NodeVerdict,
    /// Everything that makes the node unfit, in sentences.
    pub problems: Vec<String>,
    /// The data cores.
    pub cores: Vec<CoreHealth>,
    /// The ports.
    pub ports: Vec<PortHealth>,
    /// The groups of upstreams.
    pub groups: Vec<GroupHealth>,
    /// Rings that stay full, by the threads at their ends.
    pub stuck_rings: Vec<String>,
}

/// What makes the node unfit, and the groups that are not whole.
impl fmt::Display for NodeHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", NodeVerdict::of(self.state, &self.problems))?;
        self.problems.iter().try_for_each(|problem| writeln!(f, "{problem}"))?;
        self.groups.iter().filter(|group| group.alive < group.upstreams).try_for_each(
            |GroupHealth { group, upstreams, alive, .. }| {
                writeln!(f, "group {group}: {alive} of {upstreams} upstreams are alive")
            },
        )
    }
}

/// A data core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct CoreHealth {
    /// Its CPU.
    pub core: usize,
    /// The rcode of the answer to the probe through its line. Absent: none came, or the core polls no port.
    pub rcode: Option<u8>,
    /// Whether it polls ports, so that it is asked.
    pub is_asked: bool,
    /// How long ago it published its counters.
    pub silent_ms: u64,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct PortHealth {
    /// Its name in the config.
    pub port: String,
    /// Whether its device is there, with a link.
    pub link_up: bool,
}

/// A group of upstreams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct GroupHealth {
    /// Its name in the config.
    pub group: String,
    /// Its upstreams.
    pub upstreams: usize,
    /// Those that are not dead. An upstream is dead when it rests and a probe of ours had no reply, or SERVFAIL as all before.
    pub alive: usize,
    /// Whether the node is unfit without it.
    pub is_needed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_is_not_whole_is_told() {
        let group =
            |alive| GroupHealth { group: "a".to_owned(), upstreams: 2, alive, is_needed: true };
        let health = |alive| NodeHealth { groups: vec![group(alive)], ..NodeHealth::default() };
        assert_eq!(health(2).to_string(), "serving\n");
        assert_eq!(health(1).to_string(), "serving\ngroup a: 1 of 2 upstreams are alive\n");
    }

    #[test]
    fn a_node_with_a_problem_does_not_say_that_it_serves() {
        let problems = vec!["no port has a link".to_owned()];
        let unfit = NodeHealth { problems, ..NodeHealth::default() };
        assert_eq!(unfit.to_string(), "NOT FIT\nno port has a link\n");
        let drained = NodeHealth { state: NodeState::Drained, ..unfit };
        assert_eq!(drained.to_string(), "drained\nno port has a link\n");
        assert_eq!(NodeVerdict::of(NodeState::Serving, &[]), NodeVerdict::Serving);
    }
}
