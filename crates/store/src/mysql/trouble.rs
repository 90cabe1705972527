//! What can go wrong on the way, by what is done about it.

use mysql_async::{DriverError, Error, ServerError};
use punctual_core::model::Text;
use punctual_node::ports::StoreError;

use super::day::Need;

/// Why a verb has no answer yet.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It is final. The transaction is rolled back, and the connection is as good as before.
    Refused(StoreError),
    /// Another transaction was in the way, and this one was rolled back: the verb is asked again.
    Crossed(Text),
    /// Something unique is there already: the verb is asked again, and looks before it writes.
    Twin(Text),
    /// What is known of the days is not so any more: it is read anew, and the verb is asked again.
    OldDays,
    /// This table has to be made first.
    Lacks(Need),
    /// The server takes no writes, as after a switch-over. Nothing was written; another connection may lead to the primary.
    ReadOnly(Text),
    /// The connection is of no use any more, and whether anything was written is not known.
    Broken(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Refused(error)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        let Error::Server(said) = &error else {
            return Trouble::Broken(unknown(&error));
        };
        let text = || Text::from(format!("{} ({})", said.message, said.code));
        match said.code {
            // Deadlock, lock wait, a record or a table that changed since the snapshot.
            1213 | 1205 | 1020 | 1412 => Trouble::Crossed(text()),
            1062 => Trouble::Twin(text()),
            1146 => Trouble::OldDays,
            // Disk full in three wordings, and a table that has no room.
            1021 | 1114 | 3675 | 1026 => Trouble::Refused(StoreError::Full(text())),
            // A transaction or a server that takes no writes. Told instead of a commit too, which is then rolled back.
            1290 | 1792 | 1836 => Trouble::ReadOnly(text()),
            _ => Trouble::Broken(explain(said)),
        }
    }
}

impl Trouble {
    /// The same, where no verb had begun.
    pub(super) fn before_anything(self) -> Trouble {
        match self {
            Trouble::Broken(StoreError::Unknown(said)) => Trouble::Broken(StoreError::Away(said)),
            trouble => trouble,
        }
    }
}

/// What a driver's error says; it never says the password.
pub(super) fn unknown(error: &Error) -> StoreError {
    let said = match error {
        // For users that it does not know, MySQL names a way to sign in at random.
        Error::Driver(DriverError::UnknownAuthPlugin { name }) => format!(
            "the server wants to authenticate the user by {name}, which is not known here; check the user name in the database \
             URL first: the server does so too for users that it does not have"
        ),
        other => other.to_string(),
    };
    StoreError::Unknown(said.into())
}

/// The error of a server that refused, with advice where the reason is in the configuration. What the transaction did is not
/// known.
fn explain(said: &ServerError) -> StoreError {
    let advice = match said.code {
        1045 | 1698 => "the user name or the password in the database URL is wrong: ",
        1049 => "there is no such database; create it first, or correct the database URL: ",
        1044 | 1142 | 1227 | 1370 => "the user lacks rights; grant it all privileges on the database: ",
        1040 | 1203 => "the server has no room for more connections; raise max_connections: ",
        _ => "",
    };
    StoreError::Unknown(format!("{advice}{} ({})", said.message, said.code).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(code: u16) -> Trouble {
        Error::Server(ServerError { code, message: "said".into(), state: "HY000".into() }).into()
    }

    #[test]
    fn what_was_in_the_way_of_others_is_asked_again() {
        for code in [1213, 1205, 1020] {
            assert!(matches!(trouble(code), Trouble::Crossed(_)), "{code}");
        }
        assert!(matches!(trouble(1062), Trouble::Twin(_)));
        assert!(matches!(trouble(1146), Trouble::OldDays));
    }

    #[test]
    fn a_way_to_sign_in_that_is_not_known_leads_to_the_user_name() {
        let error = Error::Driver(DriverError::UnknownAuthPlugin { name: "sha256_password".into() });
        let said = unknown(&error).to_string();
        assert!(said.contains("sha256_password") && said.contains("check the user name"), "{said}");
    }

    #[test]
    fn what_the_server_cannot_do_is_told_by_what_to_do() {
        for code in [1021, 1114] {
            assert!(matches!(trouble(code), Trouble::Refused(StoreError::Full(_))), "{code}");
        }
        for code in [1290, 1792, 1836] {
            assert!(matches!(trouble(code), Trouble::ReadOnly(_)), "{code}");
        }
        for code in [1053, 1317, 1927, 1040] {
            assert!(matches!(trouble(code), Trouble::Broken(StoreError::Unknown(_))), "{code}");
        }
    }
}
