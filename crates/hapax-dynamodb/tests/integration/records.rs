//! Items as they are in the table, and what others do to them.

use crate::client::*;
use hapax::Key;
use hapax_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use hapax_store::*;
use std::time::Duration;

/// A process whose clock is behind takes over what another one had, after its end.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_also_where_a_clock_is_behind() {
    let Some(table) = Table::start().await else { return };
    let ahead = table.store();
    let first = token(&ahead, "a", 1).await;
    assert_eq!(one(ahead.release(&[hold("a", first)]).await).unwrap(), Held::Done);
    let behind = hapax::ManualClock::new();
    behind.set(hapax::Clock::now(&table.clock) - Duration::from_secs(1_800));
    let store = table.store().with_clock(behind.clone());
    // By the clock that is behind, the record is not over yet: nobody gets it for that long.
    let early = one(store.claim(&[claim("a", 2)]).await).unwrap();
    assert!(
        matches!(early, Claimed::InProgress { lease_left, .. } if lease_left == Duration::from_secs(1_800)),
        "{early:?}"
    );
    // A clock that was set back behind a token that it gave itself.
    behind.advance(Duration::from_secs(1_800));
    let second = token(&store, "a", 3).await;
    assert!(second > first, "{second} after {first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn items_are_readable_and_outlive_their_end_by_an_hour() {
    let Some(table) = Table::start().await else { return };
    let store = table.store();
    one(store.mark(&[mark("order-17", 4711)]).await).unwrap();
    let client = table.client();
    let text = |text: &str| AttributeValue::S(text.into());
    let got =
        client.get_item().table_name(&table.name).key("id", text("order-17")).key("scope", text("test")).send().await;
    let item = got.unwrap().item.expect("it is there, under its own id");
    assert_eq!(item["state"], text("completed"));
    assert_eq!(item["attempt"], AttributeValue::N("4711".into()));
    assert_eq!(item["until_ns"], AttributeValue::N(format!("{}000000000", 1_900_000_000 + 3_600)));
    assert_eq!(item["ttl"], AttributeValue::N(format!("{}", 1_900_000_000 + 2 * 3_600)));

    // The service removes it, some day: then it is as if it had never been.
    let key = |name: &str| item[name].clone();
    client.delete_item().table_name(&table.name).key("id", key("id")).key("scope", key("scope")).send().await.unwrap();
    assert_eq!(one(store.mark(&[mark("order-17", 2)]).await).unwrap(), Marked::Fresh);
}

#[tokio::test(flavor = "multi_thread")]
async fn items_of_others_are_corrupt_and_named_and_stop_nobody_else() {
    let Some(table) = Table::start().await else { return };
    let store = table.store();
    one(store.mark(&[mark("good", 1)]).await).unwrap();
    let text = |text: &str| AttributeValue::S(text.into());
    let put = table.client().put_item().table_name(&table.name).item("id", text("foreign")).item("scope", text("test"));
    put.item("state", text("shipped"))
        .item("until_ns", AttributeValue::N("9000000000000000000".into()))
        .send()
        .await
        .unwrap();
    let known = store.look_up(&["foreign", "good"].map(key)).await.unwrap();
    let [Err(error), Ok(Known::Completed(_))] = &known[..] else { panic!("{known:?}") };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("test/foreign") && error.to_string().contains("`state`"), "{error}");
    let claimed = store.claim(&[claim("foreign", 2), claim("other", 3)]).await.unwrap();
    assert_eq!(claimed[0].as_ref().unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(matches!(claimed[1], Ok(Claimed::Claimed { .. })));
    assert_eq!(store.scan(None, 10).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_has_the_services_size_at_most() {
    let Some(table) = Table::start().await else { return };
    let store = table.store();
    let most = (400 << 10) - (1 << 10);
    let key = key("a");
    let record = |bytes: usize| Record {
        key: key.clone(),
        retention: HOUR,
        fingerprint: Some(Fingerprint::of("a")),
        result: Some(vec![7; bytes]),
    };
    // The server counts bytes in Base64. (That the largest ones fit is tested by arithmetic.)
    one(store.record(&[record(most / 4 * 3 - 1_000)]).await).unwrap();
    let error = one(store.record(&[record(most)]).await).unwrap_err();
    assert!(error.to_string().contains("Item size to update has exceeded"), "{error}");
    let Known::Completed(done) = one(store.look_up(std::slice::from_ref(&key)).await).unwrap() else {
        panic!("it is done")
    };
    assert_eq!(done.result.map(|result| result.len()), Some(most / 4 * 3 - 1_000));
    table.wire.forget_all();
    let error = one(store.record(&[record(most + 1)]).await).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains(&format!("at most {most} bytes here, this one has {}", most + 1)), "{error}");
    assert!(table.wire.forget_all().is_empty(), "nothing was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_see_records_in_each_state() {
    let Some(table) = Table::start().await else { return };
    let store = table.store();
    let claimed = token(&store, "claimed", 1).await;
    let failed = token(&store, "failed", 2).await;
    let completed = token(&store, "completed", 3).await;
    let failure = ClaimFailure { hold: hold("failed", failed), retry_after: LEASE };
    one(store.fail(&[failure]).await).unwrap();
    let result = Some(b"paid".to_vec());
    one(store.complete(&[Completion { hold: hold("completed", completed), retention: HOUR, result }]).await).unwrap();
    let part = Key::new().text("marked").int(1).clone();
    let marked = RecordKey::new(&Scope::new("test").unwrap(), &part);
    one(store.mark(&[Mark { key: marked.clone(), attempt: 4, retention: HOUR }]).await).unwrap();
    token(&store, "over", 5).await;
    one(store.forget(&[key("over")]).await).unwrap();

    let keys = [key("claimed"), key("failed"), key("completed"), marked, key("over"), key("never")];
    let seen: Vec<Option<Inspected>> = store.inspect(&keys).await.unwrap().into_iter().map(Result::unwrap).collect();
    let expected = [
        Some(Inspected::new(RecordState::Claimed, LEASE, Some(claimed), None, None)),
        Some(Inspected::new(RecordState::Failed, LEASE, Some(failed), None, None)),
        Some(Inspected::new(RecordState::Completed, HOUR, Some(completed), None, Some(b"paid".into()))),
        Some(Inspected::new(RecordState::Marked, HOUR, None, None, None)),
        None,
        None,
    ];
    assert_eq!(seen, expected);

    let (mut listed, mut from) = (Vec::new(), None);
    loop {
        let listing = store.list(from.as_ref(), 2).await.unwrap();
        listed.extend(listing.listed.into_iter().map(|listed| (listed.key.to_string(), listed.state)));
        from = listing.next;
        if from.is_none() {
            break;
        }
    }
    listed.sort();
    let names = ["claimed", "completed", "failed", "marked/1"].map(|id| format!("test/{id}"));
    let states = [RecordState::Claimed, RecordState::Completed, RecordState::Failed, RecordState::Marked];
    assert_eq!(listed, names.into_iter().zip(states).collect::<Vec<_>>());
}
