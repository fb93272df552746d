//! The table: made, and checked.

use crate::DynamoDbStore;
use crate::errors::{error, failure};
use crate::item::{ID, SCOPE, TTL};
use crate::tries::BACK_OFF;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableDescription, TableStatus,
    TimeToLiveSpecification, TimeToLiveStatus,
};
use hapax::seam::random;
use hapax_store::{ErrorKind, StoreError};
use std::time::Duration;
use tokio::time::Instant;

/// The longest time that the service may take to make the table. It mostly takes some seconds.
const MAKING: Duration = Duration::from_secs(120);

impl DynamoDbStore {
    /// Makes the table, billed by request, with its time to live, if it is not there, and waits
    /// until it can be used. Any number of processes may do so at once.
    ///
    /// It takes the permissions `dynamodb:CreateTable`, `DescribeTable`, `DescribeTimeToLive` and
    /// `UpdateTimeToLive`. A table that is made by other means needs `id` (S) as its partition key,
    /// `scope` (S) as its sort key, and its time to live by the attribute `ttl`:
    /// [`verify_table`](Self::verify_table) says whether it has them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if a permission lacks, or the table is another one;
    /// [`ErrorKind::Timeout`] if it is not ready after two minutes.
    pub async fn create_table(&self) -> Result<(), StoreError> {
        let deadline = Instant::now() + MAKING;
        let mut request = self.client.create_table().table_name(self.table()).billing_mode(BillingMode::PayPerRequest);
        for (name, kind) in [(ID, KeyType::Hash), (SCOPE, KeyType::Range)] {
            let key = KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
            let of = AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build();
            request = request.key_schema(key.map_err(invalid)?).attribute_definitions(of.map_err(invalid)?);
        }
        match self.in_time("make", deadline, request.send()).await.map_err(|late| late.error)? {
            Ok(_) => {}
            // Another process has made it, or is about to.
            Err(refused) if refused.as_service_error().is_some_and(|error| error.is_resource_in_use_exception()) => {}
            Err(refused) => return Err(failure(refused, "make", self.table()).error),
        }
        self.is_active(deadline).await?;
        self.expires(deadline).await?;
        self.verify_table().await
    }

    /// Checks that the table can be used: its keys, its state, and its time to live, without which
    /// nothing that has expired is ever removed.
    ///
    /// ```no_run
    /// # async fn example(store: hapax_dynamodb::DynamoDbStore) -> Result<(), hapax_store::StoreError> {
    /// store.verify_table().await?; // when the program starts, rather than at the first message
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] says what it lacks; [`ErrorKind::Unavailable`] if it is being
    /// made.
    pub async fn verify_table(&self) -> Result<(), StoreError> {
        let deadline = Instant::now() + self.options.timeout;
        let table = self.describe(deadline).await?;
        let name = self.table();
        let keys: Vec<(&str, &str)> =
            table.key_schema().iter().map(|key| (key.attribute_name(), key.key_type().as_str())).collect();
        if keys != [(ID, "HASH"), (SCOPE, "RANGE")] {
            let what =
                format!("table {name}: expected the partition key `{ID}` and the sort key `{SCOPE}`, got {keys:?}");
            return Err(error(ErrorKind::Misconfigured, what));
        }
        let is_text = |of: &AttributeDefinition| *of.attribute_type() == ScalarAttributeType::S;
        let is_ours = |of: &&AttributeDefinition| [ID, SCOPE].contains(&of.attribute_name());
        if !table.attribute_definitions().iter().filter(is_ours).all(is_text) {
            let what = format!("table {name}: expected `{ID}` and `{SCOPE}` to be strings (S)");
            return Err(error(ErrorKind::Misconfigured, what));
        }
        match table.table_status() {
            Some(TableStatus::Active | TableStatus::Updating) => {}
            other => {
                let status = other.map_or("unknown", TableStatus::as_str);
                return Err(error(
                    ErrorKind::Unavailable,
                    format!("table {name}: expected it to be ACTIVE, it is {status}"),
                ));
            }
        }
        match self.time_to_live(deadline).await? {
            Some(attribute) if attribute == TTL => Ok(()),
            other => {
                let got = other.map_or("none".to_owned(), |other| format!("one by `{other}`"));
                let what = format!(
                    "table {name}: expected a time to live by the attribute `{TTL}`, got {got}: \
                     call `create_table`, or `aws dynamodb update-time-to-live --table-name {name} \
                     --time-to-live-specification Enabled=true,AttributeName={TTL}`"
                );
                Err(error(ErrorKind::Misconfigured, what))
            }
        }
    }

    fn table(&self) -> &str {
        &self.options.table
    }

    /// Waits until the table is there.
    async fn is_active(&self, deadline: Instant) -> Result<(), StoreError> {
        for waits in 1.. {
            if self.describe(deadline).await?.table_status() == Some(&TableStatus::Active) {
                break;
            }
            let wait = BACK_OFF.after(waits, random::any());
            if Instant::now() + wait >= deadline {
                let what = format!("table {}: expected it to be ACTIVE within {MAKING:?}", self.table());
                return Err(error(ErrorKind::Timeout, what));
            }
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Sets the time to live, unless it is set.
    async fn expires(&self, deadline: Instant) -> Result<(), StoreError> {
        if self.time_to_live(deadline).await?.is_some() {
            return Ok(());
        }
        let by = TimeToLiveSpecification::builder().enabled(true).attribute_name(TTL).build().map_err(invalid)?;
        let request = self.client.update_time_to_live().table_name(self.table()).time_to_live_specification(by);
        match self.in_time("set the time to live", deadline, request.send()).await.map_err(|late| late.error)? {
            Ok(_) => Ok(()),
            // Another process has set it meanwhile.
            Err(_) if self.time_to_live(deadline).await?.is_some() => Ok(()),
            Err(refused) => Err(failure(refused, "set the time to live", self.table()).error),
        }
    }

    async fn describe(&self, deadline: Instant) -> Result<TableDescription, StoreError> {
        let request = self.client.describe_table().table_name(self.table());
        let answered = self.in_time("describe", deadline, request.send()).await.map_err(|late| late.error)?;
        match answered {
            Ok(answer) => answer.table.ok_or_else(|| error(ErrorKind::Corrupt, "expected a description, got none")),
            Err(refused) => {
                let is_missing = refused.code() == Some("ResourceNotFoundException");
                let failed = failure(refused, "describe", self.table()).error;
                let what = "there is no such table: call `create_table`";
                Err(if is_missing {
                    StoreError::caused(failed.kind(), crate::errors::BACKEND, what, failed)
                } else {
                    failed
                })
            }
        }
    }

    /// Returns the attribute by which items expire.
    async fn time_to_live(&self, deadline: Instant) -> Result<Option<String>, StoreError> {
        let request = self.client.describe_time_to_live().table_name(self.table());
        let doing = "describe the time to live";
        let answered = self.in_time(doing, deadline, request.send()).await.map_err(|late| late.error)?;
        let answer = answered.map_err(|refused| failure(refused, doing, self.table()).error)?;
        let is_on = |status: Option<&TimeToLiveStatus>| {
            matches!(status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling))
        };
        let described = answer.time_to_live_description.filter(|described| is_on(described.time_to_live_status()));
        Ok(described.and_then(|described| described.attribute_name))
    }
}

fn invalid(why: aws_sdk_dynamodb::error::BuildError) -> StoreError {
    StoreError::caused(ErrorKind::Misconfigured, crate::errors::BACKEND, "a request for the table", why)
}
