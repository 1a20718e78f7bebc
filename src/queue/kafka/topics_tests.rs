//! Answers about topics that come slowly are answers all the same.

use futures_util::FutureExt as _;

use super::*;
use crate::model::time::Millis;

/// Returns a directory whose questions nobody carries to a broker: the test answers them.
fn unasked() -> Topics {
    let time = TimeSource::simulated(Millis(1_000_000), 1);
    let topics = Topics::new(Settings::new("127.0.0.1:1"), time);
    topics.0.lock().asking = true;
    topics
}

fn missing(topic: &str) -> BTreeMap<String, Answer> {
    BTreeMap::from([(topic.to_owned(), Answer::Missing)])
}

/// Two answers lie further apart than a missing topic is trusted to be missing.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_each_topic_was_answered_once() {
    let topics = unasked();
    let time = topics.0.time.clone();
    let wanted: BTreeMap<String, bool> =
        BTreeMap::from([("a".to_owned(), false), ("b".to_owned(), false)]);
    let until = time.moment().after(limits::TOPIC_MISSING * 10);
    let answers = async {
        time.sleep(Duration::from_millis(1)).await;
        assert_eq!(
            topics.0.lock().wanted.len(),
            2,
            "both are asked for at once"
        );
        topics.0.learn(missing("a"));
        time.sleep(limits::TOPIC_MISSING * 2).await;
        topics.0.learn(missing("b"));
    };
    let begun = time.moment();
    let (known, ()) = tokio::join!(topics.settled(&wanted, until), answers);
    for (topic, known) in known {
        assert_eq!(known, Known::Not(PublishError::NoSuchTopic(topic)));
    }
    assert!(time.moment().since(begun) < limits::TOPIC_MISSING * 3);
    // A caller that comes now has not waited for the first answer, which is too old for it.
    assert!(matches!(topics.known("a", false), Known::Asked(_)));
    assert!(matches!(topics.known("b", false), Known::Not(_)));
}

/// A wait has its end where nothing is answered, and tells so.
#[tokio::test(start_paused = true)]
async fn a_wait_without_answers_ends_at_its_limit() {
    let topics = unasked();
    let time = topics.0.time.clone();
    let wanted = BTreeMap::from([("a".to_owned(), true)]);
    let until = time.moment().after(limits::QUEUE_QUESTION_TIMEOUT);
    let known = topics.settled(&wanted, until).await;
    assert!(matches!(known["a"], Known::Asked(_)) && time.moment() >= until);
}

/// The next caller has the topic asked for again, however the task that asks was ended.
#[tokio::test(start_paused = true)]
async fn a_question_that_breaks_off_is_asked_again() {
    let topics = unasked();
    let time = topics.0.time.clone();
    assert_eq!(topics.known("a", true), Known::Asked(time.moment()));
    assert_eq!(topics.clone().ask_all().now_or_never(), None);
    time.sleep(Duration::from_secs(1)).await;
    assert!(!topics.0.lock().asking, "nobody asks");
    topics.0.learn(missing("b"));
    assert_eq!(topics.known("a", true), Known::Asked(time.moment()));
    assert!(topics.0.lock().asking);
}

/// The same for the task that creates: what it was to create is asked for again.
#[tokio::test(start_paused = true)]
async fn a_creation_that_breaks_off_is_begun_again() {
    let topics = unasked();
    let time = topics.0.time.clone();
    assert_eq!(topics.known("a", true), Known::Asked(time.moment()));
    assert!(topics.0.learn(missing("a")), "it is to be created");
    assert_eq!(topics.clone().create_all().now_or_never(), None);
    time.sleep(Duration::from_secs(1)).await;
    assert_eq!(topics.known("a", true), Known::Asked(time.moment()));
    assert!(topics.0.learn(missing("a")), "it is to be created again");
}
