//! Traps of a thief that may make things in a schema: each remembers whoever else runs it.

use crate::*;

/// Texts in which the names of all functions are that hapax calls.
const SOURCES: [&str; 9] = [
    include_str!("../../../src/schema/statements.rs"),
    include_str!("../../../src/database.rs"),
    include_str!("../../../src/database/sqlx_pool.rs"),
    include_str!("../../../src/worker/handling.rs"),
    include_str!("../../../src/store/statements.rs"),
    include_str!("../../../src/store/schema.rs"),
    include_str!("../../../src/store/connecting.rs"),
    include_str!("../../../src/store/keys.rs"),
    include_str!("../../../src/store/migrations/family.sql"),
];

/// Makes the thief, the victim, a schema for the tables in which both may make things, and one in
/// front of everything else in the victim's path; and what a trap runs. A sequence, since that
/// remembers whatever becomes of the transaction; and a table, which says more if it is committed.
const SCENE: &str = "CREATE SCHEMA {p}; CREATE SCHEMA {p}_trap; CREATE ROLE {p}_thief LOGIN; CREATE ROLE {p}_victim LOGIN; \
     GRANT CREATE, USAGE ON SCHEMA {p} TO {p}_victim, {p}_thief; GRANT USAGE ON SCHEMA {p}_trap TO PUBLIC; \
     GRANT CREATE ON SCHEMA {p}_trap TO {p}_thief; \
     ALTER ROLE {p}_victim SET search_path = {p}_trap, pg_catalog, {p}, public; \
     CREATE SEQUENCE {p}_trap.fell; CREATE TABLE {p}_trap.fallen (who name, what text); \
     GRANT ALL ON {p}_trap.fell TO PUBLIC; GRANT ALL ON {p}_trap.fallen TO PUBLIC; \
     CREATE FUNCTION {p}_trap.fall(what text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN \
     IF current_user <> '{p}_thief' THEN PERFORM nextval('{p}_trap.fell'); RAISE LOG 'a trap: % ran %', current_user, what; \
     INSERT INTO {p}_trap.fallen VALUES (current_user, what); END IF; RETURN true; END $$";

/// Lays an operator for each pair of types that hapax compares or counts with, as good as
/// PostgreSQL's own or better, in `{at}`.
const OPERATORS: &str = "DO $lay$ DECLARE r record; n integer := 0; \
     kinds regtype[] := '{bool,int2,int4,int8,numeric,float8,text,name,bytea,timestamptz,interval,tid,oid,xid}'; \
     counts regtype[] := '{int2,int4,int8,numeric,float8}'; \
     BEGIN FOR r IN \
     SELECT o.oprname AS op, o.oprleft::regtype AS l, o.oprright::regtype AS r, o.oprresult::regtype AS res FROM pg_operator o \
     WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprkind = 'b' \
     AND (o.oprleft = ANY (kinds) OR o.oprleft IN ('anyarray'::regtype, 'anycompatiblearray'::regtype, 'text[]'::regtype)) \
     AND (o.oprright = ANY (kinds) OR o.oprright IN ('anyarray'::regtype, 'anycompatiblearray'::regtype, 'anycompatible'::regtype)) \
     UNION SELECT o.op, a.l, b.r, CASE WHEN o.op IN ('+', '-', '*', '/') THEN 'numeric' ELSE 'bool' END::regtype \
     FROM unnest(ARRAY['+', '-', '*', '/', '=', '<>', '<', '<=', '>', '>=']) o(op), unnest(counts) a(l), unnest(counts) b(r) \
     UNION SELECT o.op, a.l, a.l, 'bool' FROM unnest(ARRAY['=', '<>', '<', '<=', '>', '>=']) o(op), \
     unnest('{text[],bytea[],int8[],float8[],tid[],name[]}'::regtype[]) a(l) \
     UNION SELECT '*', a.l, 'interval', 'interval' FROM unnest(counts) a(l) \
     LOOP n := n + 1; BEGIN \
     EXECUTE format('CREATE FUNCTION {at}.o%s(a %s, b %s) RETURNS %s LANGUAGE plpgsql SET search_path = pg_catalog AS %L', \
     n, r.l, r.r, r.res, format('BEGIN PERFORM {p}_trap.fall(%L); RETURN a %s b; END', \
     format('%s %s %s', r.l, r.op, r.r), r.op)); \
     EXECUTE format('CREATE OPERATOR {at}.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = {at}.o%s)', r.op, r.l, r.r, n); \
     EXCEPTION WHEN OTHERS THEN RAISE LOG 'no trap % % %: %', r.l, r.op, r.r, SQLERRM; END; END LOOP; END $lay$";

/// Lays functions named like those of PostgreSQL that hapax calls, in `{at}`: of the same types, of
/// narrower and wider ones, and of any.
const FUNCTIONS: &str = "DO $lay$ DECLARE r record; BEGIN FOR r IN \
     WITH called AS (SELECT unnest($names${names}$names$::text[]) AS name), own AS ( \
     SELECT DISTINCT p.proname, replace(replace(pg_get_function_identity_arguments(p.oid), '\"any\"', 'anyelement'), 'ORDER BY ', '') AS args, \
     CASE WHEN t.typtype = 'p' THEN 'text' ELSE format_type(t.oid, NULL) END AS res \
     FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype JOIN called c ON c.name = p.proname \
     WHERE p.pronamespace = 'pg_catalog'::regnamespace) \
     SELECT proname, args, res FROM own UNION SELECT o.proname, a.args, 'text' FROM own o, \
     unnest(ARRAY['', 'anyelement', 'anyarray', 'anyelement, anyelement', 'text', 'text, text', 'integer', 'bigint', 'integer, integer', \
     'bigint, integer', 'bytea', 'numeric', 'double precision', 'timestamptz', 'bytea[]', 'text[]', 'bigint[]', 'boolean', \
     'name', 'regclass', 'unknown', 'text, timestamptz', 'text, name', 'name, text', 'numeric, integer']) a(args) \
     LOOP BEGIN EXECUTE format('CREATE FUNCTION {at}.%I(%s) RETURNS %s LANGUAGE plpgsql SET search_path = pg_catalog AS %L', \
     r.proname, r.args, r.res, \
     format('BEGIN PERFORM {p}_trap.fall(%L); RETURN NULL; END', format('%s(%s)', r.proname, r.args))); \
     EXCEPTION WHEN OTHERS THEN RAISE LOG 'no trap %(%): %', r.proname, r.args, SQLERRM; END; END LOOP; END $lay$";

/// Lays overloads of the functions of our own, of which `public.{p}_*` has all, as `{p}.t_*`: with
/// narrower types, with any, with one type changed, with more arguments that have defaults, with a
/// type of the thief's to which others are cast.
const OVERLOADS: &str = "CREATE TYPE {p}_trap.loot AS ENUM ('a'); \
     CREATE FUNCTION {p}_trap.looted(a text) RETURNS {p}_trap.loot LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN \
     PERFORM {p}_trap.fall('a cast'); RETURN NULL; END $$; \
     CREATE CAST (text AS {p}_trap.loot) WITH FUNCTION {p}_trap.looted(text) AS IMPLICIT; \
     DO $lay$ DECLARE f record; v record; BEGIN FOR f IN \
     SELECT 't' || substr(p.proname, length('{p}') + 1) AS name, p.pronargs AS n, ARRAY(SELECT format_type(a.t, NULL) FROM \
     unnest(p.proargtypes) WITH ORDINALITY a(t, n) ORDER BY a.n) AS args FROM pg_proc p \
     WHERE p.pronamespace = 'public'::regnamespace AND starts_with(p.proname, '{p}_') \
     LOOP FOR v IN \
     SELECT string_agg(CASE a.t WHEN 'bigint' THEN 'integer' WHEN 'double precision' THEN 'text' WHEN 'bytea' THEN 'text' \
     WHEN 'bytea[]' THEN 'text[]' WHEN 'text[]' THEN 'name[]' WHEN 'bigint[]' THEN 'integer[]' WHEN 'text' THEN 'name' \
     ELSE 'text' END, ', ' ORDER BY a.n) AS args FROM unnest(f.args) WITH ORDINALITY a(t, n) \
     UNION SELECT string_agg('anyelement', ', ') FROM unnest(f.args) \
     UNION SELECT string_agg('{p}_trap.loot', ', ') FROM unnest(f.args) \
     UNION SELECT string_agg(CASE WHEN a.t LIKE '%[]' THEN 'text[]' ELSE 'text' END, ', ' ORDER BY a.n) \
     FROM unnest(f.args) WITH ORDINALITY a(t, n) \
     UNION SELECT string_agg(CASE WHEN a.t LIKE 'double%' THEN replace(a.t, 'double precision', 'text') ELSE a.t END, ', ' ORDER BY a.n) \
     FROM unnest(f.args) WITH ORDINALITY a(t, n) \
     UNION SELECT (SELECT string_agg(CASE WHEN a.n <> i THEN a.t ELSE s.t END, ', ' ORDER BY a.n) FROM unnest(f.args) WITH ORDINALITY a(t, n)) \
     FROM generate_series(1, f.n) i, unnest(ARRAY['text', 'text[]', 'integer', 'bigint[]', 'numeric', 'name', 'unknown']) s(t) \
     UNION SELECT concat_ws(', ', NULLIF(array_to_string(f.args, ', '), ''), 'VARIADIC more text[]') \
     LOOP CONTINUE WHEN coalesce(v.args, '') = array_to_string(f.args, ', '); \
     BEGIN EXECUTE format('CREATE FUNCTION {p}.%I(%s) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog AS %L', \
     f.name, v.args, format('BEGIN PERFORM {p}_trap.fall(%L); RETURN NULL; END', format('%s(%s)', f.name, v.args))); \
     EXCEPTION WHEN OTHERS THEN RAISE LOG 'no trap %(%): %', f.name, v.args, SQLERRM; END; END LOOP; END LOOP; END $lay$";

/// Lays domains named like the types that hapax names, which check their values.
const TYPES: &str = "DO $lay$ DECLARE t text; BEGIN FOREACH t IN ARRAY ARRAY['text', 'bytea', 'int4', 'int8', 'int2', 'bool', \
     'float8', 'timestamptz', 'tid', 'name', 'regclass'] LOOP \
     EXECUTE format('CREATE DOMAIN {at}.%I AS pg_catalog.%I CHECK ({p}_trap.fall(%L))', t, t, 'the type ' || t); \
     END LOOP; END $lay$";

/// Lays all of them.
pub(super) async fn lay(place: &Place, admin: &Client) {
    place.execute(admin, SCENE).await;
    place.execute(admin, "SET ROLE {p}_thief").await;
    let (tables, store) = (place.tables.migrations(), PostgresStore::migrations(&place.options(), "s").unwrap());
    let names: std::collections::BTreeSet<&str> =
        SOURCES.into_iter().chain([tables.as_str(), store.as_str()]).flat_map(called).collect();
    let names = format!("{{{}}}", names.into_iter().collect::<Vec<_>>().join(","));
    for at in ["{p}", "{p}_trap"] {
        for sql in [OPERATORS, FUNCTIONS, TYPES] {
            place.execute(admin, &sql.replace("{at}", at).replace("{names}", &names)).await;
        }
    }
    place.execute(admin, OVERLOADS).await;
    place.execute(admin, "RESET ROLE").await;
}

/// Returns all names that stand in front of an opening parenthesis.
fn called(text: &str) -> impl Iterator<Item = &str> {
    text.split('(').filter_map(|before| {
        let name = before.rsplit(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')).next()?;
        (!name.is_empty()).then_some(name)
    })
}

/// Returns how often anybody but the thief has run a trap, and which ones are known.
pub(super) async fn fallen(place: &Place, admin: &Client) -> (i64, Vec<String>) {
    let fell = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {p}_trap.fell";
    let fallen = format!("SELECT who || ' ran ' || what FROM {}_trap.fallen", place.prefix);
    let rows = admin.query(&fallen, &[]).await.unwrap();
    (place.count(admin, fell).await, rows.iter().map(|row| row.get(0)).collect())
}

/// Returns how many traps there are: operators, functions, and overloads of ours.
pub(super) async fn laid(place: &Place, admin: &Client) -> [i64; 3] {
    let at = "('{p}'::regnamespace, '{p}_trap'::regnamespace)";
    let operators = format!("SELECT count(*) FROM pg_operator WHERE oprnamespace IN {at}");
    let functions = format!(
        "SELECT count(*) FROM pg_proc WHERE pronamespace IN {at} AND proname !~ '^o[0-9]+$' AND NOT starts_with(proname, 't_')"
    );
    let overloads = format!("SELECT count(*) FROM pg_proc WHERE pronamespace IN {at} AND starts_with(proname, 't_')");
    [place.count(admin, &operators).await, place.count(admin, &functions).await, place.count(admin, &overloads).await]
}

/// Sets all traps anew.
pub(super) async fn reset(place: &Place, admin: &Client) {
    place.execute(admin, "ALTER SEQUENCE {p}_trap.fell RESTART; TRUNCATE {p}_trap.fallen").await;
}
