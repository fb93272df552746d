//! The source against a node of RabbitMQ of its own. It takes long to start, so all cases share it,
//! each with its own queues and connection.

mod cases;
mod closed;
mod node;
mod published;
mod redriven;

use node::Node;
use testkit::brokers::Rabbit;

#[tokio::test(flavor = "multi_thread")]
async fn the_source_keeps_its_promises_with_a_node() {
    let Some(rabbit) = Rabbit::start("rabbitmq_source") else { return };
    let node = |name: &'static str| Node::connect(rabbit.url(), name);
    tokio::join!(
        cases::no_more_is_sent_ahead_than_asked(node("ahead").await),
        cases::a_message_is_held_back_for_as_long_as_is_asked(node("held-back").await),
        cases::a_quorum_queue_counts_deliveries(node("quorum").await),
        cases::what_is_put_aside_is_confirmed_and_has_the_reason(node("aside").await),
        cases::what_no_queue_takes_is_not_put_aside(node("nowhere").await),
        cases::a_missing_queue_is_named(node("missing").await),
        cases::what_is_not_acknowledged_is_taken_back_at_once(node("closing").await),
        cases::a_consumer_handles_each_order_once_and_puts_aside_what_fails(node("consumer").await),
        closed::a_channel_that_the_broker_closes_is_opened_again(node("channel").await),
        closed::a_queue_that_comes_back_is_waited_for(node("back").await),
        closed::a_queue_that_stays_away_is_an_error_after_the_limit(node("away").await),
        closed::a_closed_connection_is_an_error_at_once(node("connection").await),
        closed::a_connection_that_recovers_goes_on(node("recovers").await),
        closed::a_connection_that_breaks_is_an_error(node("breaks").await),
        published::each_is_stored_with_its_id_and_headers_and_what_no_queue_takes_is_given_up(node("published").await),
        published::a_full_queue_and_a_broken_connection_are_tried_again(node("full").await),
        redriven::poison_in_a_batch_is_put_aside_alone(node("batches").await),
        redriven::a_dead_letter_that_is_published_anew_is_handled_by_the_same_consumer(node("redriven").await),
        redriven::a_message_that_was_put_aside_and_not_acknowledged_is_put_aside_again_unhandled(
            node("repeated").await
        ),
    );
}
