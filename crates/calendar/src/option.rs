//! The names of options, as people write them in files and on the command line.

use std::fmt;

/// A name that is none of an option's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    option: &'static str,
    name: String,
    known: &'static [&'static str],
}

impl UnknownName {
    /// A name that is not one of the `known` values of an option.
    pub fn new(option: &'static str, name: &str, known: &'static [&'static str]) -> UnknownName {
        UnknownName { option, name: name.into(), known }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownName { option, name, known } = self;
        let shown: String = name.chars().take(24).collect();
        write!(f, "unknown {option} {shown:?}: expected {}", known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// Gives an enum its names, in both directions.
macro_rules! names {
    ($type:ty, $option:literal, $($value:path = $name:literal),+) => {
        impl $type {
            /// Its name in files and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $($value => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::UnknownName;

            fn from_str(name: &str) -> Result<$type, $crate::UnknownName> {
                match name {
                    $($name => Ok($value),)+
                    _ => Err($crate::UnknownName::new($option, name, &[$($name),+])),
                }
            }
        }
    };
}

pub(crate) use names;
