//! Writes down what tools were pinned as: follows the books of the servers in a task of its own,
//! gathered, soon after something was first seen and at the end. What another host wrote meanwhile
//! stands, and is handed back to the server's actor. While a tool is held it looks every second whether
//! a person has accepted it elsewhere, or repaired its file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::actors::directory::Directory;
use crate::catalog::merge::Catalog;
use crate::catalog::pin::Book;
use crate::config::load::Loaded;
use crate::config::spec::Entry;
use crate::id::{BUILTINS, ServerId};
use crate::transport::pins::{self, Owner};
use crate::transport::task::{self, Owned};

/// Least time between two rounds of writing.
const WRITE_GAP: Duration = Duration::from_millis(500);

/// Time between two looks at the files of servers whose tools are held.
const LOOK_GAP: Duration = Duration::from_secs(1);

/// Where pins are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinsAt {
    /// The folder of the files.
    pub folder: PathBuf,
    /// The root of the project: pins of its entries belong to it.
    pub project: PathBuf,
}

impl PinsAt {
    /// Where a loaded configuration keeps them; `None` without a home.
    pub fn of(loaded: &Loaded) -> Option<Self> {
        let folder = pins::folder(loaded.home.as_deref().ok()?);
        Some(Self { folder, project: loaded.project_root.clone() })
    }

    /// The owner of an entry's pins.
    pub fn owner(&self, entry: &Entry) -> Owner {
        Owner::of(entry, entry.project.as_deref().unwrap_or(&self.project))
    }
}

/// Books by server.
pub(super) type Books = BTreeMap<ServerId, Book>;

/// The books of these entries, as their files have them.
pub(super) async fn load(at: Option<PinsAt>, entries: Vec<Entry>) -> Books {
    let Some(at) = at else { return Books::new() };
    let ids: Vec<ServerId> = entries.iter().map(|entry| entry.id.clone()).collect();
    let read = move || {
        let books = entries.iter().map(|entry| (entry.id.clone(), pins::load(&at.folder, &at.owner(entry))));
        books.collect::<Books>()
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|_| {
        let lost = || Book::unreadable("reading them was given up", "run it again");
        ids.into_iter().map(|id| (id, lost())).collect()
    })
}

/// The task that writes.
#[derive(Debug)]
pub(super) struct Clerk {
    task: Owned,
    end: oneshot::Sender<()>,
}

impl Clerk {
    /// Begins to follow; `known` is what the files say already.
    pub(super) fn start(
        at: PinsAt,
        catalog: watch::Receiver<Arc<Catalog>>,
        directory: watch::Receiver<Arc<Directory>>,
        known: Books,
    ) -> Self {
        let (end, ended) = oneshot::channel();
        let known = known.into_iter().map(|(id, book)| (id, Arc::new(book))).collect();
        let desk = Desk { at, catalog, directory, known };
        Self { task: task::spawn(desk.follow(ended)), end }
    }

    /// Writes what is left, and returns when that is done.
    pub(super) async fn finish(self) {
        let _ = self.end.send(());
        self.task.join().await;
    }
}

struct Desk {
    at: PinsAt,
    catalog: watch::Receiver<Arc<Catalog>>,
    directory: watch::Receiver<Arc<Directory>>,
    /// The books as they were last written or read.
    known: BTreeMap<ServerId, Arc<Book>>,
}

struct Job {
    entry: Arc<Entry>,
    book: Arc<Book>,
}

impl Desk {
    async fn follow(mut self, mut ended: oneshot::Receiver<()>) {
        loop {
            self.write().await;
            let held = self.held();
            let news = async {
                let changed = self.catalog.changed();
                // Nobody can free what is not held: nothing is looked at then.
                if held.is_empty() { Ok(changed.await) } else { timeout(LOOK_GAP, changed).await }
            };
            let news = tokio::select! {
                biased;
                // Also when the runtime is dropped without an end in order.
                _ = &mut ended => break,
                news = news => news,
            };
            match news {
                Ok(Ok(())) => {}
                Ok(Err(_)) => break,
                Err(_) => {
                    self.look(held).await;
                    continue;
                }
            }
            self.write().await;
            if timeout(WRITE_GAP, &mut ended).await.is_ok() {
                break;
            }
        }
        self.write().await;
    }

    /// The entries of which a tool is held.
    fn held(&self) -> Vec<Arc<Entry>> {
        let (catalog, directory) = (self.catalog.borrow(), self.directory.borrow());
        let held = catalog.servers.iter().filter(|(_, server)| !server.held.is_empty());
        held.filter_map(|(id, _)| Some(directory.entries.get(id)?.entry.clone())).collect()
    }

    /// Reads the books of these entries, and hands on what their files say now.
    async fn look(&mut self, held: Vec<Arc<Entry>>) {
        let at = self.at.clone();
        let read = move || {
            let books = held.iter().map(|entry| (entry.id.clone(), pins::load(&at.folder, &at.owner(entry))));
            books.collect::<Vec<_>>()
        };
        let Ok(books) = tokio::task::spawn_blocking(read).await else { return };
        for (id, file) in books {
            if self.known.get(&id).is_some_and(|known| **known == file) {
                continue;
            }
            let file = Arc::new(file);
            self.known.insert(id.clone(), file.clone());
            if let Some(server) = self.directory.borrow().entries.get(&id).and_then(|one| one.server.as_ref())
            {
                server.pins(file);
            }
        }
    }

    /// Writes the books that changed.
    async fn write(&mut self) {
        // Whatever is new after this look is for the next round.
        self.catalog.borrow_and_update();
        let directory = self.directory.borrow().clone();
        let mut jobs = Vec::new();
        // The host's own tools are what this version makes them.
        for (id, one) in directory.entries.iter().filter(|(id, _)| id.as_str() != BUILTINS) {
            let Some(book) = one.pins.as_ref().map(|pins| pins.borrow().clone()) else { continue };
            let is_new = self.known.get(id).map_or(!book.pins().is_empty(), |known| **known != *book);
            if is_new && !book.is_unreadable() {
                jobs.push(Job { entry: one.entry.clone(), book });
            }
        }
        if jobs.is_empty() {
            return;
        }
        let at = self.at.clone();
        let Ok(written) = tokio::task::spawn_blocking(move || perform(&at, jobs)).await else { return };
        for (id, ours, file) in written {
            if file != *ours
                && let Some(server) = directory.entries.get(&id).and_then(|one| one.server.as_ref())
            {
                server.pins(Arc::new(file.clone()));
            }
            self.known.insert(id, Arc::new(file));
        }
    }
}

/// Writes each book; what its file says then, or why it can't be used.
fn perform(at: &PinsAt, jobs: Vec<Job>) -> Vec<(ServerId, Arc<Book>, Book)> {
    let written = jobs.into_iter().map(|Job { entry, book }| {
        let file = match pins::add(&at.folder, &at.owner(&entry), &book) {
            Ok(file) => file,
            Err(error @ pins::PinError::Broken(..)) => Book::unreadable(error.to_string(), error.cure()),
            Err(error) => {
                tracing::warn!(server = %entry.id, %error, "what tools were pinned as could not be written");
                Book::clone(&book)
            }
        };
        (entry.id.clone(), book, file)
    });
    written.collect()
}
