//! The table: made by several at once, checked, and refused if it is another one.

use crate::client::*;
use hapax_dynamodb::aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TimeToLiveSpecification,
};
use hapax_store::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_made_once_by_any_number_of_processes() {
    let Some(table) = Table::missing() else { return };
    let store = table.store();
    let error = store.verify_table().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("no such table: call `create_table`"), "{error}");
    let (one, another) = (table.store(), table.store());
    let (first, second) = tokio::join!(one.create_table(), another.create_table());
    first.unwrap();
    second.unwrap();
    store.create_table().await.unwrap();
    store.verify_table().await.unwrap();
    let described = table.client().describe_table().table_name(&table.name).send().await.unwrap();
    let billing = described.table.unwrap().billing_mode_summary.unwrap().billing_mode;
    assert_eq!(billing, Some(BillingMode::PayPerRequest));
}

/// Makes a table by other means.
async fn make(table: &Table, keys: &[(&str, KeyType, ScalarAttributeType)]) {
    let client = table.client();
    let mut request = client.create_table().table_name(&table.name).billing_mode(BillingMode::PayPerRequest);
    for (name, kind, of) in keys {
        let key = KeySchemaElement::builder().attribute_name(*name).key_type(kind.clone()).build().unwrap();
        let of = AttributeDefinition::builder().attribute_name(*name).attribute_type(of.clone()).build().unwrap();
        request = request.key_schema(key).attribute_definitions(of);
    }
    request.send().await.unwrap();
}

async fn refusal(table: &Table) -> String {
    let error = table.store().verify_table().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tables_are_refused_with_what_they_lack() {
    use KeyType::{Hash, Range};
    use ScalarAttributeType::{B, S};
    let Some(table) = Table::missing() else { return };
    let gone = async || drop(table.client().delete_table().table_name(&table.name).send().await.unwrap());

    make(&table, &[("id", Hash, S)]).await;
    assert!(refusal(&table).await.contains("the sort key `scope`, got [(\"id\", \"HASH\")]"));
    assert!(table.store().create_table().await.is_err(), "a table that is another one is left alone");
    gone().await;

    make(&table, &[("id", Hash, B), ("scope", Range, S)]).await;
    assert!(refusal(&table).await.contains("to be strings"));
    gone().await;

    make(&table, &[("id", Hash, S), ("scope", Range, S)]).await;
    assert!(refusal(&table).await.contains("got none: call `create_table`"));
    let other = TimeToLiveSpecification::builder().enabled(true).attribute_name("expires").build().unwrap();
    table
        .client()
        .update_time_to_live()
        .table_name(&table.name)
        .time_to_live_specification(other)
        .send()
        .await
        .unwrap();
    assert!(refusal(&table).await.contains("got one by `expires`"));
    gone().await;

    make(&table, &[("id", Hash, S), ("scope", Range, S)]).await;
    table.store().create_table().await.expect("it lacks a time to live only, which is set");
    table.store().verify_table().await.unwrap();
}
