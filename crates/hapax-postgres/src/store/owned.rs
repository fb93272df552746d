//! Checks of what is there already by the names of tables and functions that are to be made.

const OWNED: &str = include_str!("migrations/owned.sql");
const MADE: &str = include_str!("migrations/made.sql");

/// The owners whose rights the role has anyhow, and superusers. A superuser has the rights of all,
/// and trusts superusers only: it would run what anybody has made as itself.
const IS_TRUSTED: &str = "EXISTS (SELECT FROM pg_roles o, pg_roles u WHERE o.oid = {owner} \
     AND u.rolname = current_user AND (o.rolsuper OR (NOT u.rolsuper AND pg_has_role(o.oid, 'USAGE'))))";

/// Returns a statement that fails if something has the name of what this SQL makes, and belongs to
/// somebody whom the role need not trust. It is run in front of that, with a path that has
/// PostgreSQL's own only.
pub(crate) fn owned(schema: &str, sql: &str) -> String {
    let relations: Vec<String> = relations(sql).into_iter().map(|name| format!("'{name}'")).collect();
    OWNED
        .replace("{is_trusted}", &IS_TRUSTED.replace("{owner}", "c.relowner"))
        .replace("{schema}", schema)
        .replace("{relations}", &relations.join(", "))
}

/// Returns a statement that fails if a function that this transaction has replaced belongs to
/// somebody whom the role need not trust, and who could replace it again.
pub(crate) fn made(schema: &str, prefix: &str) -> String {
    MADE.replace("{is_trusted}", &IS_TRUSTED.replace("{owner}", "p.proowner"))
        .replace("{schema}", schema)
        .replace("{prefix}", prefix)
}

/// Returns a query for whether this is an ordinary table, and nothing that runs code when it is
/// read. It may be run with any path.
pub(crate) fn is_table(schema: &str, name: &str) -> String {
    let eq = "OPERATOR(pg_catalog.=)";
    format!(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid {eq} c.relnamespace \
         WHERE n.nspname {eq} '{schema}'::pg_catalog.name AND c.relname {eq} '{name}'::pg_catalog.name \
         AND c.relkind {eq} 'r'::\"char\" AND NOT c.relrowsecurity) AS is_table"
    )
}

/// Returns the names behind each `IF NOT EXISTS`, without their schema.
fn relations(sql: &str) -> Vec<&str> {
    let named = sql.split("IF NOT EXISTS \"").skip(1).filter_map(|rest| {
        let (first, behind) = rest.split_once('"')?;
        match behind.strip_prefix(".\"") {
            Some(name) => name.split_once('"').map(|(name, _)| name),
            None => Some(first),
        }
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_made_unless_it_is_there_is_looked_at() {
        let sql = r#"CREATE TABLE IF NOT EXISTS "s"."a" (b int); CREATE INDEX IF NOT EXISTS "c" ON "s"."a" (b);
             IF NOT EXISTS (SELECT FROM "s"."d") THEN CREATE SEQUENCE IF NOT EXISTS "s"."e";"#;
        assert_eq!(relations(sql), ["a", "c", "e"]);
        let sql = [owned("s", sql), made("s", "p")].concat();
        assert!(sql.contains("['a', 'c', 'e']") && !sql.contains('{'), "{sql}");
    }
}
