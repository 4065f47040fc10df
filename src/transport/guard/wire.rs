//! Floor 2. What host, guard and stage say to each other, as bytes. Pure: no I/O. The three
//! are always the same program, so there is one version and no negotiation.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Longest launch in bytes; the kernel takes less than that in arguments and environment.
pub(super) const LAUNCH_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Length of the prefix that says how long the launch is.
pub(super) const PREFIX: usize = 4;
/// Length of one report.
pub(super) const REPORT: usize = 9;

/// What is to be started. Bytes, not text: no name of this system needs to be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Launch {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: Option<OsString>,
    /// What it may touch; `None`: what its user may.
    pub confine: Option<Confine>,
}

/// What a confined server may touch beyond what every program needs. Absolute paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Confine {
    /// To read and run.
    pub read: Vec<OsString>,
    /// To read, run and write.
    pub write: Vec<OsString>,
    /// The folder of its own, writable; removed by the guard.
    pub private: OsString,
    /// Whether the network is open.
    pub net: bool,
}

impl Launch {
    /// The bytes with their length in front; `None` for more than [`LAUNCH_BYTES_MAX`].
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut out = vec![0; PREFIX];
        put(&mut out, &self.program)?;
        put_count(&mut out, usize::from(self.cwd.is_some()))?;
        if let Some(cwd) = &self.cwd {
            put(&mut out, cwd)?;
        }
        put_count(&mut out, usize::from(self.confine.is_some()))?;
        if let Some(confine) = &self.confine {
            confine.encode(&mut out)?;
        }
        put_count(&mut out, self.args.len())?;
        for arg in &self.args {
            put(&mut out, arg)?;
        }
        put_count(&mut out, self.env.len())?;
        for (name, value) in &self.env {
            put(&mut out, name)?;
            put(&mut out, value)?;
        }
        let body = out.len() - PREFIX;
        let prefix = u32::try_from(body).ok().filter(|_| body <= LAUNCH_BYTES_MAX)?;
        out[..PREFIX].copy_from_slice(&prefix.to_le_bytes());
        Some(out)
    }

    /// The launch of these bytes, without their length; `None` for anything else.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let from = &mut bytes;
        let program = take(from)?;
        let cwd = match take_count(from)? {
            0 => None,
            1 => Some(take(from)?),
            _ => return None,
        };
        let confine = match take_count(from)? {
            0 => None,
            1 => Some(Confine::decode(from)?),
            _ => return None,
        };
        let args = (0..take_count(from)?).map(|_| take(from)).collect::<Option<_>>()?;
        let env = (0..take_count(from)?).map(|_| Some((take(from)?, take(from)?))).collect::<Option<_>>()?;
        from.is_empty().then_some(Self { program, args, env, cwd, confine })
    }
}

impl Confine {
    fn encode(&self, out: &mut Vec<u8>) -> Option<()> {
        put_count(out, usize::from(self.net))?;
        put(out, &self.private)?;
        for list in [&self.read, &self.write] {
            put_count(out, list.len())?;
            list.iter().try_for_each(|path| put(out, path))?;
        }
        Some(())
    }

    fn decode(from: &mut &[u8]) -> Option<Self> {
        let net = match take_count(from)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let private = take(from)?;
        let mut list = || (0..take_count(from)?).map(|_| take(from)).collect::<Option<_>>();
        Some(Self { read: list()?, write: list()?, private, net })
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) -> Option<()> {
    out.extend_from_slice(&u32::try_from(count).ok()?.to_le_bytes());
    Some(())
}

fn put(out: &mut Vec<u8>, text: &OsStr) -> Option<()> {
    put_count(out, text.len())?;
    out.extend_from_slice(text.as_bytes());
    Some(())
}

fn take_count(from: &mut &[u8]) -> Option<usize> {
    let (head, rest) = from.split_first_chunk::<4>()?;
    *from = rest;
    usize::try_from(u32::from_le_bytes(*head)).ok()
}

fn take(from: &mut &[u8]) -> Option<OsString> {
    let length = take_count(from)?;
    let (head, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(OsString::from_vec(head.to_vec()))
}

/// Where a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The guard itself: no process, no pipe, an order that makes no sense.
    Guard,
    /// What is set up before the program runs.
    Prepare,
    /// The working directory.
    Cwd,
    /// The program: not there, not executable, not a program.
    Exec,
    /// The sandbox: the kernel does not keep it.
    Confine,
}

impl Stage {
    const ALL: [Self; 5] = [Self::Guard, Self::Prepare, Self::Cwd, Self::Exec, Self::Confine];
}

/// What the guard reports; the stage reports to the guard with the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The server's program runs.
    Started { pid: i32 },
    /// It does not; nothing more will come.
    Failed { stage: Stage, errno: i32 },
    /// The server left by itself.
    Left { code: i32 },
    /// A signal ended the server.
    Killed { signal: i32 },
}

impl Report {
    pub(super) fn encode(self) -> [u8; REPORT] {
        let (tag, a, b) = match self {
            Self::Started { pid } => (1, pid, 0),
            Self::Failed { stage, errno } => (2, stage as i32, errno),
            Self::Left { code } => (3, code, 0),
            Self::Killed { signal } => (4, signal, 0),
        };
        let mut out = [tag; REPORT];
        out[1..5].copy_from_slice(&a.to_le_bytes());
        out[5..].copy_from_slice(&b.to_le_bytes());
        out
    }

    /// `None` for bytes that are no report.
    pub(super) fn decode(bytes: [u8; REPORT]) -> Option<Self> {
        let [tag, a0, a1, a2, a3, b0, b1, b2, b3] = bytes;
        let (a, b) = (i32::from_le_bytes([a0, a1, a2, a3]), i32::from_le_bytes([b0, b1, b2, b3]));
        match tag {
            1 => Some(Self::Started { pid: a }),
            2 => {
                let stage = *Stage::ALL.get(usize::try_from(a).ok()?)?;
                Some(Self::Failed { stage, errno: b })
            }
            3 => Some(Self::Left { code: a }),
            4 => Some(Self::Killed { signal: a }),
            _ => None,
        }
    }
}

/// What the host tells the guard to do to the whole tree: one byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// TERM, once for each process.
    Term,
    /// KILL, until nothing is left.
    Kill,
}

impl Step {
    pub(super) fn encode(self) -> [u8; 1] {
        match self {
            Self::Term => *b"T",
            Self::Kill => *b"K",
        }
    }

    pub(super) fn decode(byte: u8) -> Option<Self> {
        match byte {
            b'T' => Some(Self::Term),
            b'K' => Some(Self::Kill),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = OsString> {
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(OsString::from_vec)
    }

    fn launch() -> impl Strategy<Value = Launch> {
        let args = proptest::collection::vec(text(), 0..6);
        let env = proptest::collection::vec((text(), text()), 0..6);
        let paths = || proptest::collection::vec(text(), 0..4);
        let confine = (paths(), paths(), text(), any::<bool>());
        let confine = confine.prop_map(|(read, write, private, net)| Confine { read, write, private, net });
        let (cwd, confine) = (proptest::option::of(text()), proptest::option::of(confine));
        (text(), args, env, cwd, confine).prop_map(|(program, args, env, cwd, confine)| Launch {
            program,
            args,
            env,
            cwd,
            confine,
        })
    }

    proptest! {
        #[test]
        fn every_launch_comes_back_as_it_was_and_no_part_of_it_does(launch in launch()) {
            let bytes = launch.encode().unwrap();
            prop_assert_eq!(Launch::decode(&bytes[PREFIX..]), Some(launch));
            for end in PREFIX..bytes.len() {
                prop_assert_eq!(Launch::decode(&bytes[PREFIX..end]), None);
            }
        }

        #[test]
        fn any_bytes_are_a_launch_or_none_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Launch::decode(&bytes);
        }

        #[test]
        fn every_report_comes_back_as_it_was(a: i32, b: i32, bytes: [u8; REPORT]) {
            let failed = Stage::ALL.map(|stage| Report::Failed { stage, errno: b });
            let others = [Report::Started { pid: a }, Report::Left { code: a }, Report::Killed { signal: a }];
            for report in failed.into_iter().chain(others) {
                prop_assert_eq!(Report::decode(report.encode()), Some(report));
            }
            let _ = Report::decode(bytes);
        }
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_is_sent() {
        let long = Launch { program: OsString::from_vec(vec![b'x'; LAUNCH_BYTES_MAX]), ..Launch::default() };
        assert_eq!(long.encode(), None);
    }

    #[test]
    fn a_step_is_one_byte_and_no_other_byte_is_a_step() {
        for step in [Step::Term, Step::Kill] {
            assert_eq!(Step::decode(step.encode()[0]), Some(step));
        }
        assert_eq!((0..=255).filter_map(Step::decode).count(), 2);
    }
}
