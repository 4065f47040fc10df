//! The breaker against a second, slower description of itself.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::tests::{at, spec};
use super::*;

/// A call of the model.
struct Out {
    pass: Pass,
    epoch: u64,
    call: u64,
}

/// The breaker a second time, told in other words: a list of what counted.
struct Model {
    row: Vec<Loss>,
    counted: Option<u64>,
    /// Every call out when the last loss was counted.
    together: BTreeSet<u64>,
    next: u64,
    opened: Option<u64>,
    probe: Option<&'static str>,
    epoch: u64,
}

impl Model {
    fn turn(&mut self, opened: Option<u64>) -> Move {
        (self.opened, self.probe, self.epoch) = (opened, None, self.epoch + 1);
        self.row.clear();
        if opened.is_some() { Move::Opened } else { Move::Closed }
    }

    fn note(&mut self, loss: Loss) {
        if loss != Loss::None {
            self.together = (0..self.next).collect();
        }
        if let Loss::Connection(Generation(generation)) = loss {
            self.counted = Some(generation);
        }
    }

    fn fails(&mut self, call: Option<u64>, loss: Loss, ms: u64) -> Move {
        let same_connection = matches!(loss, Loss::Connection(Generation(g)) if self.counted == Some(g));
        let together = loss != Loss::None && call.is_some_and(|call| self.together.contains(&call));
        if same_connection || together {
            return Move::Stayed;
        }
        self.note(loss);
        self.row.push(loss);
        if self.row.len() == 3 { self.turn(Some(ms)) } else { Move::Stayed }
    }

    /// `None`: refused; else whether it is a probing call.
    fn admit(&mut self, ms: u64, connected: bool) -> Option<bool> {
        let Some(opened) = self.opened else { return Some(false) };
        if ms < opened + 60_000 || self.probe.is_some() {
            return None;
        }
        self.epoch += 1;
        self.probe = Some(if connected { "call" } else { "connection" });
        Some(connected)
    }

    fn settle(&mut self, out: &Out, class: BreakerClass, loss: Loss, ms: u64) -> Move {
        if out.epoch != self.epoch {
            return Move::Stayed;
        }
        if self.opened.is_none() {
            return match class {
                BreakerClass::Trip => self.fails(Some(out.call), loss, ms),
                BreakerClass::Heal => {
                    self.row.clear();
                    Move::Stayed
                }
                _ => Move::Stayed,
            };
        }
        if !out.pass.is_probe() || self.probe != Some("call") {
            return Move::Stayed;
        }
        match class {
            BreakerClass::Heal => self.turn(None),
            BreakerClass::Neutral => {
                self.probe = None;
                Move::Stayed
            }
            _ => {
                self.note(loss);
                self.turn(Some(ms))
            }
        }
    }
}

proptest! {
    /// Any history gives the same verdicts in both descriptions.
    #[test]
    fn it_agrees_with_its_model(
        history in prop::collection::vec((0u8..12, 0u8..6, 0usize..8, 0u64..25_000), 0..120)
    ) {
        use BreakerClass::{Exhausted, Heal, Neutral, Trip};
        let mut breaker = Breaker::new(spec(3));
        let mut model = Model {
            row: vec![],
            counted: None,
            together: BTreeSet::new(),
            next: 0,
            opened: None,
            probe: None,
            epoch: 0,
        };
        let (mut ms, mut out, mut generation) = (0u64, Vec::<Out>::new(), 1u64);
        for (event, class, which, wait) in history {
            let now = at(ms);
            match event {
                0..=3 => {
                    let wanted = model.admit(ms, event != 3);
                    let got = match breaker.admit(now, event != 3) {
                        Admit::Pass(pass) | Admit::Connect(pass) => Some(pass),
                        Admit::Refuse(_) => None,
                    };
                    prop_assert_eq!(got.map(Pass::is_probe), wanted);
                    if let Some(pass) = got {
                        out.push(Out { pass, epoch: model.epoch, call: model.next });
                        model.next += 1;
                    }
                }
                4..=7 if !out.is_empty() => {
                    let one = out.swap_remove(which % out.len());
                    let class = [Trip, Trip, Trip, Heal, Neutral, Exhausted][usize::from(class)];
                    let loss = match event {
                        6 => Loss::Request,
                        7 => Loss::Connection(Generation(generation)),
                        _ => Loss::None,
                    };
                    let wanted = model.settle(&one, class, loss, ms);
                    prop_assert_eq!(breaker.settle(one.pass, class, loss, now), wanted);
                }
                8 => {
                    generation += 1;
                    let wanted = match (model.opened, model.probe) {
                        (None, _) => model.fails(None, Loss::None, ms),
                        (Some(_), Some("connection")) => model.turn(Some(ms)),
                        _ => Move::Stayed,
                    };
                    prop_assert_eq!(breaker.connect_failed(BreakerClass::Trip, now), wanted);
                }
                9 => {
                    let read = class > 0;
                    let wanted = match model.probe {
                        Some("connection") => model.turn((!read).then_some(ms)),
                        _ => Move::Stayed,
                    };
                    prop_assert_eq!(breaker.listed(read, now), wanted);
                }
                11 if class < 2 => {
                    let ended = [Neutral, Exhausted][usize::from(class)];
                    let wanted = match (model.probe, ended) {
                        (Some("connection"), Exhausted) => model.turn(Some(ms)),
                        (Some("connection"), _) => {
                            model.probe = None;
                            Move::Stayed
                        }
                        _ => Move::Stayed,
                    };
                    prop_assert_eq!(breaker.connect_failed(ended, now), wanted);
                }
                10 if class == 0 => {
                    let was = model.opened.is_some();
                    let _ = model.turn(None);
                    prop_assert_eq!(breaker.reset(), if was { Move::Closed } else { Move::Stayed });
                }
                _ => ms += wait,
            }
            let now = at(ms);
            let open = model.opened.is_some_and(|from| ms < from + 60_000);
            match breaker.standing(now) {
                Standing::Closed(failures) => {
                    prop_assert!(model.opened.is_none());
                    prop_assert_eq!(failures as usize, model.row.len());
                }
                Standing::Open(until) => {
                    prop_assert!(open && model.probe.is_none());
                    prop_assert_eq!(until, at(model.opened.unwrap_or(0) + 60_000));
                }
                Standing::HalfOpen => prop_assert!(model.opened.is_some() && !open),
            }
        }
    }
}
