-- A message is waited for once, even if its mark has been dropped meanwhile. other: the fingerprint
-- of one whose id another one has, which is not the first; of all others, nothing.
CREATE UNIQUE INDEX IF NOT EXISTS "{prefix}_inbox_id" ON {inbox} (name, id, other);

-- Takes messages up for a handler, those whose claims still hold, and whose attempts are counted that
-- had to be: nobody else takes them until the transaction ends, even if their leases do. The server
-- ends that transaction after so many milliseconds: a safety net. Returns what names the transaction,
-- its process and when it began, in microseconds since 1970; then the position of each message.
--
-- They are locked, and removed when they are done. If nothing is to be kept of them (_removes), they
-- are removed right away: a transaction that fails has that undone, and {inbox_put_back} undoes it for
-- some. They are locked before, also what nobody has locked lately: an operator may do so between a
-- look and the removal, which would wait for him.
--
-- Each handling calls this, so operators are qualified: to set a path takes as long as to look.
CREATE OR REPLACE FUNCTION {inbox_hold}(
    _name text, _keys bytea[], _tokens bigint[], _positions bigint[], _attempts bigint[], _ms bigint, _removes boolean
) RETURNS bigint[]
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET lock_timeout = '200ms' AS $$
#variable_conflict use_column
DECLARE
    -- Expressions: PERFORM would be a query.
    _limits pg_catalog.text[] := ARRAY[
        pg_catalog.set_config('idle_in_transaction_session_timeout', _ms::pg_catalog.text, true),
        pg_catalog.set_config('statement_timeout', _ms::pg_catalog.text, true)
    ];
    _running pg_catalog.int8[] := ARRAY[pg_catalog.pg_backend_pid()::pg_catalog.int8,
        (pg_catalog.date_part('epoch', pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000::pg_catalog.float8)::pg_catalog.int8];
    _taken pg_catalog.refcursor := 'hapax_taken';
    _claims pg_catalog.int8[] := ARRAY(SELECT c.token FROM {inbox_claims} c
        WHERE c.token OPERATOR(pg_catalog.=) ANY (_tokens) AND c.name OPERATOR(pg_catalog.=) _name);
    _held pg_catalog.int8[];
    _rows pg_catalog.tid[];
BEGIN
    SELECT pg_catalog.array_agg(f.position), pg_catalog.array_agg(f.at) INTO _held, _rows
        FROM unnest(_keys, _tokens, _positions, _attempts) u(key, token, position, attempts),
        LATERAL (
            SELECT m.position, m.ctid AS at FROM {inbox} m WHERE m.position OPERATOR(pg_catalog.=) u.position
                AND m.attempts OPERATOR(pg_catalog.=) u.attempts AND m.dead_at IS NULL
                AND CASE WHEN u.key IS NULL THEN u.token OPERATOR(pg_catalog.=) ANY (_claims)
                ELSE EXISTS (SELECT FROM {inbox_keys} k WHERE k.name OPERATOR(pg_catalog.=) _name
                    AND k.key OPERATOR(pg_catalog.=) u.key AND k.token OPERATOR(pg_catalog.=) u.token) END
            FOR UPDATE OF m SKIP LOCKED OFFSET 0
        ) f;
    IF _removes THEN
        -- Nobody changes them any more: what it sees is what is removed.
        IF pg_catalog.cardinality(_rows) OPERATOR(pg_catalog.>) 1 THEN
            OPEN _taken NO SCROLL FOR SELECT m.* FROM {inbox} m WHERE m.ctid OPERATOR(pg_catalog.=) ANY (_rows);
        END IF;
        DELETE FROM {inbox} m WHERE m.ctid OPERATOR(pg_catalog.=) ANY (_rows);
    END IF;
    RETURN pg_catalog.array_cat(_running, _held);
END $$;

-- Puts messages back that {inbox_hold} has removed in this transaction, as they were.
CREATE OR REPLACE FUNCTION {inbox_put_back}(_positions bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- It has seen them before they were removed.
    _taken refcursor := 'hapax_taken';
    _message {inbox};
BEGIN
    LOOP
        FETCH _taken INTO _message;
        EXIT WHEN NOT FOUND;
        IF _message.position = ANY (_positions) THEN
            INSERT INTO {inbox} VALUES (_message.*);
        END IF;
    END LOOP;
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

-- Does the same, and marks a fingerprint with the id: is_other tells a message from one that has its
-- id, if both have one. Then it is stored as a dead letter (_how is 'dead_letter'), to be handled
-- ('handle'), or not at all; once, however often it comes, until it is gone.
CREATE OR REPLACE FUNCTION {inbox_compare}(
    _name text, _mark bytea, _id bytea, _key bytea, _payload bytea, _headers text, _due float8, _expires float8,
    _kind text, _source text, _subject text, _content bytea, _how text, OUT first_at bigint, OUT is_other boolean
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _slots text;
    _is_dead boolean := _how = 'dead_letter';
    _position bigint;
    -- Before the clock is read: see {inbox_store}.
    _transaction xid8 := pg_current_xact_id();
BEGIN
    IF _key IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock({inbox_lock}(_name, _key));
    END IF;
    is_other := false;
    first_at := {once_kept}(_name, _mark, _content, NULL::float8);
    _slots := {handled_slots}();
    IF first_at IS NOT NULL THEN
        EXECUTE 'SELECT EXISTS (SELECT FROM {marks} m WHERE m.slot IN (' || _slots || ') AND m.consumer = $1 AND m.id = $2
            AND m.content <> $3 AND (m.expires_at IS NULL OR m.expires_at > clock_timestamp()))'
        INTO is_other USING _name, _mark, _content;
    ELSIF {inbox_store_one}(_name, _id, _key, _payload, _headers, _due, _expires, _kind, _source, _subject) IS NULL THEN
        -- It waits, or has been handled meanwhile. Nobody knows what that one's content was.
        SELECT {inbox_micros}(coalesce(min(m.enqueued_at), clock_timestamp())) INTO first_at
        FROM {inbox} m WHERE m.name = _name AND m.id = _id;
        EXECUTE 'UPDATE {marks} m SET content = NULL WHERE m.slot IN (' || _slots || ') AND m.consumer = $1 AND m.id = $2'
        USING _name, _mark;
    END IF;
    IF NOT is_other OR _how = 'drop' THEN
        RETURN;
    END IF;
    -- The token of a dead letter is no claim's here: a random one, by which an operator names it.
    INSERT INTO {inbox} (name, id, other, key, payload, headers, kind, source, subject, expires_at, due_at, later,
        dead_at, token, error)
    VALUES (_name, _id, _content, _key, _payload, _headers::text[], _kind, _source, _subject, to_timestamp(_expires),
        CASE WHEN NOT _is_dead AND (_key IS NULL OR _due IS NOT NULL)
            THEN greatest(to_timestamp(_due), clock_timestamp()) END,
        NOT _is_dead AND _key IS NOT NULL AND _due IS NOT NULL, CASE WHEN _is_dead THEN clock_timestamp() END,
        CASE WHEN _is_dead THEN ('x' || encode(substr(uuid_send(gen_random_uuid()), 9, 8), 'hex'))::bit(64)::bigint ELSE 0 END,
        CASE WHEN _is_dead THEN 'its id is that of a message with another fingerprint' END)
    ON CONFLICT DO NOTHING RETURNING position INTO _position;
    IF _position IS NOT NULL AND NOT _is_dead THEN
        IF _key IS NOT NULL AND _due IS NULL THEN
            PERFORM {inbox_open}(_name, _key, _position);
        END IF;
        PERFORM {inbox_ring}(_name);
    END IF;
END $$;
