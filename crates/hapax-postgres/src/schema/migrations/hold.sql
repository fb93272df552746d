        -- What is read here may be old by the time that the lock is held: whatever writes looks
        -- again. One row, and no condition on its key: by the index it would take longer.
        SELECT s.oldest, s.newest, s.is_double INTO STRICT oldest, newest, is_double FROM {mark_state} s
            WHERE pg_advisory_xact_lock_shared({marks_lock}, s.newest) IS NOT NULL;
        looked := newest - oldest + 1;
        IF turn = 1 THEN
            -- Those that are not written into any more. The others answer when they are.
            looked := looked - 1 - is_double::integer;
            IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
                BEGIN
                    PERFORM FROM {mark_state} s WHERE s.one = 1 FOR SHARE NOWAIT;
                    RAISE EXCEPTION 'held' USING ERRCODE = 'HX000';
                EXCEPTION
                    WHEN SQLSTATE 'HX000' THEN NULL;
                    WHEN lock_not_available THEN
                        RAISE EXCEPTION 'the buckets of marks are about to change'
                            USING ERRCODE = 'serialization_failure';
                END;
            END IF;
        END IF;
        IF is_double THEN
            -- A transaction that wrote before the newest slot was made has not heard of it. To lock
            -- a table for the first time makes a session listen, so here is one that is not used
            -- elsewhere; or another one, for a transaction that was in the double state before,
            -- too. It has been in no third: what it holds lets no more buckets begin.
            IF newest & 1 = 0 THEN
                PERFORM FROM {mark_buckets} b WHERE b.bucket = newest;
            ELSE
                PERFORM FROM {flow_migrations} v WHERE v.version = 0;
            END IF;
        END IF;
