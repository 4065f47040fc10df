//! Which servers run for all clients of a host together: each client's entries under the client's own
//! names, and the instances that they lead to. Two clients lead to one instance exactly when the entry comes
//! to the same for both and is not for one client only; arrival decides nothing but what an instance is
//! called. Pure: `now` is passed in. An instance keeps its id as long as it lives, so that nobody who comes
//! or goes restarts what others use; one whose users all want something else becomes that, so that what
//! runs of it ends before the new one begins.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::id::ServerId;
use crate::time::Monotonic;

/// A client, counted by whoever lets clients in; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub u64);

/// One entry of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<K> {
    /// The name that the client knows it by; the only one of that name.
    pub name: ServerId,
    /// What it comes to for this client. Equal ones may be shared.
    pub key: K,
    /// No other client may use the same instance (`sharing = "session"`).
    pub alone: bool,
}

/// One server that runs, or would run.
#[derive(Debug)]
struct Instance<K> {
    name: ServerId,
    key: K,
    alone: bool,
    users: BTreeSet<Member>,
    /// Since when nobody uses it.
    idle_since: Option<Monotonic>,
}

impl<K: PartialEq> Instance<K> {
    fn fits(&self, wanted: &Wanted<K>, member: Member) -> bool {
        let free = !self.alone || self.users.contains(&member);
        free && self.alone == wanted.alone && self.name == wanted.name && self.key == wanted.key
    }

    /// When it is to be ended; nobody comes back to one that was for one client.
    fn over(&self, linger: Duration) -> Option<Monotonic> {
        self.idle_since.map(|since| if self.alone { since } else { since + linger })
    }
}

/// All instances, and what each client's names lead to.
#[derive(Debug)]
pub struct Union<K> {
    instances: BTreeMap<ServerId, Instance<K>>,
    members: BTreeMap<Member, BTreeMap<ServerId, ServerId>>,
    /// What can't be shared, as its server has shown.
    unshared: Vec<K>,
    /// The last number that told an instance from another one of its name.
    last: u32,
    linger: Duration,
}

impl<K: PartialEq + Clone> Union<K> {
    /// Nothing yet; what nobody uses is kept for `linger`.
    pub fn new(linger: Duration) -> Self {
        Self { instances: BTreeMap::new(), members: BTreeMap::new(), unshared: Vec::new(), last: 1, linger }
    }

    /// What the configurations of these clients come to now: when one comes, and whenever files changed, of
    /// all that they changed for at once. What each has already stays.
    pub fn set(&mut self, mut changes: Vec<(Member, Vec<Wanted<K>>)>, now: Monotonic) {
        for one in changes.iter_mut().flat_map(|(_, wanted)| wanted) {
            one.alone |= self.unshared.contains(&one.key);
        }
        let mut freed = self.freed(&changes);
        for (member, wanted) in changes {
            let lead = |one: Wanted<K>| (one.name.clone(), self.lead(member, one, &mut freed));
            let leads: BTreeMap<ServerId, ServerId> = wanted.into_iter().map(lead).collect();
            self.members.insert(member, leads);
        }
        let Self { instances, members, .. } = self;
        for (id, instance) in instances {
            let leads =
                |member: &Member| members.get(member).is_some_and(|led| led.values().any(|led| led == id));
            let gone: Vec<Member> = instance.users.iter().copied().filter(|member| !leads(member)).collect();
            gone.into_iter().for_each(|member| release(instance, member, now));
        }
    }

    /// An instance turns out to depend on which client uses it: it is that client's alone from now on, and
    /// others have instances of their own of what it comes to. Returns these others; nothing changes for an
    /// instance that the client does not use.
    pub fn bind(&mut self, member: Member, id: &ServerId) -> Vec<Member> {
        let Some(instance) = self.instances.get_mut(id).filter(|at| at.users.contains(&member)) else {
            return Vec::new();
        };
        if instance.alone {
            return Vec::new();
        }
        instance.alone = true;
        let others = std::mem::replace(&mut instance.users, BTreeSet::from([member]));
        let (name, key) = (instance.name.clone(), instance.key.clone());
        self.unshared.push(key.clone());
        let others: Vec<Member> = others.into_iter().filter(|other| *other != member).collect();
        for other in &others {
            let wanted = Wanted { name: name.clone(), key: key.clone(), alone: true };
            let led = self.lead(*other, wanted, &mut BTreeSet::new());
            if let Some(leads) = self.members.get_mut(other) {
                leads.insert(name.clone(), led);
            }
        }
        others
    }

    /// The instances that nobody will use any more who uses them now.
    fn freed(&self, changes: &[(Member, Vec<Wanted<K>>)]) -> BTreeSet<ServerId> {
        let changes_all =
            |at: &Instance<K>| at.users.iter().all(|user| changes.iter().any(|(member, _)| member == user));
        let is_wanted = |at: &Instance<K>| {
            changes.iter().any(|(member, wanted)| wanted.iter().any(|one| at.fits(one, *member)))
        };
        let free = |at: &Instance<K>| !at.users.is_empty() && changes_all(at) && !is_wanted(at);
        self.instances.iter().filter(|(_, at)| free(at)).map(|(id, _)| id.clone()).collect()
    }

    /// The instance for one entry of a client: one that fits, else one of this name that it used and that is
    /// free now, else a new one.
    fn lead(&mut self, member: Member, wanted: Wanted<K>, freed: &mut BTreeSet<ServerId>) -> ServerId {
        if let Some((id, instance)) = self.instances.iter_mut().find(|(_, at)| at.fits(&wanted, member)) {
            instance.users.insert(member);
            instance.idle_since = None;
            return id.clone();
        }
        let Wanted { name, key, alone } = wanted;
        let had = |id: &&ServerId| {
            self.instances.get(id).is_some_and(|at| at.name == name && at.users.contains(&member))
        };
        let taken = freed.iter().find(had).cloned();
        let id = match taken {
            Some(id) => {
                freed.remove(&id);
                id
            }
            None => self.fresh(&name),
        };
        let users = BTreeSet::from([member]);
        self.instances.insert(id.clone(), Instance { name, key, alone, users, idle_since: None });
        id
    }

    /// The plain name if no instance has it, else one that is told from it.
    fn fresh(&mut self, name: &ServerId) -> ServerId {
        if !self.instances.contains_key(name) {
            return name.clone();
        }
        self.last += 1;
        name.instance(self.last)
    }

    /// A client is gone.
    pub fn leave(&mut self, member: Member, now: Monotonic) {
        self.members.remove(&member);
        self.instances.values_mut().for_each(|instance| release(instance, member, now));
    }

    /// Takes out the instances that nobody has used for long enough: they are to be ended.
    pub fn due(&mut self, now: Monotonic) -> Vec<ServerId> {
        let over = |at: &Instance<K>| at.over(self.linger).is_some_and(|over| over <= now);
        let due: Vec<ServerId> =
            self.instances.iter().filter(|(_, at)| over(at)).map(|(id, _)| id.clone()).collect();
        due.iter().for_each(|id| _ = self.instances.remove(id));
        due
    }

    /// When the next instance is due, as things are.
    pub fn next_due(&self) -> Option<Monotonic> {
        self.instances.values().filter_map(|at| at.over(self.linger)).min()
    }

    /// What is to run, by id: the name that its clients know it by, and what it comes to.
    pub fn instances(&self) -> impl Iterator<Item = (&ServerId, &ServerId, &K)> {
        self.instances.iter().map(|(id, at)| (id, &at.name, &at.key))
    }

    /// The instance that an entry comes to for somebody who is no client, unless it is for one client only.
    pub fn lent(&self, wanted: &Wanted<K>) -> Option<&ServerId> {
        let fits =
            |at: &Instance<K>| !at.alone && !wanted.alone && at.name == wanted.name && at.key == wanted.key;
        self.instances.iter().find(|(_, at)| fits(at)).map(|(id, _)| id)
    }

    /// What a client's names lead to; nothing else can be reached by it.
    pub fn leads(&self, member: Member) -> Option<&BTreeMap<ServerId, ServerId>> {
        self.members.get(&member)
    }

    /// The clients that use an instance.
    #[cfg(test)]
    pub fn users(&self, id: &ServerId) -> impl Iterator<Item = Member> {
        self.instances.get(id).into_iter().flat_map(|at| at.users.iter().copied())
    }

    /// Whether there is no instance and no client.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty() && self.members.is_empty()
    }
}

/// One user less, if it was one.
fn release<K>(instance: &mut Instance<K>, member: Member, now: Monotonic) {
    if instance.users.remove(&member) && instance.users.is_empty() {
        instance.idle_since = Some(now);
    }
}

#[cfg(test)]
mod tests;
