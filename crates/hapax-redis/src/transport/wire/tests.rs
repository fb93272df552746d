use super::*;
use tokio::io::DuplexStream;

const PATIENCE: Duration = Duration::from_secs(2);

/// Runs with the clock stopped: it advances when no task has anything to do.
fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(work);
}

fn wire() -> (Wire, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(64);
    (Wire::new(Box::new(ours), PATIENCE), theirs)
}

fn ping() -> Arc<Commands> {
    Arc::new(Commands::of(&["PING"]))
}

/// Answers each command after this long, until the connection ends.
async fn serve(mut server: DuplexStream, after: Duration, answer: &'static [u8]) {
    let mut request = [0; b"*1\r\n$4\r\nPING\r\n".len()];
    while server.read_exact(&mut request).await.is_ok() {
        tokio::time::sleep(after).await;
        if server.write_all(answer).await.is_err() {
            return;
        }
    }
}

#[test]
fn silence_is_found_out_also_if_whoever_asks_gives_up_soon() {
    block_on(async {
        let (wire, _silent) = wire();
        let began = Instant::now();
        while wire.is_open() {
            let given_up = tokio::time::timeout(Duration::from_millis(10), wire.ask(ping())).await;
            assert!(given_up.is_err() || !wire.is_open(), "nobody has answered");
            assert!(began.elapsed() <= PATIENCE + Duration::from_millis(20), "{:?}", began.elapsed());
        }
        assert!(began.elapsed() >= PATIENCE, "{:?}", began.elapsed());
        assert_eq!(wire.ask(ping()).await.unwrap_err().kind(), ErrorKind::Unavailable);
    });
}

#[test]
fn who_waits_is_told_and_idleness_is_no_silence() {
    block_on(async {
        let (wire, server) = wire();
        tokio::spawn(serve(server, Duration::from_millis(1), b"+PONG\r\n"));
        for _ in 0..5 {
            assert_eq!(wire.ask(ping()).await.unwrap().replies().count(), 1);
            tokio::time::sleep(3 * PATIENCE).await;
        }
        assert!(wire.is_open());
        let (wire, _silent) = self::wire();
        let (one, other) = tokio::join!(wire.ask(ping()), wire.ask(ping()));
        assert_eq!([one, other].map(|told| told.unwrap_err().kind()), [ErrorKind::Timeout; 2]);
    });
}

#[test]
fn whoever_gives_up_early_on_a_busy_connection_does_not_end_it() {
    block_on(async {
        let (wire, server) = wire();
        tokio::spawn(serve(server, Duration::from_millis(300), b"+PONG\r\n"));
        // As many at a time as are answered within the patience, each given up after 10 ms.
        for _ in 0..20 {
            for _ in 0..5 {
                let given_up = tokio::time::timeout(Duration::from_millis(10), wire.ask(ping())).await;
                assert!(given_up.is_err());
            }
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            assert!(wire.is_open());
        }
        assert!(wire.ask(ping()).await.is_ok(), "and answers are not mixed up");
    });
}

#[test]
fn answers_are_told_apart_however_many_ask() {
    block_on(async {
        let (wire, mut server) = wire();
        tokio::spawn(async move {
            let (mut request, mut next) = ([0; b"*2\r\n$4\r\nECHO\r\n$3\r\n000\r\n".len()], 0);
            while server.read_exact(&mut request).await.is_ok() {
                let echo = [b"$3\r\n", &request[request.len() - 5..]].concat();
                // In pieces, some of which end in the middle.
                for piece in echo.chunks(next % 4 + 1) {
                    server.write_all(piece).await.expect("somebody reads");
                }
                next += 1;
            }
        });
        let mut asked = tokio::task::JoinSet::new();
        for caller in 0..50 {
            let wire = wire.clone();
            asked.spawn(async move {
                let mut commands = Commands::default();
                let words: Vec<String> = (0..3).map(|i| format!("{:03}", caller * 3 + i)).collect();
                words.iter().for_each(|word| commands.add(&["ECHO", word]));
                let answered = wire.ask(Arc::new(commands)).await.expect("answers");
                let told: Vec<_> = answered.replies().map(|reply| reply.text().map(str::to_owned)).collect();
                assert_eq!(told, words.into_iter().map(Some).collect::<Vec<_>>());
            });
        }
        asked.join_all().await;
    });
}

#[test]
fn ends_and_nonsense_and_demotions_leave_the_connection() {
    block_on(async {
        let (wire, server) = wire();
        drop(server);
        assert_eq!(wire.ask(ping()).await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(!wire.is_open());

        for nonsense in [b"HTTP/1.1 400 Bad Request\r\n".as_slice(), b"+PONG\r\n+PONG\r\n"] {
            let (wire, server) = self::wire();
            tokio::spawn(serve(server, Duration::ZERO, nonsense));
            let told = [wire.ask(ping()).await, wire.ask(ping()).await];
            assert!(told.into_iter().any(|told| told.is_err_and(|why| why.kind() != ErrorKind::Timeout)));
            assert!(!wire.is_open());
        }

        let (wire, server) = self::wire();
        tokio::spawn(serve(server, Duration::ZERO, b"-READONLY You can't write against a read only replica.\r\n"));
        assert!(wire.ask(ping()).await.is_ok(), "it is an answer");
        assert!(!wire.is_open(), "and the last one");
    });
}
