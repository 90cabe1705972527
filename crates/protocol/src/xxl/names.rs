//! Enumerations of the protocol, by their names on the wire.

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

            /// The value with this name on the wire.
            pub fn from_name(name: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|known| known.name() == name)
            }
        }
    };
}

names! {
    /// What an executor does with a run of a job that it is running already.
    Strategy {
        /// The new run waits.
        Serial = "SERIAL_EXECUTION",
        /// The new run is refused.
        Discard = "DISCARD_LATER",
        /// The running one is ended, and the new run starts.
        Cover = "COVER_EARLY",
        /// The new run starts beside the running one. Only Orth's executors know this.
        Concurrent = "CONCURRENT",
    }
}

names! {
    /// The kind of work that a run names.
    GlueType {
        /// A handler of the executor.
        Bean = "BEAN",
        /// Java source.
        Groovy = "GLUE_GROOVY",
        /// bash.
        Shell = "GLUE_SHELL",
        /// Python 3; on older executors whichever version `python` is.
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
