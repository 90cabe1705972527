//! Planted bugs, to test that the simulator finds them: in the nodes, and at the seam between them and the store.

use punctual_node::Planted;

use crate::setup::{Plant, Shape, WorldSetup};

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// In every node.
    Node(Planted),
    /// In the store, or in the connection to it.
    Seam(Plant),
}

/// All bugs that can be planted.
pub const ALL: [Bug; 34] = [
    Bug::Seam(Plant::PlanInTwo),
    Bug::Node(Planted::SendBeforeGate),
    Bug::Seam(Plant::GateWithoutKey),
    Bug::Node(Planted::ResendAtMostOnce),
    Bug::Seam(Plant::ExpiryByAskersClock),
    Bug::Node(Planted::WheelKeptOnLoss),
    Bug::Node(Planted::LooksBackOneSlot),
    Bug::Node(Planted::MisfireOffByOne),
    Bug::Seam(Plant::LateResultWins),
    Bug::Seam(Plant::UnknownToldAsFailure),
    Bug::Seam(Plant::NumbersReused),
    Bug::Seam(Plant::SettledEarly),
    Bug::Node(Planted::AcknowledgedEarly),
    Bug::Node(Planted::NoSecondLook),
    Bug::Node(Planted::MarkBehind),
    Bug::Node(Planted::ChangeSeenUnread),
    Bug::Node(Planted::RetryUnasked),
    Bug::Node(Planted::OwnClock),
    Bug::Seam(Plant::JoinedEarly),
    Bug::Node(Planted::IdleBelieved),
    Bug::Node(Planted::OverridesForgotten),
    Bug::Node(Planted::SlowCallsStay),
    Bug::Node(Planted::SharesIgnored),
    Bug::Seam(Plant::CalledJobByJob),
    Bug::Seam(Plant::ClocksOverlooked),
    Bug::Seam(Plant::KeysUnheld),
    Bug::Node(Planted::ClaimsBelieved),
    Bug::Node(Planted::SupposedAsSent),
    Bug::Node(Planted::GateAsSent),
    Bug::Node(Planted::ResultsForgotten),
    Bug::Node(Planted::AdoptedUnasked),
    Bug::Node(Planted::NoRepeatGrace),
    Bug::Node(Planted::CoalescedAlone),
    Bug::Node(Planted::MarkAfterSend),
];

impl Bug {
    /// Its name on the command line.
    pub fn name(self) -> String {
        match self {
            Bug::Node(bug) => format!("{bug:?}"),
            Bug::Seam(bug) => format!("{bug:?}"),
        }
    }

    /// The shape of the worlds in which it shows.
    pub fn shape(self) -> Shape {
        match self {
            Bug::Node(Planted::SlowCallsStay) => Shape::Hung,
            Bug::Node(Planted::SharesIgnored) => Shape::Crowded,
            Bug::Seam(Plant::CalledJobByJob) => Shape::Narrow,
            _ => Shape::Drawn,
        }
    }

    /// The world with this bug.
    pub fn plant(self, setup: WorldSetup) -> WorldSetup {
        let setup = setup.shaped(self.shape());
        match self {
            Bug::Node(bug) => setup.planted(bug),
            Bug::Seam(bug) => setup.with_plant(bug),
        }
    }
}

/// The bug of that name.
pub fn named(name: &str) -> Option<Bug> {
    ALL.into_iter().find(|bug| bug.name() == name)
}
