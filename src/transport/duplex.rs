//! Floor 2. An in-process peer on a pair of in-memory pipes: built-in servers and tests.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::inbound::Inbound;
use super::pipe::{self, PipeCarrier, PipeWriter, STOP_ASKS_MAX};
use super::{DuplexPeer, LinkFault, LinkSettings, task};

/// Makes a peer and its tasks.
pub(crate) fn connect(peer: &DuplexPeer, settings: &LinkSettings, inbound: Arc<Inbound>) -> Arc<PipeCarrier> {
    let (input, output) = tokio::io::split((peer.0)());
    let (writer, queue) = PipeWriter::new(inbound.clone());
    let (stop, mut stop_asked) = mpsc::channel(STOP_ASKS_MAX);
    let (gone_in, gone) = watch::channel(false);
    let write = pipe::write_loop(output, queue, inbound.clone());
    // A peer that reads no more has been dropped, and reading ends too.
    let write_task = task::spawn(async move { _ = write.await });
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
    Arc::new(PipeCarrier { writer, stop, gone, child: None })
}
