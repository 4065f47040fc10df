//! A lost session is renewed once for all requests that lost it: `initialize` again
//! with the params of the handshake, then `initialized`; meanwhile requests wait. A
//! fresh session that is lost before it answered anything is not renewed again.

use std::sync::Arc;

use bytes::Bytes;

use super::fault::Miss;
use super::message;
use super::reading::{self, Event, EventStream, Kind, Trail, Whole};
use super::refusal::Refusal;
use super::response::Response;
use super::shared::{Head, Shared, session_of};
use super::standing::{AfterLoss, Standing, Ticket};
use crate::transport::LinkFault;
use crate::transport::link::ExchangeFault;
use crate::wire::envelope::{self, Envelope};
use crate::wire::era::Revision;
use crate::wire::splice::Parts;

/// Returns when the session of `ticket` was replaced by a new one.
pub(super) async fn renewed(shared: &Arc<Shared>, ticket: Ticket) -> Result<(), Miss> {
    loop {
        match ask(shared, ticket) {
            AfterLoss::Resend => return Ok(()),
            AfterLoss::Wait => {}
            AfterLoss::Renew => {
                let mine = Renewal { shared: shared.clone(), outcome: None };
                // Its own task: the request that found out may be cancelled meanwhile.
                shared.tasks.spawn(mine.run());
            }
            AfterLoss::Fail(miss) => return Err(miss),
            AfterLoss::Hopeless => return Err(hopeless(shared.now().ever_proved())),
        }
        shared.until(|standing| !standing.is_renewing()).await;
    }
}

/// The fault of a request that lost the renewed session as well.
pub(super) fn lost_again(shared: &Shared, ticket: Ticket) -> Miss {
    let standing = shared.now();
    if standing.is_unproved(ticket) {
        return hopeless(standing.ever_proved());
    }
    // The session works for others: the link is of use, this request had its two tries.
    let body = "the server forgot the session again right after it was renewed".to_owned();
    Miss::not_run(ExchangeFault::Http { status: 404, body })
}

fn ask(shared: &Shared, ticket: Ticket) -> AfterLoss {
    let mut verdict = AfterLoss::Wait;
    shared.standing.send_if_modified(|standing| {
        verdict = standing.after_loss(ticket);
        verdict == AfterLoss::Renew
    });
    verdict
}

fn hopeless(ever_proved: bool) -> Miss {
    let text = "the server forgets its session right after every initialize; behind a load balancer, requests of one session must reach the same instance".to_owned();
    let fault = if ever_proved { LinkFault::Protocol(text) } else { LinkFault::Config(text) };
    Miss::not_run(ExchangeFault::Lost(fault)).ending()
}

/// One renewal. Its end is told in any case, also when the task is aborted.
struct Renewal {
    shared: Arc<Shared>,
    outcome: Option<Result<(), Miss>>,
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let gone = || Err(Miss::not_run(ExchangeFault::Lost(LinkFault::Closed)));
        match self.outcome.take().unwrap_or_else(gone) {
            Ok(()) => self.shared.change(Standing::renewed),
            Err(miss) => self.shared.change(|standing| standing.not_renewed(miss)),
        }
    }
}

impl Renewal {
    async fn run(mut self) {
        let limit = self.shared.control_timeout;
        let outcome = match tokio::time::timeout(limit, reopen(&self.shared)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let text = format!("the server lost its session and did not open a new one within {limit:?}");
                Err(Miss::lost(LinkFault::TimedOut(text)))
            }
        };
        let renewed = outcome.is_ok();
        // Whoever waits for this lost a session: the server proved that it ran nothing.
        self.outcome = Some(outcome.map_err(|miss| Miss { not_run: true, ..miss }));
        let inbound = self.shared.inbound.clone();
        drop(self);
        if renewed {
            inbound.renewed();
        }
    }
}

async fn reopen(shared: &Arc<Shared>) -> Result<(), Miss> {
    let initialize = shared.now().initialize.unwrap_or_default();
    let id = match envelope::parse(&initialize) {
        Ok(Envelope::Request { id, .. }) => initialize.slice(id),
        _ => Bytes::new(),
    };
    let mut parts = Parts::default();
    parts.push(initialize);
    let response = shared.post(&Head::default(), &parts, None).await?;
    if !response.status().is_success() {
        return Err(refused(Refusal::read(response, shared.frame_max).await.miss(&shared.target)));
    }
    let session = session_of(&response);
    let frame = answer(shared, response, &id).await?;
    let Some(offered) = message::negotiated(&frame) else {
        let said = message::error_message(&frame).unwrap_or_else(|| "without protocolVersion".to_owned());
        return Err(changed(format!("initialize was refused: {said}")));
    };
    // As in the handshake: a modern revision in an `initialize` answer means the newest that has one.
    let Some(revision) = Revision::parse(&offered).map(|r| r.min(Revision::LATEST_LEGACY)) else {
        return Err(changed(format!("it offers {offered:?} now")));
    };
    shared.inbound.set_revision(revision);
    shared.change(|standing| standing.reopened(session, revision));
    shared.initialized_again().await;
    Ok(())
}

/// The server answers, and wants no session of this kind any more: connect anew.
fn refused(miss: Miss) -> Miss {
    match &miss.fault {
        ExchangeFault::Http { status: status @ 400..=499, body } if *status != 408 => {
            changed(format!("initialize got HTTP {status}: {body}"))
        }
        _ => miss,
    }
}

fn changed(text: String) -> Miss {
    Miss::lost(LinkFault::Protocol(format!("the server lost its session and changed: {text}"))).ending()
}

/// The answer to request `id` out of a response; everything else in it is taken as usual.
async fn answer(shared: &Arc<Shared>, mut response: Response, id: &Bytes) -> Result<Bytes, Miss> {
    let ours = |frame: &Bytes| match envelope::parse(frame) {
        Ok(Envelope::Response(found)) => frame.slice(found.id) == *id,
        _ => false,
    };
    if reading::kind(&response) != Kind::Events {
        return match reading::whole(&mut response, shared.frame_max).await {
            Ok(Whole::Body(frame)) if ours(&frame) => Ok(frame),
            Ok(_) => Err(changed("initialize got something else than its answer".to_owned())),
            Err(error) => Err(shared.network(error)),
        };
    }
    let mut stream = EventStream::new(response, shared.frame_max, Trail::default());
    loop {
        match stream.next().await {
            Ok(Some(Event::Message(frame))) if ours(&frame) => return Ok(frame),
            Ok(Some(Event::Message(frame))) => shared.take(frame),
            Ok(Some(_)) => {}
            Ok(None) => return Err(changed("initialize got no answer".to_owned())),
            Err(error) => return Err(shared.network(error)),
        }
    }
}
