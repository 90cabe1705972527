//! Gives an enum its names, in both directions: as people read them and as the store keeps them.

macro_rules! names {
    ($type:ident, $option:literal, $($value:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// All of them, in the order of the definition.
            pub const ALL: &'static [$type] = &[$($type::$value),+];

            /// Its name for people and programs outside.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = calendar::UnknownName;

            fn from_str(name: &str) -> Result<$type, calendar::UnknownName> {
                match name {
                    $($name => Ok($type::$value),)+
                    _ => Err(calendar::UnknownName::new($option, name, &[$($name),+])),
                }
            }
        }
    };
}

pub(crate) use names;
