//! The packages of others that tests use. `cargo xtask test` installs them before it compiles; where a test is started in
//! another way, it installs what it needs. Both use the same folder, so that a package is fetched once.

mod install;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use install::{ALL, Failure};
pub(crate) use install::{Package, succeed};

/// The folder of a package, which is installed on the first call if it is not there.
pub(crate) fn folder(package: Package) -> &'static Path {
    static FOLDERS: [OnceLock<PathBuf>; ALL.len()] = [const { OnceLock::new() }; ALL.len()];
    // One at a time: Maven's own folder is not made for more.
    static ALONE: Mutex<()> = Mutex::new(());
    FOLDERS[package as usize].get_or_init(|| {
        let _alone = ALONE.lock().expect("no panic");
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/executors");
        let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        let (title, registry) = (package.title(), package.registry());
        package.install(&programs, &packages).unwrap_or_else(|failure| match failure {
            Failure::Fetch(output) => panic!("cannot fetch {title} from {registry}: {output}"),
            Failure::Make(output) => panic!("cannot install {title}: {output}"),
        })
    })
}
