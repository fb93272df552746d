//! Everything at once: `cargo run -p hapax-orders --bin demo` starts PostgreSQL and NATS servers of
//! its own, and all steps as processes; posts twenty orders, each twice, kills a step now and then,
//! and prints what was billed.

use hapax_orders::Failed;
use hapax_orders::world::World;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Failed> {
    let program = std::env::current_exe()?.with_file_name("orders");
    let Some(mut world) = World::start(program) else {
        println!("Debian has both servers: apt-get install postgresql nats-server");
        return Ok(ExitCode::FAILURE);
    };
    for number in 0..20 {
        for attempt in 1..=2 {
            let status = world.post(&format!("order-{number}"), "ada 1999");
            println!("order-{number}, attempt {attempt}: {status}");
        }
        if number % 5 == 4 {
            println!("{} is killed", world.kill_one(number as usize / 5));
        }
    }
    world.until_all_is_billed(20);
    println!("billed, and how often: {:?}", world.bills());
    Ok(ExitCode::SUCCESS)
}
