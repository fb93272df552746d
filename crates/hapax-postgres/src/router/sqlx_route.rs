//! Handlers by kind, in transactions of sqlx.

use super::RouterStats;
#[cfg(feature = "json")]
use super::routes;
use super::routes::{Destination, Routes, Unknown};
use crate::{BoxError, Message, SqlxHandler};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hapax_store::StoreError;
use sqlx::{Postgres, Transaction};
use std::sync::Arc;

/// A [`SqlxHandler`] that gives each message to the handler of its kind: a
/// [`Router`](crate::Router) for a worker with a pool of sqlx.
///
/// ```no_run
/// use hapax_postgres::{BoxError, Message, SqlxHandler, SqlxRouter, Tables, Worker};
/// use sqlx::{Postgres, Transaction};
/// use std::sync::Arc;
///
/// struct Paid;
///
/// impl SqlxHandler for Paid {
///     async fn handle(&self, tx: &mut Transaction<'_, Postgres>, message: &Message) -> Result<(), BoxError> {
///         let insert = sqlx::query("INSERT INTO invoices (order_id) VALUES ($1)");
///         insert.bind(&message.subject).execute(&mut **tx).await?;
///         Ok(())
///     }
/// }
///
/// # async fn example(pool: sqlx::PgPool) -> Result<(), hapax_store::StoreError> {
/// let router = SqlxRouter::new().on("order.paid", Paid)?.pass_on();
/// let worker = Worker::new(pool, Tables::new("public", "shop")?, "billing")?;
/// worker.run_sqlx(Arc::new(router), std::future::pending()).await?; // or until a signal
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SqlxRouter {
    routes: Routes<Arc<dyn Route>>,
}

impl Default for SqlxRouter {
    fn default() -> Self {
        Self::new()
    }
}

impl SqlxRouter {
    /// Creates a router that puts every message aside.
    pub fn new() -> Self {
        SqlxRouter { routes: Routes::new() }
    }

    /// Adds the handler of a kind, as [`Router::on`](crate::Router::on) does.
    ///
    /// # Errors
    ///
    /// Those of [`Router::on`](crate::Router::on).
    pub fn on(mut self, kind: &str, handler: impl SqlxHandler) -> Result<Self, StoreError> {
        self.routes.add(kind, Arc::new(handler))?;
        Ok(self)
    }

    /// Adds the handler of a kind whose payloads are JSON, as
    /// [`Router::on_json`](crate::Router::on_json) does.
    ///
    /// # Errors
    ///
    /// Those of [`Router::on`](crate::Router::on).
    #[cfg(feature = "json")]
    pub fn on_json(mut self, kind: &str, handler: impl SqlxJsonHandler) -> Result<Self, StoreError> {
        self.routes.add(kind, Arc::new(Json(handler, self.routes.counts())))?;
        Ok(self)
    }

    /// Lets all other messages be done without a handler, as
    /// [`Router::pass_on`](crate::Router::pass_on) does.
    #[must_use]
    pub fn pass_on(mut self) -> Self {
        self.routes.set_unknown(Unknown::PassedOn);
        self
    }

    /// Gives all other messages to this handler, also those without a kind.
    #[must_use]
    pub fn otherwise(mut self, handler: impl SqlxHandler) -> Self {
        self.routes.set_unknown(Unknown::Otherwise(Arc::new(handler)));
        self
    }

    /// Returns where messages went since this router was made.
    pub fn stats(&self) -> RouterStats {
        self.routes.stats()
    }
}

impl SqlxHandler for SqlxRouter {
    async fn handle(&self, tx: &mut Transaction<'_, Postgres>, message: &Message) -> Result<(), BoxError> {
        match self.routes.find(message) {
            Destination::Handler(handler) => handler.route(tx, message).await,
            Destination::Done => Ok(()),
            Destination::Aside(error) => Err(error.into()),
        }
    }
}

/// A handler of messages whose payloads are JSON, for [`SqlxRouter::on_json`].
#[cfg(feature = "json")]
pub trait SqlxJsonHandler: Send + Sync + 'static {
    /// The payload.
    type Payload: serde::de::DeserializeOwned + Send;

    /// Has the effect, as [`SqlxHandler::handle`] does.
    fn handle(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        payload: Self::Payload,
        message: &Message,
    ) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// A handler of any type.
trait Route: Send + Sync {
    fn route<'a>(
        &'a self,
        tx: &'a mut Transaction<'_, Postgres>,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<(), BoxError>>;
}

impl<H: SqlxHandler> Route for H {
    fn route<'a>(
        &'a self,
        tx: &'a mut Transaction<'_, Postgres>,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        self.handle(tx, message).boxed()
    }
}

#[cfg(feature = "json")]
struct Json<H>(H, Arc<routes::Counts>);

#[cfg(feature = "json")]
impl<H: SqlxJsonHandler> SqlxHandler for Json<H> {
    async fn handle(&self, tx: &mut Transaction<'_, Postgres>, message: &Message) -> Result<(), BoxError> {
        let payload = routes::parsed(message, &self.1)?;
        self.0.handle(tx, payload, message).await
    }
}
