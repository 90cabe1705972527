//! The accounts that servers run under: they refuse to be root.

use std::path::Path;
use std::process::Command;

use std::os::unix::process::CommandExt;

/// A user of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    user: u32,
    group: u32,
}

impl Account {
    /// The account of this name, if this process is root; none otherwise, because then no other account is needed.
    pub(crate) fn instead_of_root(name: &str) -> Result<Option<Account>, String> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let accounts =
            std::fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
        let found = Account::find(&accounts, name).ok_or_else(|| format!("there is no user `{name}`"))?;
        Ok(Some(found))
    }

    fn find(accounts: &str, name: &str) -> Option<Account> {
        let fields = |line: &'_ str| -> Vec<String> { line.split(':').map(str::to_owned).collect() };
        let mine = accounts.lines().map(fields).find(|fields| fields[0] == name)?;
        Some(Account { user: mine.get(2)?.parse().ok()?, group: mine.get(3)?.parse().ok()? })
    }

    /// Makes it the owner of a folder.
    pub(crate) fn own(self, folder: &Path) -> Result<(), String> {
        std::os::unix::fs::chown(folder, Some(self.user), Some(self.group))
            .map_err(|error| format!("{}: {error}", folder.display()))
    }

    /// Starts a program under this account.
    pub(crate) fn run(self, command: &mut Command) {
        command.uid(self.user).gid(self.group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let accounts =
            "root:x:0:0::/:/bin/sh\npostgres2:x:1:1::/:/bin/sh\npostgres:x:104:110:,,,:/:/bin/bash\n";
        assert_eq!(Account::find(accounts, "postgres"), Some(Account { user: 104, group: 110 }));
        assert_eq!(Account::find(accounts, "mysql"), None);
    }
}
