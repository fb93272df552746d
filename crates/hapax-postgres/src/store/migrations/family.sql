-- What is kept of ids. key: the scope's number (one byte, or 0x80 and four), then the id. state: 1 in progress,
-- 2 failed, 3 completed. token: of claims. The widest columns first, so that nothing is lost to alignment; and
-- eight of them, so that nulls take no room.
CREATE TABLE IF NOT EXISTS {records} (
    expires_at timestamptz NOT NULL,
    attempt bigint,
    token bigint,
    bucket integer NOT NULL,
    state smallint NOT NULL,
    key bytea NOT NULL,
    fingerprint bytea,
    result bytea,
    PRIMARY KEY (key, bucket)
) PARTITION BY LIST (bucket);
CREATE TABLE IF NOT EXISTS {partition} PARTITION OF {records} FOR VALUES IN (1);
INSERT INTO {buckets} (family, bucket) VALUES ({family}, 1) ON CONFLICT DO NOTHING;
