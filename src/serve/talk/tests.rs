//! A talk between two ends in memory.

use serde_json::json;
use tokio::io::DuplexStream;

use super::*;

fn question() -> Asking {
    let (head, line) = ("Call t of s with\n  {}\n".to_owned(), "Call t of s?".to_owned());
    Asking { number: 0, head, line, whole: None, can_keep: true }
}

/// What is written.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Said(Said),
    Done(serde_json::Value),
}

/// What the other side reads, and how the talk ended.
async fn held<F: Future<Output = serde_json::Value>>(
    act: impl FnOnce(Talk) -> F,
    other: impl AsyncFnOnce(BufReader<DuplexStream>),
) -> io::Result<()> {
    let (near, far) = tokio::io::duplex(64);
    let (input, output) = tokio::io::split(near);
    let (talk, carried) = Talk::pair();
    let act = act(talk);
    let holding = hold(input, output, carried, async { Word::Done(act.await) }, Word::Said);
    let (ended, ()) = tokio::join!(holding, other(BufReader::new(far)));
    ended
}

async fn next(of: &mut BufReader<DuplexStream>) -> serde_json::Value {
    let mut line = String::new();
    of.read_line(&mut line).await.unwrap();
    serde_json::from_str(&line).unwrap()
}

async fn say(to: &mut BufReader<DuplexStream>, heard: Heard) {
    let line = format!("{}\n", serde_json::to_string(&heard).unwrap());
    to.get_mut().write_all(line.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn what_is_said_comes_in_order_and_the_outcome_last() {
    let act = async |talk: Talk| {
        talk.line("waiting");
        let raw = RawValue::from_string(r#"{"n":1.00}"#.to_owned()).unwrap();
        assert!(talk.piece(raw, "one".to_owned()).await);
        json!("done")
    };
    let ended = held(act, async |mut other| {
        assert_eq!(next(&mut other).await, json!({"said": {"line": "waiting"}}));
        let mut line = String::new();
        other.read_line(&mut line).await.unwrap();
        assert_eq!(line, "{\"said\":{\"piece\":[{\"n\":1.00},\"one\"]}}\n", "byte for byte");
        assert_eq!(next(&mut other).await, json!({"done": "done"}));
    });
    ended.await.unwrap();
}

#[tokio::test]
async fn a_question_takes_its_own_answer_and_one_that_is_given_up_is_withdrawn() {
    let act = async |talk: Talk| {
        let limit = std::time::Duration::ZERO;
        assert!(tokio::time::timeout(limit, talk.ask(question())).await.is_err());
        json!(talk.ask(question()).await.as_str())
    };
    let ended = held(act, async |mut other| {
        assert_eq!(next(&mut other).await["said"]["ask"]["number"], 1);
        assert_eq!(next(&mut other).await, json!({"said": {"settled": 1}}));
        assert_eq!(next(&mut other).await["said"]["ask"]["number"], 2);
        say(&mut other, Heard::Answer(1, Decided::Always)).await;
        say(&mut other, Heard::Answer(2, Decided::Once)).await;
        assert_eq!(next(&mut other).await, json!({"done": "once"}), "late answers are answers to nothing");
    });
    ended.await.unwrap();
}

#[tokio::test]
async fn a_process_that_is_gone_ends_what_is_done_for_it() {
    struct Told(Option<tokio::sync::oneshot::Sender<()>>);
    impl Drop for Told {
        fn drop(&mut self) {
            _ = self.0.take().map(|told| told.send(()));
        }
    }
    let (told, dropped) = tokio::sync::oneshot::channel();
    let act = async |talk: Talk| {
        let _told = Told(Some(told));
        json!(talk.ask(question()).await.as_str())
    };
    let ended = held(act, async |mut other| {
        next(&mut other).await;
        drop(other);
    });
    assert!(ended.await.is_err());
    dropped.await.unwrap();
}

#[tokio::test]
async fn whoever_gives_up_hears_what_came_of_it() {
    let act = async |talk: Talk| {
        talk.given_up().await;
        json!(talk.width())
    };
    let ended = held(act, async |mut other| {
        say(&mut other, Heard::Width(33)).await;
        say(&mut other, Heard::GiveUp).await;
        assert_eq!(next(&mut other).await, json!({"done": 33}));
    });
    ended.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_read_loses_lines_and_the_host_waits_for_it_no_longer_than_it_says() {
    let act = async |talk: Talk| {
        for n in 0..10_000 {
            talk.line(&n.to_string());
        }
        json!("done")
    };
    let (near, _far) = tokio::io::duplex(64);
    let (input, output) = tokio::io::split(near);
    let (talk, carried) = Talk::pair();
    let ended = hold(input, output, carried, act(talk), |said| json!({ "said": said })).await;
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
}
