-- Tables of another version are left alone.
DO $hapax$
DECLARE
    found integer;
BEGIN
    -- A table of the role's own, or the check above would have failed.
    IF to_regclass('{flow_migrations}') IS NOT NULL THEN
        EXECUTE 'SELECT max(version) FROM {flow_migrations}' INTO found;
        IF found <> {version} THEN
            RAISE EXCEPTION 'expected no tables {shown}, or those of version {version}, got version %', found
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
    END IF;
END $hapax$;
-- Which version the tables are of. Functions that mean something else in another version have other
-- names there, so that calls of code that is not for it fail.
CREATE TABLE IF NOT EXISTS {flow_migrations} (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Random, for the locks of keys.
    seed bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
);
INSERT INTO {flow_migrations} (version) VALUES ({version}) ON CONFLICT DO NOTHING;
