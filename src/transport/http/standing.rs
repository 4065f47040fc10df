//! Where one HTTP link stands with its server: the revision, the server's session, who
//! renews it, whether `initialized` went out. A plain value with decisions; it is kept
//! in a `watch` channel, so that tasks can wait for a change of it. Pure.

use bytes::Bytes;
use http::header::HeaderValue;

use super::fault::Miss;
use crate::wire::era::{Era, Revision};

/// How far `notifications/initialized` got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Initialized {
    /// Not asked for yet.
    #[default]
    Unsent,
    /// On its way: requests must not overtake it.
    Sending,
    /// The server has it, or had its chance.
    Sent,
}

/// The state of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// Set by the handshake.
    pub(super) revision: Option<Revision>,
    /// The last `initialize` request, to be sent again when the session is lost.
    pub(super) initialize: Option<Bytes>,
    /// Params of `subscriptions/listen`, from the `server/discover` exchange.
    pub(super) listen_params: Option<Bytes>,
    /// Progress of `notifications/initialized`.
    pub(super) initialized: Initialized,
    session: Option<HeaderValue>,
    /// Counts sessions; 0 is the one of the handshake.
    epoch: u64,
    /// Whether a request was answered in this session.
    proved: bool,
    /// Whether a request was answered in any session.
    ever_proved: bool,
    renewing: bool,
    /// Renewals that ended, well or not.
    renewals: u64,
    failure: Option<Miss>,
}

/// What a request was sent with: tells whether the session that it lost is still current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    epoch: u64,
    renewals: u64,
}

/// What a request does after it learned that its session is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AfterLoss {
    /// The session was renewed meanwhile: send again.
    Resend,
    /// Somebody renews it: wait, then ask again.
    Wait,
    /// Renew it, then ask again.
    Renew,
    /// The renewal failed.
    Fail(Miss),
    /// Renewing makes no sense: a fresh session was lost before it answered anything.
    Hopeless,
}

impl Standing {
    /// The session id to send, if there is one.
    pub(super) fn session(&self) -> Option<&HeaderValue> {
        self.session.as_ref()
    }

    /// The era, once it is known.
    pub(super) fn era(&self) -> Option<Era> {
        self.revision.map(Revision::era)
    }

    /// Counts sessions.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether somebody renews the session.
    pub(super) fn is_renewing(&self) -> bool {
        self.renewing
    }

    /// Whether a request may go out now.
    pub(super) fn is_clear(&self) -> bool {
        !self.renewing && self.initialized != Initialized::Sending
    }

    /// Whether side streams may be open now.
    pub(super) fn allows_side_stream(&self) -> bool {
        match self.era() {
            None => false,
            Some(Era::Modern) => true,
            Some(Era::Legacy) => self.is_clear() && self.initialized == Initialized::Sent,
        }
    }

    /// To be kept by a request while it is out.
    pub(super) fn ticket(&self) -> Ticket {
        Ticket { epoch: self.epoch, renewals: self.renewals }
    }

    /// A handshake begins: an older session is of no use any more.
    pub(super) fn opening(&mut self, initialize: Bytes) {
        self.initialize = Some(initialize);
        self.session = None;
    }

    /// The server answered `initialize` with this session id, or with none.
    pub(super) fn opened(&mut self, session: Option<HeaderValue>) {
        self.session = session;
        self.proved = false;
    }

    /// A request was answered in the session of `ticket`.
    pub(super) fn prove(&mut self, ticket: Ticket) {
        if self.epoch == ticket.epoch {
            self.proved = true;
            self.ever_proved = true;
        }
    }

    /// Whether the session of `ticket` is the current one and never answered anything.
    pub(super) fn is_unproved(&self, ticket: Ticket) -> bool {
        self.epoch == ticket.epoch && !self.proved
    }

    /// Whether any session of this link ever answered a request.
    pub(super) fn ever_proved(&self) -> bool {
        self.ever_proved
    }

    /// Decides for one request whose session is lost. `Renew` makes the caller the one
    /// who renews: it must call `renewed` or `not_renewed` in any case.
    pub(super) fn after_loss(&mut self, ticket: Ticket) -> AfterLoss {
        if self.renewing {
            return AfterLoss::Wait;
        }
        if self.epoch != ticket.epoch {
            return AfterLoss::Resend;
        }
        if self.renewals != ticket.renewals
            && let Some(failure) = &self.failure
        {
            return AfterLoss::Fail(failure.clone());
        }
        if (self.epoch > 0 && !self.proved) || self.initialize.is_none() {
            return AfterLoss::Hopeless;
        }
        self.renewing = true;
        AfterLoss::Renew
    }

    /// The server opened a new session; `initialized` is still to be sent.
    pub(super) fn reopened(&mut self, session: Option<HeaderValue>, revision: Revision) {
        self.opened(session);
        self.revision = Some(revision);
        self.epoch += 1;
    }

    /// The renewal is complete.
    pub(super) fn renewed(&mut self) {
        self.renewing = false;
        self.renewals += 1;
        self.failure = None;
    }

    /// The renewal failed; all that wait for it fail with this.
    pub(super) fn not_renewed(&mut self, failure: Miss) {
        self.renewing = false;
        self.renewals += 1;
        self.failure = Some(failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::LinkFault;
    use crate::transport::link::ExchangeFault;

    fn ready() -> Standing {
        let mut standing = Standing::default();
        standing.opening(Bytes::from_static(b"{}"));
        standing.opened(Some(HeaderValue::from_static("one")));
        standing.revision = Some(Revision::R2025_11_25);
        standing.initialized = Initialized::Sent;
        standing
    }

    fn renew(standing: &mut Standing, id: &'static str) {
        standing.reopened(Some(HeaderValue::from_static(id)), Revision::R2025_11_25);
        standing.renewed();
    }

    fn closed() -> Miss {
        Miss::new(ExchangeFault::Lost(LinkFault::Closed))
    }

    #[test]
    fn of_many_requests_that_lose_the_session_exactly_one_renews_it() {
        let mut standing = ready();
        let tickets = [standing.ticket(); 5];
        let verdicts = tickets.map(|ticket| standing.after_loss(ticket));
        assert_eq!(verdicts[0], AfterLoss::Renew);
        assert!(verdicts[1..].iter().all(|v| *v == AfterLoss::Wait));
        assert!(!standing.is_clear());
        renew(&mut standing, "two");
        assert!(standing.is_clear());
        for ticket in tickets {
            assert_eq!(standing.after_loss(ticket), AfterLoss::Resend);
        }
        assert_eq!(standing.session().unwrap(), "two");
    }

    #[test]
    fn a_fresh_session_that_is_lost_before_it_answered_is_not_renewed_again() {
        let mut standing = ready();
        let first = standing.ticket();
        assert_eq!(standing.after_loss(first), AfterLoss::Renew);
        renew(&mut standing, "two");
        let second = standing.ticket();
        assert_eq!(standing.after_loss(second), AfterLoss::Hopeless);
        assert!(!standing.ever_proved() && standing.is_unproved(second));
    }

    #[test]
    fn a_session_that_answered_is_renewed_each_time_it_is_lost() {
        let mut standing = ready();
        for _ in 0..4 {
            let ticket = standing.ticket();
            standing.prove(ticket);
            assert_eq!(standing.after_loss(ticket), AfterLoss::Renew);
            renew(&mut standing, "next");
        }
        let ticket = standing.ticket();
        assert_eq!(standing.after_loss(ticket), AfterLoss::Hopeless);
        assert!(standing.ever_proved());
    }

    #[test]
    fn an_old_answer_does_not_prove_a_new_session() {
        let mut standing = ready();
        let old = standing.ticket();
        standing.after_loss(old);
        renew(&mut standing, "two");
        standing.prove(old);
        let new = standing.ticket();
        assert_eq!(standing.after_loss(new), AfterLoss::Hopeless);
        assert!(!standing.ever_proved() && standing.is_unproved(new));
    }

    #[test]
    fn a_failed_renewal_is_shared_by_those_who_waited_and_tried_again_by_later_ones() {
        let mut standing = ready();
        let waiting = standing.ticket();
        assert_eq!(standing.after_loss(waiting), AfterLoss::Renew);
        assert_eq!(standing.after_loss(waiting), AfterLoss::Wait);
        standing.not_renewed(closed());
        assert_eq!(standing.after_loss(waiting), AfterLoss::Fail(closed()));
        let later = standing.ticket();
        assert_eq!(standing.after_loss(later), AfterLoss::Renew);
    }

    #[test]
    fn nothing_overtakes_initialized_and_side_streams_wait_for_it() {
        let mut standing = ready();
        for (initialized, clear, side) in [
            (Initialized::Unsent, true, false),
            (Initialized::Sending, false, false),
            (Initialized::Sent, true, true),
        ] {
            standing.initialized = initialized;
            assert_eq!(
                (standing.is_clear(), standing.allows_side_stream()),
                (clear, side),
                "{initialized:?}"
            );
        }
        standing.revision = Some(Revision::R2026_07_28);
        standing.initialized = Initialized::Unsent;
        assert!(standing.allows_side_stream());
        standing.revision = None;
        assert!(!standing.allows_side_stream());
    }

    #[test]
    fn a_second_initialize_drops_the_session_of_the_first() {
        let mut standing = ready();
        standing.opening(Bytes::from_static(b"{}"));
        assert_eq!(standing.session(), None);
    }
}
