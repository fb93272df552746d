use super::*;
use testkit::random::Random;

fn looked(at: i64, open: &[i64], ended: &[i64], place: Place) -> Looked {
    Looked { places: vec![("a".into(), place)], open: Some(open.into()), ended: ended.into(), at, backend: 0 }
}

/// The places of a claimer that the server's process has answered before.
fn after_one() -> Places {
    let mut places = Places::default();
    places.looked(Looked::default(), Instant::now(), Instant::now());
    places
}

#[test]
fn everything_is_looked_through_when_another_process_answers() {
    let (mut places, now) = (after_one(), Instant::now());
    places.looked(looked(100, &[], &[], [90, 7]), now, now);
    assert_eq!(places.of("a", now), [90, 7]);
    places.looked(Looked { backend: 1, ..looked(200, &[], &[], [200, 0]) }, now, now);
    assert_eq!(places.of("a", now), [0; 2], "the server may have crashed");
    for backend in [0, 1, 0] {
        places.looked(Looked { backend, ..looked(300, &[], &[], [300, 0]) }, now, now);
        assert_eq!(places.of("a", now), [300, 0], "neither has ended");
    }
}

#[test]
fn a_transaction_that_ends_is_looked_for_from_before_it_was_seen() {
    let (mut places, now) = (after_one(), Instant::now());
    places.looked(looked(100, &[], &[], [90, 7]), now, now);
    assert_eq!(places.of("a", now), [90, 7]);
    places.looked(looked(200, &[5], &[], [200, 0]), now, now);
    assert_eq!(places.open(), (vec![5], vec![100]));
    places.looked(looked(300, &[5, 6], &[], [300, 0]), now, now);
    assert_eq!(places.behind("", 9, now), (vec!["a".into()], vec![300]));
    // The look that finds that one has ended began there by itself; other names begin there next.
    places.looked(Looked { places: Vec::new(), ..looked(400, &[6], &[5], [0; 2]) }, now, now);
    assert_eq!((places.of("a", now), places.open()), ([100, 0], (vec![6], vec![200])));
    // One that is not marked goes no further than the last one that was.
    places.looked(Looked { open: None, ..looked(500, &[], &[], [500, 0]) }, now, now);
    assert_eq!(places.of("a", now), [400, 0]);
}

#[test]
fn looks_that_find_nothing_are_marked_now_and_then_only() {
    let (mut places, now) = (after_one(), Instant::now());
    assert!(places.is_to_mark(now));
    places.looked(looked(100, &[], &[], [100, 0]), now, now);
    assert!(!places.is_to_mark(now) && places.is_to_mark(now + MARK_EVERY));
    places.looked(Looked { open: None, ..looked(200, &[], &[], [150, 0]) }, now, now);
    assert!(places.is_to_mark(now), "it has found something");
}

#[test]
fn everything_is_looked_through_now_and_then_and_after_errors() {
    let (mut places, began) = (after_one(), Instant::now());
    let took = Duration::from_secs(2);
    places.looked(looked(100, &[], &[], [90, 7]), began, began + took);
    let whole_at = began + took + took * WHOLE_SHARE;
    assert_eq!(places.of("a", whole_at - took), [90, 7]);
    assert_eq!(places.of("a", whole_at), [0; 2]);
    // It takes too long.
    places.failed(&["a".into()], true, whole_at);
    assert_eq!(places.of("a", whole_at), [90, 7]);
    assert_eq!(places.of("a", whole_at + WHOLE_LATER), [0; 2]);
    places.failed(&["a".into()], false, whole_at);
    assert_eq!(places.of("a", whole_at), [0; 2]);
    places.looked(looked(100, &[], &[], [90, 7]), began, began);
    places.looked(looked(99, &[], &[], [90, 7]), began, began);
    assert_eq!(places.of("a", began), [0; 2], "the clock was set back");
}

/// A server whose transactions begin, read the clock, write and end at random, each step by itself.
#[derive(Default)]
struct Server {
    clock: i64,
    /// The next number, and the one behind the last that has ended.
    next: i64,
    behind: i64,
    /// Open transactions, and when what they have written is due.
    open: HashMap<i64, Vec<i64>>,
    waiting: Vec<i64>,
}

impl Server {
    fn begin(&mut self) -> i64 {
        self.next += 1;
        self.open.insert(self.next, Vec::new());
        self.next
    }

    fn end(&mut self, number: i64) {
        self.waiting.extend(self.open.remove(&number).unwrap());
        self.behind = self.behind.max(number + 1);
    }

    fn step(&mut self, random: &mut Random) {
        self.clock += random.below(3) as i64;
        let numbers: Vec<i64> = self.open.keys().copied().collect();
        let one = (!numbers.is_empty()).then(|| numbers[random.below(numbers.len() as u64) as usize]);
        match (random.below(4), one) {
            (0, _) => {
                self.begin();
            }
            (1, Some(number)) => self.open.get_mut(&number).unwrap().push(self.clock + random.below(4) as i64),
            // One in many stays open for long.
            (2, Some(number)) if number % 16 != 0 || random.below(200) == 0 => self.end(number),
            _ => {}
        }
    }

    /// Looks as the server's function does: the clock, who is open, what is due.
    fn look(&mut self, places: &mut Places, random: &mut Random, now: Instant, claims: bool) {
        let (at, since, (seen, lows)) = (self.clock, places.of("a", now)[0], places.open());
        self.step(random);
        let own = (places.is_to_mark(now) || random.below(4) == 0).then(|| self.begin());
        self.step(random);
        let behind = self.behind;
        let running: Vec<i64> = self.open.keys().copied().filter(|number| *number < behind).collect();
        let has_ended = |number: &i64| *number < behind && !running.contains(number);
        let ended: Vec<i64> = seen.iter().copied().filter(has_ended).collect();
        let low = seen.iter().zip(lows).filter(|(number, _)| has_ended(number)).map(|(_, low)| low).min();
        let open = own.map(|own| running.iter().copied().filter(|it| *it != own).chain(behind..own).collect());
        self.step(random);
        let from = low.map_or(since, |low| low.min(since));
        let mut due: Vec<i64> = self.waiting.iter().copied().filter(|due| (from..=at).contains(due)).collect();
        due.sort_unstable();
        let first = due.first().copied().unwrap_or(at).min(at);
        // Those that are found are not all claimed.
        due.truncate(if claims { random.below(4) as usize } else { 0 });
        for due in due {
            let at = self.waiting.iter().position(|waiting| *waiting == due).unwrap();
            self.waiting.swap_remove(at);
        }
        if let Some(own) = own.filter(|own| self.open.contains_key(own)) {
            self.end(own);
        }
        places.looked(Looked { places: vec![("a".into(), [first, 0])], open, ended, at, backend: 0 }, now, now);
    }
}

#[test]
fn nothing_that_is_due_is_in_front_of_the_place() {
    let mut random = Random(0x91ace5);
    for _ in 0..300 {
        let mut server = Server { clock: 1, behind: 1, ..Server::default() };
        let (mut places, now) = (after_one(), Instant::now());
        for _ in 0..300 {
            (0..random.below(4)).for_each(|_| server.step(&mut random));
            let claims = random.below(3) > 0;
            server.look(&mut places, &mut random, now, claims);
        }
        // All end, and are found.
        let open: Vec<i64> = server.open.keys().copied().collect();
        open.into_iter().for_each(|number| server.end(number));
        for _ in 0..10_000 {
            if server.waiting.is_empty() {
                break;
            }
            server.clock += 10;
            server.look(&mut places, &mut Random(random.below(u64::MAX)), now, true);
        }
        assert!(server.waiting.is_empty(), "never found: {:?}", server.waiting);
    }
}
