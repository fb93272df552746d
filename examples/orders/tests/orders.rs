//! Kills all sides at random, and proves with the tables that each order was billed once and none
//! is missing. `HAPAX_ORDERS_TIMES=n` has n times as many orders and kills, `HAPAX_LONG=1` a
//! hundred times (scripts/campaign-orders).

use hapax_orders::world::{KINDS, World};
use testkit::random;

const ORDERS: usize = 60;
const KILLS: usize = 12;

/// Returns an order's id, which a header of an event has to encode.
fn id(number: usize) -> String {
    format!("order {number} 100%")
}

#[test]
fn each_order_is_billed_once_though_all_sides_are_killed() {
    let Some(mut world) = World::start(env!("CARGO_BIN_EXE_orders").into()) else { return };
    let mut random = random::seeded();
    let times = std::env::var("HAPAX_ORDERS_TIMES").map(|times| times.parse().expect("a number"));
    let times = times.unwrap_or_else(|_| testkit::long(1, 100));
    let (orders, kills) = (ORDERS * times, KILLS * times);
    for number in 0..orders {
        let (key, body) = (id(number), format!("customer-{} {number}", number % 7));
        assert_eq!(world.post(&key, &body), 201, "{key}");
        // Every third client does not hear of it, and asks again.
        if random.percent(33) {
            assert_eq!(world.post(&key, &body), 201, "{key} again");
        }
        if number * kills / orders != (number + 1) * kills / orders {
            // Each kind in turn, so that a short run has them all.
            let killed = world.kill_one(number * kills / orders % KINDS);
            println!("after {key}: {killed} is killed");
            std::thread::sleep(random.millis(0, 100));
        }
    }
    assert_eq!(world.post(&id(0), "another body 1"), 422, "a key stands for one request");
    world.until_all_is_billed(orders);

    let bills = world.bills();
    let missing: Vec<String> = (0..orders).map(id).filter(|id| !bills.contains_key(id)).collect();
    let twice: Vec<_> = bills.iter().filter(|(_, times)| **times != 1).collect();
    assert_eq!((missing, twice), (vec![], vec![]), "{}", world.said());
    assert_eq!(bills.len(), orders, "no bill that nobody has ordered");
    let wrong = world.query("SELECT b.order_id FROM bills b LEFT JOIN orders o ON o.id = b.order_id AND o.cents = b.cents WHERE o.id IS NULL");
    assert!(wrong.is_empty(), "bills of another amount");
    let left = world.query("SELECT count(*) FROM shop_outbox").remove(0).get::<_, i64>(0);
    println!(
        "{orders} orders, {} kills, each billed once; {left} messages left in {}",
        world.kills,
        world.path().display()
    );
}
