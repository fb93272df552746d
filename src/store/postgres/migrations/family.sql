-- What is kept of ids. state: 1 in progress, 2 failed, 3 completed. The widest columns first, so that nothing is lost
-- to alignment.
CREATE TABLE IF NOT EXISTS {records} (
    expires_at timestamptz NOT NULL,
    token bigint NOT NULL,
    attempt bigint,
    bucket integer NOT NULL,
    scope integer NOT NULL,
    state smallint NOT NULL,
    id bytea NOT NULL,
    fingerprint bytea,
    result bytea,
    PRIMARY KEY (scope, id, bucket)
) PARTITION BY LIST (bucket);
CREATE TABLE IF NOT EXISTS {partition} PARTITION OF {records} FOR VALUES IN (1);
INSERT INTO {buckets} (family, bucket) VALUES ({family}, 1) ON CONFLICT DO NOTHING;
