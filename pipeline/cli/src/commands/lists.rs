//! Commands on block lists.

use std::net::IpAddr;

use clap::{Args, Subcommand};

use pmdns_control::{NewList, ask};

use super::instance::{Changing, Instance, Listing};
use crate::failure::Failure;

/// Commands on block lists. Their effect holds over reloads and restarts.
#[derive(Subcommand)]
pub(super) enum ListCommand {
    /// Print the lists in use.
    #[command(visible_alias = "list")]
    #[command(after_help = "Example: pmdns list show")]
    Show {
        /// Where it is asked, and how it is printed.
        #[command(flatten)]
        listed: Listing,
    },
    /// Fetch one more list by HTTPS, and block its names. The file names the folder for it: `control.lists`.
    #[command(
        after_help = "Example: pmdns list add ads --url https://lists.example/ads.txt --view kids"
    )]
    Add {
        /// The name of the list: letters, digits, `-` and `_`.
        name: String,
        /// The URL of the list, as in `https://lists.example/ads.txt`.
        #[arg(long)]
        url: String,
        /// The address of the server; without it the system's resolver is asked.
        #[arg(long, value_name = "IP")]
        address: Option<IpAddr>,
        /// How often the list is fetched; without this once a day.
        #[arg(long, value_name = "SECONDS")]
        refresh_seconds: Option<u64>,
        /// A view in which the list holds; may be given again. Without one the list holds in all views.
        #[arg(long = "view", value_name = "VIEW")]
        views: Vec<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Remove a list that `list add` has added, with its file.
    #[command(after_help = "Example: pmdns list remove ads")]
    Remove {
        /// The name of the list.
        name: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
}

impl ListCommand {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Show { listed } => listed.show(ask::Lists),
            Self::Add { name, url, address, refresh_seconds, views, instance } => {
                let new = NewList { name, url, address, refresh_seconds, views };
                instance.has_done(ask::AddList(new))
            }
            Self::Remove { name, instance } => instance.has_done(ask::RemoveList(name)),
        }
    }
}

#[derive(Args)]
pub(super) struct Refresh {
    /// The last part of the name of the list's file.
    name: String,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
}

impl Refresh {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.instance.has_done(ask::RefreshList(self.name))
    }
}
