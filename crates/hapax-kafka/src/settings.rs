//! The checks of the client's settings: what would lose messages is refused by its name, what this
//! crate does itself is set.

use crate::error::KafkaSourceError;
use crate::options::KafkaOptions;
use rdkafka::ClientConfig;
use std::time::Duration;

/// The settings that have a meaning for consumers alone.
const OF_CONSUMERS: &str = "
    allow.auto.create.topics auto.commit.enable auto.commit.interval.ms auto.offset.reset
    check.crcs consume.callback.max.messages coordinator.query.interval.ms enable.auto.commit
    enable.auto.offset.store enable.partition.eof fetch.error.backoff.ms fetch.max.bytes
    fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.id
    group.instance.id group.protocol group.protocol.type group.remote.assignor
    heartbeat.interval.ms isolation.level max.partition.fetch.bytes max.poll.interval.ms
    offset.store.method offset.store.path offset.store.sync.interval.ms
    partition.assignment.strategy queued.max.messages.kbytes queued.min.messages
    session.timeout.ms
";

/// The place where a partition begins for which nothing was committed: `auto.offset.reset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    Earliest,
    Latest,
    Error,
}

/// The settings of a member, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) consumer: ClientConfig,
    /// Those of the producer of dead letters.
    pub(crate) producer: ClientConfig,
    pub(crate) group: String,
    pub(crate) reset: Reset,
    /// The time for which brokers wait for a member that is silent: `session.timeout.ms`.
    pub(crate) session: Duration,
}

impl Settings {
    /// Checks settings.
    ///
    /// # Errors
    ///
    /// The first setting that does not work, by its name.
    pub(crate) fn of(config: &ClientConfig, options: &KafkaOptions) -> Result<Self, KafkaSourceError> {
        options.validate()?;
        let given = |name: &str| config.get(name).filter(|value| !value.trim().is_empty());
        let wrong = |name, expected, got: &str| KafkaSourceError::Setting { name, expected, got: got.to_owned() };
        let group = given("group.id").ok_or_else(|| wrong("group.id", "the name of a consumer group", ""))?;
        if given("bootstrap.servers").or(given("metadata.broker.list")).is_none() {
            return Err(wrong("bootstrap.servers", "the addresses of brokers, as in host:9092,host:9092", ""));
        }
        let mut consumer = config.clone();
        if config.get("auto.offset.reset").is_none() {
            // The client's default is the end, behind what was sent before the group began.
            consumer.set("auto.offset.reset", "earliest");
        }
        let native = consumer.create_native_config().map_err(KafkaSourceError::when("reading the settings"))?;
        let value = |name| native.get(name).map_err(KafkaSourceError::when("reading the settings"));

        if config.get("enable.auto.offset.store").is_some() && value("enable.auto.offset.store")? == "true" {
            let expected = "false, or nothing: received messages would be committed before they are done";
            return Err(wrong("enable.auto.offset.store", expected, "true"));
        }
        let interval = value("auto.commit.interval.ms")?;
        if interval == "0" {
            return Err(wrong("auto.commit.interval.ms", "at least 1: otherwise nothing is committed", &interval));
        }
        for (name, only, expected) in [
            ("offset.store.method", "broker", "broker: a file of this machine does not follow the group"),
            ("group.protocol", "classic", "classic: consumer groups of the next generation are not supported yet"),
        ] {
            let got = value(name)?;
            if got != only {
                return Err(wrong(name, expected, &got));
            }
        }
        let interval = value("max.poll.interval.ms")?;
        let blocked = options.release_within + options.offsets_within;
        if interval.parse().is_ok_and(|millis| Duration::from_millis(millis) <= blocked) {
            let expected = "more than release_within and offsets_within together: a rebalance may take that long";
            return Err(wrong("max.poll.interval.ms", expected, &interval));
        }
        let reset = match value("auto.offset.reset")?.as_str() {
            "smallest" | "earliest" | "beginning" => Reset::Earliest,
            "error" => Reset::Error,
            _ => Reset::Latest,
        };
        let session = value("session.timeout.ms")?;
        let millis = session.parse().map_err(|_| wrong("session.timeout.ms", "milliseconds", &session))?;
        let session = Duration::from_millis(millis);
        // Whatever the first one said: the client commits what is stored, and that is what is done.
        consumer.set("enable.auto.commit", "true").set("enable.auto.offset.store", "false");
        Ok(Settings { group: group.to_owned(), reset, producer: producer(config, options), consumer, session })
    }
}

/// Returns the settings of a producer for the same brokers: idempotent, so that a message is stored
/// once however often it is sent.
fn producer(config: &ClientConfig, options: &KafkaOptions) -> ClientConfig {
    let mut producer = config.clone();
    for name in OF_CONSUMERS.split_whitespace() {
        producer.remove(name);
    }
    // (Another name of `message.timeout.ms`.)
    producer.remove("delivery.timeout.ms");
    producer.remove("transactional.id").set("enable.idempotence", "true");
    if config.get("message.max.bytes").is_none() {
        // Brokers have limits, which may be above the client's. A message that was read and cannot
        // be put aside would end each run.
        producer.set("message.max.bytes", "1000000000");
    }
    producer.set("message.timeout.ms", options.dead_letter_within.as_millis().to_string());
    producer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", "127.0.0.1:1").set("group.id", "g");
        for (name, value) in settings {
            config.set(*name, *value);
        }
        config
    }

    fn settings(given: &[(&str, &str)]) -> Result<Settings, KafkaSourceError> {
        Settings::of(&config(given), &KafkaOptions::new())
    }

    #[test]
    fn what_would_lose_messages_is_refused_by_its_name() {
        for (name, value) in [
            ("enable.auto.offset.store", "true"),
            ("enable.auto.offset.store", "1"),
            ("auto.commit.interval.ms", "0"),
            ("offset.store.method", "file"),
            ("group.protocol", "consumer"),
            ("max.poll.interval.ms", "90000"),
            ("group.id", " "),
            ("bootstrap.servers", ""),
        ] {
            let refused = settings(&[(name, value)]).map(drop).unwrap_err();
            assert!(matches!(&refused, KafkaSourceError::Setting { name: of, .. } if *of == name), "{name}: {refused}");
            assert!(refused.to_string().contains(name), "{refused}");
        }
        let refused = settings(&[("no.such.setting", "1")]).map(drop).unwrap_err();
        assert!(refused.to_string().contains("no.such.setting"), "{refused}");
    }

    #[test]
    fn only_what_is_done_is_committed_whatever_is_set() {
        for given in [&[][..], &[("enable.auto.commit", "false")], &[("enable.auto.offset.store", "false")]] {
            let Settings { consumer, group, reset, session, .. } = settings(given).unwrap();
            assert_eq!(session, Duration::from_secs(45), "the client's default");
            assert_eq!(consumer.get("enable.auto.commit"), Some("true"));
            assert_eq!(consumer.get("enable.auto.offset.store"), Some("false"));
            assert_eq!((group.as_str(), reset), ("g", Reset::Earliest));
        }
        let Settings { session, .. } = settings(&[("session.timeout.ms", "6000")]).unwrap();
        assert_eq!(session, Duration::from_secs(6));
        for (value, reset) in [
            ("beginning", Reset::Earliest),
            ("smallest", Reset::Earliest),
            ("latest", Reset::Latest),
            ("largest", Reset::Latest),
            ("end", Reset::Latest),
            ("error", Reset::Error),
        ] {
            assert_eq!(settings(&[("auto.offset.reset", value)]).unwrap().reset, reset, "{value}");
        }
    }

    #[test]
    fn dead_letters_are_sent_by_an_idempotent_producer_to_the_same_brokers() {
        let given = [("session.timeout.ms", "6000"), ("client.id", "me"), ("acks", "all"), ("transactional.id", "t")];
        let endless = ("delivery.timeout.ms", "0");
        let producer = settings(&[&given[..], &[endless]].concat()).unwrap().producer;
        assert_eq!(producer.create_native_config().unwrap().get("message.timeout.ms").unwrap(), "30000");
        for (name, value) in [("client.id", Some("me")), ("bootstrap.servers", Some("127.0.0.1:1")), ("group.id", None)]
        {
            assert_eq!(producer.get(name), value);
        }
        assert_eq!((producer.get("session.timeout.ms"), producer.get("transactional.id")), (None, None));
        assert_eq!(producer.get("enable.idempotence"), Some("true"));
        assert_eq!(producer.get("message.timeout.ms"), Some("30000"));
    }

    #[test]
    fn options_are_refused_by_their_names() {
        let none = Duration::ZERO;
        for (options, name) in [
            (KafkaOptions::new().release_within(none), "release_within"),
            (KafkaOptions::new().offsets_within(none), "offsets_within"),
            (KafkaOptions::new().dead_letter_within(Duration::MAX), "dead_letter_within"),
            (KafkaOptions::new().dead_letter_topic(" "), "dead_letter_topic"),
        ] {
            let refused = Settings::of(&config(&[]), &options).map(drop).unwrap_err();
            assert!(matches!(&refused, KafkaSourceError::Setting { name: of, .. } if *of == name), "{name}: {refused}");
        }
    }
}
