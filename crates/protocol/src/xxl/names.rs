//! Names of what executors choose between.

macro_rules! names {
    ($(#[$doc:meta])* $kind:ident { $($(#[$each:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind { $($(#[$each])* $variant,)* }

        impl $kind {
            /// All of them.
            pub const ALL: &'static [$kind] = &[$($kind::$variant,)*];

            /// Its name on the wire.
            pub fn name(self) -> &'static str {
                match self { $($kind::$variant => $name,)* }
            }

            /// What has this name on the wire.
            pub fn from_name(name: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|known| known.name() == name)
            }
        }
    };
}

names! {
    /// What an executor does with a run of a job that it is busy with.
    Strategy {
        /// It waits its turn.
        Serial = "SERIAL_EXECUTION",
        /// It is refused.
        Discard = "DISCARD_LATER",
        /// It takes the place of what is running.
        Cover = "COVER_EARLY",
        /// It runs beside the others. Only Orth's executors know this one.
        Concurrent = "CONCURRENT",
    }
}

names! {
    /// What runs a job.
    GlueType {
        /// A handler of the executor.
        Bean = "BEAN",
        /// Java source.
        Groovy = "GLUE_GROOVY",
        /// bash.
        Shell = "GLUE_SHELL",
        /// Python 3, on older executors whatever `python` is.
        Python = "GLUE_PYTHON",
        /// Python 2.
        Python2 = "GLUE_PYTHON2",
        /// node.
        NodeJs = "GLUE_NODEJS",
        /// PowerShell.
        PowerShell = "GLUE_POWERSHELL",
        /// PHP.
        Php = "GLUE_PHP",
    }
}
