-- The functions of a queue that code of version 2 calls.
CREATE OR REPLACE FUNCTION {queue_store}(
    _name text, _ids bytea[], _keys bytea[], _payloads bytea[], _headers text[], _due float8[], _expires float8[]
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT {queue_store}(_name, _ids, _keys, _payloads, _headers, _due, _expires, NULL, NULL, NULL)
$$;
CREATE OR REPLACE FUNCTION {queue_store_one}(
    _name text, _id bytea, _key bytea, _payload bytea, _headers text, _due float8, _expires float8
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT {queue_store_one}(_name, _id, _key, _payload, _headers, _due, _expires, NULL, NULL, NULL)
$$;
CREATE OR REPLACE FUNCTION {queue_claim}(
    _names text[], _since bigint[], _since_positions bigint[], _first bigint, _behind bigint, _bytes bigint,
    _lease float8, _token bigint
) RETURNS TABLE (
    "position" bigint, name text, key bytea, id bytea, payload bytea, headers text[], attempts integer,
    enqueued_at bigint, is_expired boolean, since bigint, since_position bigint
)
LANGUAGE sql AS $$
    SELECT t.position, t.name, t.key, t.id, t.payload, t.headers, t.attempts, t.enqueued_at, t.is_expired, t.since,
        t.since_position
    FROM {queue_take}(_names, _since, _since_positions, _first, _behind, _bytes, _lease, _token) t
$$;
CREATE OR REPLACE FUNCTION {queue_letters}(_name text, _behind bigint, _limit bigint) RETURNS TABLE (
    "position" bigint, name text, key bytea, id bytea, payload bytea, headers text[], attempts integer, error text,
    enqueued_at bigint, died_at bigint
)
LANGUAGE sql AS $$
    SELECT t.position, t.name, t.key, t.id, t.payload, t.headers, t.attempts, t.error, t.enqueued_at, t.died_at
    FROM {queue_dead_letters}(_name, _behind, _limit) t
$$;
CREATE OR REPLACE FUNCTION {queue_settle}(
    _done bigint[],
    _positions bigint[], _tokens bigint[], _attempts bigint[], _errors text[], _dead bigint[], _delays float8[],
    _names text[], _keys bytea[], _lanes bigint[], _lane_delays float8[]
) RETURNS SETOF bigint
LANGUAGE sql AS $$
    SELECT {queue_settle}(_done, NULL::bigint[], _positions, _tokens, _attempts, _errors, _dead, _delays,
        _names, _keys, _lanes, _lane_delays)
$$;
CREATE OR REPLACE FUNCTION {queue_requeue}(
    _positions bigint[], _name text, _age float8, _limit bigint, OUT changed bigint
)
LANGUAGE sql AS $$
    SELECT {queue_requeue}(_positions, NULL::bigint[], _name, _age, _limit)
$$;
CREATE OR REPLACE FUNCTION {queue_discard}(
    _positions bigint[], _name text, _age float8, _limit bigint, OUT changed bigint
)
LANGUAGE sql AS $$
    SELECT {queue_discard}(_positions, NULL::bigint[], _name, _age, _limit)
$$;
