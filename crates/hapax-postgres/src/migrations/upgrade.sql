-- Brings tables of version 2 up to date. Each try waits for others' locks, and lets others wait
-- behind, for a moment only: less than the server takes to look for circles.
DO $hapax$
DECLARE
    found integer;
    waits text := current_setting('lock_timeout');
BEGIN
    SELECT max(v.version) INTO found FROM {migrations} v;
    IF found IS DISTINCT FROM 2 THEN
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '200ms', true);
    FOR turn IN 1..{upgrade_turns} LOOP
        BEGIN
            LOCK TABLE {inbox}, {outbox}, {capture} IN ACCESS EXCLUSIVE MODE;
            ALTER TABLE {inbox} ADD COLUMN kind text COLLATE "C", ADD COLUMN source text COLLATE "C",
                ADD COLUMN subject text COLLATE "C", ADD COLUMN result bytea;
            ALTER TABLE {outbox} ADD COLUMN kind text COLLATE "C", ADD COLUMN source text COLLATE "C",
                ADD COLUMN subject text COLLATE "C";
            ALTER TABLE {capture} ADD COLUMN kind text COLLATE "C", ADD COLUMN source text COLLATE "C",
                ADD COLUMN subject text COLLATE "C";
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF turn = {upgrade_turns} THEN
                RAISE EXCEPTION 'expected a moment without long transactions in {shown}, got none in {upgrade_turns} tries'
                    USING ERRCODE = 'lock_not_available';
            END IF;
            PERFORM pg_sleep(0.05 + 0.1 * random());
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', waits, true);
END $hapax$;
