//! Names of consumers: consumers of different names on one store do not know each other's ids, and
//! those of one name do.

use super::*;
use hapax_store::{ErrorKind, Policy, StoreError};
use hapax_stream::{ConsumerStats, LogConsumer};

fn of_name(name: &str, engine: &Engine) -> ConsumerBuilder<Engine, Received> {
    Consumer::builder(name, engine.clone(), |message: &Received| Some(message.id.clone()))
}

fn hundred() -> Queue {
    Queue::of(30 * SECOND, (0..100).map(|n| n.to_string()))
}

async fn run(consumer: ConsumerBuilder<Engine, Received>, queue: &Queue) -> ConsumerStats {
    let consumer = consumer.build().unwrap();
    consumer.run(queue, |_| async { Ok::<(), String>(()) }, queue.emptied()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_service_of_a_fan_out_handles_every_message() {
    let world = World::new();
    for name in ["billing", "mail", "stock", "stock-retry"] {
        // An engine of its own, as in a process of its own.
        let stats = run(of_name(name, &world.shared().await), &hundred()).await;
        assert_eq!((stats.handled, stats.duplicate, stats.acknowledged), (100, 0, 100), "{name}");
    }
    let shared = world.shared().await;
    let (billing, mail) = (of_name("billing", &shared), of_name("new", &shared));
    assert_eq!(run(billing, &hundred()).await.duplicate, 100, "another instance of it has handled them");
    assert_eq!(run(mail, &hundred()).await.handled, 100, "also on the engine of another");
}

#[tokio::test(start_paused = true)]
async fn sources_under_one_name_share_their_ids_unless_scopes_tell_them_apart() {
    let engine = World::new().shared().await;
    assert_eq!(run(of_name("billing", &engine), &hundred()).await.handled, 100);
    assert_eq!(run(of_name("billing", &engine), &hundred()).await.duplicate, 100);
    let apart = of_name("billing", &engine).scope_by(|_| "other".to_owned());
    assert_eq!(run(apart, &hundred()).await.handled, 100);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_beneath_the_scope_of_its_engine() {
    let world = World::new();
    let shop = world.engine().scope("shop").build().await.unwrap();
    assert_eq!(run(of_name("billing", &shop), &hundred()).await.handled, 100);
    let in_parts = of_name("billing", &shop).scope_by(ToString::to_string);
    assert_eq!(run(in_parts, &hundred()).await.handled, 100);
    let elsewhere = world.shared().await;
    for scope in ["shop/billing", "shop/billing//0"] {
        assert!(elsewhere.with_scope(scope).unwrap().claim("7").await.unwrap().is_duplicate(), "{scope}");
    }
    for scope in ["shop", "billing", ""] {
        assert!(elsewhere.with_scope(scope).unwrap().claim("7").await.unwrap().claimed().is_some(), "{scope:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_found_by_name_and_holds_beneath() {
    let shadow = || Policy::new().shadow(true);
    for (scope, policy, is_shadowed) in [
        ("", "billing", true),
        ("shop", "shop", true),
        ("shop", "shop/billing", true),
        ("shop", "billing", false),
        ("", "bill", false),
        ("", "shop", false),
    ] {
        let engine = World::new().engine().scope(scope).policy(policy, shadow()).build().await.unwrap();
        for scope_by in [None, Some("orders/3")] {
            let named = || match scope_by {
                None => of_name("billing", &engine),
                Some(part) => of_name("billing", &engine).scope_by(|_| part.to_owned()),
            };
            assert_eq!(run(named(), &hundred()).await.handled, 100);
            let again = run(named(), &hundred()).await;
            let handled = if is_shadowed { 100 } else { 0 };
            assert_eq!(again.handled, handled, "scope {scope:?}, policy of {policy:?}, {scope_by:?}");
        }
    }
}

#[tokio::test]
async fn a_wrong_name_is_refused() {
    let refused = |error: StoreError, name: &str| {
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("option `name`"), "{name:?}: {error}");
    };
    let engine = World::new().shared().await;
    for name in ["", "a/b", "a\nb", &"x".repeat(129)] {
        refused(of_name(name, &engine).build().unwrap_err(), name);
        let memory = hapax::Dedup::builder().build().unwrap();
        let of_log = LogConsumer::builder(name, memory, |message: &Message| message.id.clone());
        refused(of_log.build().unwrap_err(), name);
    }
    let in_shop = World::new().engine().scope("shop").build().await.unwrap();
    let name = "x".repeat(124);
    refused(of_name(&name, &in_shop).build().unwrap_err(), &name);
    assert!(of_name(&name[1..], &in_shop).build().is_ok());
    let error = of_name(&name, &engine).scope_by(|_| "parts".to_owned()).build().unwrap_err();
    assert!(error.to_string().contains("option `scope_by`"), "{error}");
}
