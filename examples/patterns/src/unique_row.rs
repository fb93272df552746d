//! A unique row instead of a counter: who has done it is the key, and rows are counted.

use tokio_postgres::{Error, GenericClient};

/// The table of [`like`].
pub const TABLE: &str = "CREATE TABLE likes (
    post_id bigint, user_id bigint,
    PRIMARY KEY (post_id, user_id))";

/// Notes that a user likes a post. Returns false if that was known.
///
/// # Errors
///
/// That of the database: nothing has changed, or the answer was lost. Let the message come again.
pub async fn like(client: &impl GenericClient, post: i64, user: i64) -> Result<bool, Error> {
    let insert = "INSERT INTO likes (post_id, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    Ok(client.execute(insert, &[&post, &user]).await? == 1)
}

/// Returns the number of users who like a post.
///
/// # Errors
///
/// That of the database.
pub async fn likes(client: &impl GenericClient, post: i64) -> Result<i64, Error> {
    Ok(client.query_one("SELECT count(*) FROM likes WHERE post_id = $1", &[&post]).await?.get(0))
}
