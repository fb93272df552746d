//! Options as a configuration has them, before they are checked.

use serde::Deserialize;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    pub(super) first: Duration,
    pub(super) longest: Duration,
    pub(super) attempts_max: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Retention {
    pub(super) keep: Duration,
    pub(super) partition: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tables {
    pub(super) schema: String,
    pub(super) prefix: String,
}

#[cfg(test)]
mod tests {
    use crate::{Layout, Retention, Retry, Tables};
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;
    use std::time::Duration;

    fn is_the_same_again<T: Serialize + DeserializeOwned + PartialEq + Debug>(options: T) {
        let written = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<T>(&written).unwrap(), options, "{written}");
    }

    #[test]
    fn options_that_were_written_are_read() {
        let second = Duration::from_secs(1);
        is_the_same_again(Retry::new(second, 60 * second).unwrap());
        is_the_same_again(Retry::new(second / 5, second).unwrap().attempts_max(Some(7)).unwrap());
        is_the_same_again(Retention::new(7 * second, second).unwrap());
        is_the_same_again(Tables::new("app", "orders").unwrap());
        is_the_same_again(Layout::PerScope);
        assert_eq!(serde_json::to_string(&Layout::PerScope).unwrap(), r#""per_scope""#);
    }

    #[test]
    fn options_that_cannot_be_are_refused_by_their_names() {
        let refused = serde_json::from_str::<Tables>(r#"{"schema": "App", "prefix": "orders"}"#).unwrap_err();
        assert!(refused.to_string().contains("option `schema`: got \"App\""), "{refused}");
        let unknown = serde_json::from_str::<Tables>(r#"{"schema": "app", "prefix": "orders", "table": "x"}"#);
        assert!(unknown.unwrap_err().to_string().contains("unknown field `table`"));
        let zero = r#"{"keep": {"secs": 0, "nanos": 0}, "partition": {"secs": 1, "nanos": 0}}"#;
        assert!(serde_json::from_str::<Retention>(zero).unwrap_err().to_string().contains("option `keep`"));
    }
}
