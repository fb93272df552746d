-- Functions of inbox and capture that code of version 2 calls.
CREATE OR REPLACE FUNCTION {inbox_receive}(
    _name text, _mark bytea, _id bytea, _key bytea, _payload bytea, _headers text, _due float8, _expires float8
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT {inbox_receive}(_name, _mark, _id, _key, _payload, _headers, _due, _expires, NULL, NULL, NULL)
$$;
CREATE OR REPLACE FUNCTION {capture_insert}(
    _name text, _ids bytea[], _keys bytea[], _payloads bytea[], _headers text[]
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT {capture_insert}(_name, _ids, _keys, _payloads, _headers, NULL, NULL, NULL)
$$;
