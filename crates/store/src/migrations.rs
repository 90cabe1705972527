//! The migrations of every database, in order. One that was published is never edited: a mistake is mended by the next.

/// A step of a schema.
pub(crate) struct Migration {
    pub(crate) version: u32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
    /// Columns that it adds to the runs of each day, with their types. SQLite and MySQL have a table for each day, whose name
    /// no file can know; those that are made later have the columns. On PostgreSQL the parent hands them down.
    pub(crate) columns_of_runs: &'static [&'static str],
}

impl Migration {
    /// Whether programs from before it must not go on with the database.
    pub(crate) fn is_breaking(&self) -> bool {
        self.sql.starts_with("-- breaking")
    }

    /// FNV-1a: what was applied must be what we have, letter by letter. It finds a changed text, and stops no attacker.
    pub(crate) fn checksum(&self) -> u64 {
        let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.sql.bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }
}

/// The newest version of a schema.
pub(crate) const fn newest(migrations: &[Migration]) -> u32 {
    migrations[migrations.len() - 1].version
}

macro_rules! migrations {
    ($dialect:literal: $($version:literal = $name:literal $(with runs $column:literal)?),+ $(,)?) => {
        &[$(Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!("../migrations/", $dialect, "/", $name, ".sql")),
            columns_of_runs: &[$($column)?],
        },)+]
    };
}

pub(crate) const SQLITE: &[Migration] = migrations!("sqlite":
    1 = "0001_first",
    2 = "0002_door",
    3 = "0003_browse",
    4 = "0004_executors",
    5 = "0005_cluster",
    6 = "0006_retention",
    7 = "0007_paused",
    8 = "0008_jobs_runs",
    9 = "0009_overrides" with runs "overrides text",
);

pub(crate) const POSTGRES: &[Migration] = migrations!("postgres":
    1 = "0001_first",
    2 = "0002_retention",
    3 = "0003_applications",
    4 = "0004_paused",
    5 = "0005_jobs_runs",
    6 = "0006_overrides",
);

pub(crate) const MYSQL: &[Migration] = migrations!("mysql":
    1 = "0001_first",
    2 = "0002_retention",
    3 = "0003_applications",
    4 = "0004_paused",
    5 = "0005_jobs_runs",
    6 = "0006_overrides" with runs "overrides longtext character set utf8mb4 collate utf8mb4_bin",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_follow_each_other_and_are_in_the_names() {
        for migrations in [SQLITE, POSTGRES, MYSQL] {
            for (migration, version) in migrations.iter().zip(1..) {
                assert_eq!(migration.version, version);
                assert!(migration.name.starts_with(&format!("{version:04}_")), "{}", migration.name);
            }
        }
    }
}
