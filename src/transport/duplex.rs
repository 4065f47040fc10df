//! Floor 2. An in-process peer on a pair of in-memory pipes: built-in servers and tests.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};

use super::inbound::Inbound;
use super::link::{Carrier, Outbound};
use super::pipe::{self, PipeWriter, STOP_ASKS_MAX};
use super::{DuplexPeer, LinkFault, LinkSettings, task};
use crate::wire::era::Revision;

/// A connected in-process peer.
#[derive(Debug)]
pub(crate) struct DuplexCarrier {
    writer: PipeWriter,
    stop: mpsc::Sender<()>,
    gone: watch::Receiver<bool>,
}

impl Carrier for DuplexCarrier {
    fn submit(&self, request: Outbound) {
        self.writer.submit(request);
    }

    fn notify(&self, message: Bytes) {
        self.writer.notify(message);
    }

    fn cancel(&self, id: u64, reason: &str) {
        self.writer.cancel(id, reason);
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let _ = self.stop.try_send(());
        let mut gone = self.gone.clone();
        async move {
            let _ = gone.wait_for(|gone| *gone).await;
        }
        .boxed()
    }

    fn established(&self, _revision: Revision) {}
}

/// Makes a peer and its tasks.
pub(crate) fn connect(
    peer: &DuplexPeer,
    settings: &LinkSettings,
    inbound: Arc<Inbound>,
) -> Arc<DuplexCarrier> {
    let (input, output) = tokio::io::split((peer.0)());
    let (writer, queue) = PipeWriter::new(inbound.clone());
    let (stop, mut stop_asked) = mpsc::channel(STOP_ASKS_MAX);
    let (gone_in, gone) = watch::channel(false);
    let write_task = task::spawn(pipe::write_loop(output, queue, inbound.clone()));
    let (read_writer, frame_max) = (writer.clone(), settings.frame_max);
    task::spawn(async move {
        let fault = tokio::select! {
            biased;
            _ = stop_asked.recv() => LinkFault::Closed,
            fault = pipe::read_loop(input, inbound.clone(), read_writer, frame_max) => fault,
        };
        write_task.abort();
        inbound.end(fault);
        let _ = gone_in.send(true);
    })
    .detach();
    Arc::new(DuplexCarrier { writer, stop, gone })
}
