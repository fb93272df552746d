//! Options as a configuration has them.

/// Has options read from a configuration as these fields, and checked as a caller's are.
macro_rules! read {
    ($options:ident { $($field:ident: $of:ty),+ } => $checked:expr) => {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Read {
            $($field: $of),+
        }

        impl TryFrom<Read> for $options {
            type Error = hapax_store::StoreError;

            fn try_from(Read { $($field),+ }: Read) -> Result<Self, Self::Error> {
                $checked
            }
        }
    };
}

pub(crate) use read;

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
