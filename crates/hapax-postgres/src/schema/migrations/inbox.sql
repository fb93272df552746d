-- A message is waited for once, even if its mark has been dropped meanwhile.
CREATE UNIQUE INDEX IF NOT EXISTS "{prefix}_inbox_id" ON {inbox} (name, id);

-- Locks messages for a handler, those whose claims still hold, and whose attempts are counted that
-- had to be: nobody else takes them until the transaction ends, even if their leases do. The server
-- ends that transaction after so many milliseconds: a safety net. Returns what names the transaction:
-- its process, and when it began; and the position of each.
CREATE OR REPLACE FUNCTION {inbox_hold}(
    _name text, _keys bytea[], _tokens bigint[], _positions bigint[], _attempts bigint[], _ms bigint
) RETURNS TABLE (pid integer, began text, held bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('idle_in_transaction_session_timeout', _ms::text, true),
        set_config('statement_timeout', _ms::text, true);
    RETURN QUERY SELECT pg_backend_pid(), date_part('epoch', now())::text, f.position
    FROM unnest(_keys, _tokens, _positions, _attempts) u(key, token, position, attempts), LATERAL (
        SELECT m.position FROM {inbox} m WHERE m.position = u.position AND m.attempts = u.attempts
            AND m.dead_at IS NULL AND CASE WHEN u.key IS NULL
            THEN EXISTS (SELECT FROM {inbox_claims} c WHERE c.token = u.token AND c.name = _name)
            ELSE EXISTS (SELECT FROM {inbox_keys} k WHERE k.name = _name AND k.key = u.key AND k.token = u.token) END
        FOR UPDATE OF m SKIP LOCKED OFFSET 0
    ) f;
END $$;

-- Marks an id and stores its message, unless it was marked or waits from before its mark was
-- dropped. Null if it is the first; otherwise when that came, in microseconds since 1970. _mark is
-- the id as it is marked.
--
-- The key's lock before the mark: two that receive the same message do not wait for each other in a
-- circle.
CREATE OR REPLACE FUNCTION {inbox_receive}(
    _name text, _mark bytea, _id bytea, _key bytea, _payload bytea, _headers text, _due float8, _expires float8,
    _kind text, _source text, _subject text
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _first_at bigint;
BEGIN
    IF _key IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock({inbox_lock}(_name, _key));
    END IF;
    _first_at := {once}(_name, _mark);
    IF _first_at IS NULL AND {inbox_store_one}(_name, _id, _key, _payload, _headers, _due, _expires,
        _kind, _source, _subject) IS NULL THEN
        -- It may have been handled meanwhile, and be gone: it is no less a duplicate.
        SELECT {inbox_micros}(coalesce(min(m.enqueued_at), clock_timestamp())) INTO _first_at
        FROM {inbox} m WHERE m.name = _name AND m.id = _id;
    END IF;
    RETURN _first_at;
END $$;
