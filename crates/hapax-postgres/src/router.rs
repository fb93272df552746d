//! Handlers by the kind of a message.

use super::{BoxError, Message};
use crate::errors::misconfigured;
use crate::message::validate_text;
use crate::telemetry::meters;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hapax_message::Described as _;
use hapax_message::routes::{Destination, OnUnknown, RouterStats, Routes};
#[cfg(feature = "json")]
use hapax_message::{
    GiveUp,
    routes::{RouterCounts, Way},
};
use hapax_store::StoreError;
use std::sync::Arc;

/// Adds the handler of a kind that a message can have.
fn add<R>(routes: &mut Routes<R>, kind: &str, handler: R) -> Result<(), StoreError> {
    validate_text("a kind", Some(kind))?;
    routes.on(kind, handler).map_err(|error| misconfigured(error.to_string()))
}

/// Parses a payload of JSON. Another attempt cannot help one that is no such thing.
#[cfg(feature = "json")]
fn parsed<P: serde::de::DeserializeOwned>(message: &Message, counts: &RouterCounts) -> Result<P, GiveUp> {
    serde_json::from_slice(&message.payload).map_err(|error| {
        meters::routed(&message.name, Way::Malformed.name());
        counts.malformed(message.kind(), error)
    })
}

/// Defines the router of handlers that have the transactions of one driver.
macro_rules! router {
    (
        $(#[$about:meta])* $router:ident, $handler:ident,
        $(#[$about_json:meta])* $json_handler:ident, $transaction:ty,
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $router {
            routes: Routes<Arc<dyn Route>>,
        }

        impl Default for $router {
            fn default() -> Self {
                Self::new()
            }
        }

        impl $router {
            /// Creates a router that puts every message aside.
            pub fn new() -> Self {
                $router { routes: Routes::default() }
            }

            /// Adds the handler of a kind.
            ///
            /// # Errors
            ///
            /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) if the kind has a handler
            /// already, or no message can have it.
            pub fn on(mut self, kind: &str, handler: impl $handler) -> Result<Self, StoreError> {
                add(&mut self.routes, kind, Arc::new(handler))?;
                Ok(self)
            }

            /// Adds the handler of a kind whose payloads are JSON. A payload that is not what the
            /// handler takes is put aside at once, with the place and cause of the error.
            ///
            /// # Errors
            ///
            /// Those of [`on`](Self::on).
            #[cfg(feature = "json")]
            pub fn on_json(mut self, kind: &str, handler: impl $json_handler) -> Result<Self, StoreError> {
                let counts = self.routes.counts();
                add(&mut self.routes, kind, Arc::new(Json(handler, counts)))?;
                Ok(self)
            }

            /// Sets the treatment of all other messages. Default: they are put aside. This replaces
            /// a [`fallback`](Self::fallback).
            #[must_use]
            pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
                self.routes.on_unknown(on_unknown);
                self
            }

            /// Gives all other messages to this handler, also those without a kind. This replaces
            /// [`on_unknown`](Self::on_unknown).
            #[must_use]
            pub fn fallback(mut self, handler: impl $handler) -> Self {
                self.routes.fallback(Arc::new(handler));
                self
            }

            /// Returns where messages went since this router was made.
            pub fn stats(&self) -> RouterStats {
                self.routes.stats()
            }
        }

        impl $handler for $router {
            async fn handle(&self, tx: &mut $transaction, message: &Message) -> Result<(), BoxError> {
                let (way, destination) = self.routes.find(message.kind());
                meters::routed(&message.name, way.name());
                match destination {
                    Destination::Handler(handler) => handler.route(tx, message).await,
                    Destination::Done => Ok(()),
                    Destination::DeadLetter(error) => Err(error.into()),
                }
            }
        }

        $(#[$about_json])*
        #[cfg(feature = "json")]
        pub trait $json_handler: Send + Sync + 'static {
            /// The payload.
            type Payload: serde::de::DeserializeOwned + Send;

            /// Has the effect, as [`Handler::handle`](crate::Handler::handle) does.
            fn handle(
                &self,
                tx: &mut $transaction,
                payload: Self::Payload,
                message: &Message,
            ) -> impl Future<Output = Result<(), BoxError>> + Send;
        }

        /// A handler of any type.
        trait Route: Send + Sync {
            fn route<'a>(
                &'a self,
                tx: &'a mut $transaction,
                message: &'a Message,
            ) -> BoxFuture<'a, Result<(), BoxError>>;
        }

        impl<H: $handler> Route for H {
            fn route<'a>(
                &'a self,
                tx: &'a mut $transaction,
                message: &'a Message,
            ) -> BoxFuture<'a, Result<(), BoxError>> {
                self.handle(tx, message).boxed()
            }
        }

        #[cfg(feature = "json")]
        struct Json<H>(H, RouterCounts);

        #[cfg(feature = "json")]
        impl<H: $json_handler> $handler for Json<H> {
            async fn handle(&self, tx: &mut $transaction, message: &Message) -> Result<(), BoxError> {
                let payload = parsed(message, &self.1)?;
                self.0.handle(tx, payload, message).await
            }
        }
    };
}

mod of_tokio_postgres {
    use super::*;
    use crate::Handler;

    router! {
        /// A [`Handler`] that gives each message to the handler of its kind.
        ///
        /// ```no_run
        /// use hapax_postgres::{BoxError, Handler, Message, Router, Tables, Worker};
        /// use hapax_postgres::PostgresOptions;
        /// use std::sync::Arc;
        /// use tokio_postgres::Transaction;
        ///
        /// struct Paid;
        ///
        /// impl Handler for Paid {
        ///     async fn handle(
        ///         &self,
        ///         tx: &mut Transaction<'_>,
        ///         message: &Message,
        ///     ) -> Result<(), BoxError> {
        ///         let sql = "INSERT INTO invoices (order_id) VALUES ($1)";
        ///         tx.execute(sql, &[&message.subject]).await?;
        ///         Ok(())
        ///     }
        /// }
        ///
        /// struct Cancelled;
        ///
        /// impl Handler for Cancelled {
        ///     async fn handle(
        ///         &self,
        ///         tx: &mut Transaction<'_>,
        ///         message: &Message,
        ///     ) -> Result<(), BoxError> {
        ///         let sql = "DELETE FROM invoices WHERE order_id = $1";
        ///         tx.execute(sql, &[&message.subject]).await?;
        ///         Ok(())
        ///     }
        /// }
        ///
        /// # async fn example() -> Result<(), hapax_store::StoreError> {
        /// let router = Router::new().on("order.paid", Paid)?.on("order.cancelled", Cancelled)?;
        /// let options = PostgresOptions::parse("host=/run/postgresql user=app")?;
        /// let worker = Worker::new(options, Tables::new("public", "shop")?, "billing")?;
        /// worker.run(Arc::new(router), std::future::pending()).await?; // or until a signal
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// The kind is that of the message, or of its headers, as
        /// [`Described`](hapax_message::Described) says. A message of a kind that has no handler,
        /// or that has no kind, is put aside: it becomes a dead letter at once, which says the
        /// kind, and can be requeued when there is a handler. See
        /// [`on_unknown`](Self::on_unknown) and [`fallback`](Self::fallback) for others.
        Router, Handler,
        /// A handler of messages whose payloads are JSON, for [`Router::on_json`].
        ///
        /// ```no_run
        /// use hapax_postgres::{BoxError, JsonHandler, Message, Router};
        /// use tokio_postgres::Transaction;
        ///
        /// #[derive(serde::Deserialize)]
        /// struct OrderPaid {
        ///     order: i64,
        ///     cents: i64,
        /// }
        ///
        /// struct Paid;
        ///
        /// impl JsonHandler for Paid {
        ///     type Payload = OrderPaid;
        ///
        ///     async fn handle(
        ///         &self,
        ///         tx: &mut Transaction<'_>,
        ///         paid: OrderPaid,
        ///         _: &Message,
        ///     ) -> Result<(), BoxError> {
        ///         let insert = "INSERT INTO invoices (order_id, cents) VALUES ($1, $2)";
        ///         tx.execute(insert, &[&paid.order, &paid.cents]).await?;
        ///         Ok(())
        ///     }
        /// }
        ///
        /// # fn example() -> Result<(), hapax_store::StoreError> {
        /// let router = Router::new().on_json("order.paid", Paid)?;
        /// # drop(router);
        /// # Ok(())
        /// # }
        /// ```
        JsonHandler, tokio_postgres::Transaction<'_>,
    }
}

#[cfg(feature = "sqlx")]
mod of_sqlx {
    use super::*;
    use crate::SqlxHandler;

    router! {
        /// A [`SqlxHandler`] that gives each message to the handler of its kind: a
        /// [`Router`](crate::Router) for a worker with a pool of sqlx.
        ///
        /// ```no_run
        /// use hapax_postgres::{BoxError, Message, OnUnknown, SqlxHandler, SqlxRouter, Tables, Worker};
        /// use sqlx::{Postgres, Transaction};
        /// use std::sync::Arc;
        ///
        /// struct Paid;
        ///
        /// impl SqlxHandler for Paid {
        ///     async fn handle(
        ///         &self,
        ///         tx: &mut Transaction<'_, Postgres>,
        ///         message: &Message,
        ///     ) -> Result<(), BoxError> {
        ///         let insert = sqlx::query("INSERT INTO invoices (order_id) VALUES ($1)");
        ///         insert.bind(&message.subject).execute(&mut **tx).await?;
        ///         Ok(())
        ///     }
        /// }
        ///
        /// # async fn example(pool: sqlx::PgPool) -> Result<(), hapax_store::StoreError> {
        /// let router = SqlxRouter::new().on("order.paid", Paid)?.on_unknown(OnUnknown::Pass);
        /// let worker = Worker::new(pool, Tables::new("public", "shop")?, "billing")?;
        /// worker.run_sqlx(Arc::new(router), std::future::pending()).await?; // or until a signal
        /// # Ok(())
        /// # }
        /// ```
        SqlxRouter, SqlxHandler,
        /// A handler of messages whose payloads are JSON, for [`SqlxRouter::on_json`].
        SqlxJsonHandler, sqlx::Transaction<'_, sqlx::Postgres>,
    }
}

#[cfg(all(feature = "json", feature = "sqlx"))]
pub use of_sqlx::SqlxJsonHandler;
#[cfg(feature = "sqlx")]
pub use of_sqlx::SqlxRouter;
#[cfg(feature = "json")]
pub use of_tokio_postgres::JsonHandler;
pub use of_tokio_postgres::Router;
