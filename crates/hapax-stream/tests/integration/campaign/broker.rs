//! The campaign's queue, for processes that are killed: messages come until they are deleted, one
//! request a line. It outlives them all, and keeps the ledger.

use super::ledger::{Kind, Story, Tally};
use super::plan::Plan;
use hapax_store::sync::lock;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use testkit::random::Random;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The number of messages that are there to be handled at a time, so that some always wait.
const OPEN: usize = 80;
/// The number of latest faults that are reported with a violation.
const FAULTS_SAID: usize = 20;
/// The time after which a done message is judged, when no process can work on it any more.
const JUDGED_AFTER: Duration = Duration::from_secs(20);

pub struct Broker {
    plan: Plan,
    state: Mutex<State>,
}

struct State {
    backend: String,
    random: Random,
    sent: BTreeMap<u64, Sent>,
    places: u64,
    ids: u64,
    stories: HashMap<u64, Open>,
    /// The id of each handler's run.
    runs: HashMap<u64, u64>,
    run: u64,
    connections: HashMap<usize, usize>,
    sends: bool,
    last_effect: Instant,
    began: Instant,
    faults: VecDeque<(Duration, String)>,
    tally: Tally,
}

/// A message in the queue.
struct Sent {
    id: u64,
    kind: Kind,
    takes: Duration,
    hangs: u32,
    fails: u32,
    visible: Instant,
    deliveries: u32,
    /// The process that asks, for a check.
    asker: Option<usize>,
}

/// An id that is not judged yet.
struct Open {
    story: Story,
    copies: u32,
    /// The workers whose handlers have begun with it.
    workers: Vec<usize>,
    closed: Option<Instant>,
}

impl Broker {
    /// Starts a queue on loopback. Returns its address, too.
    pub async fn start(plan: Plan, random: Random) -> (Arc<Broker>, SocketAddr) {
        let state = State {
            backend: plan.backend.clone(),
            random,
            sent: BTreeMap::new(),
            places: 0,
            ids: 0,
            stories: HashMap::new(),
            runs: HashMap::new(),
            run: 0,
            connections: HashMap::new(),
            sends: true,
            last_effect: Instant::now(),
            began: Instant::now(),
            faults: VecDeque::new(),
            tally: Tally::default(),
        };
        let broker = Arc::new(Broker { plan, state: Mutex::new(state) });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
        let address = listener.local_addr().expect("the address that was bound");
        let serving = Arc::clone(&broker);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&serving).serve(stream));
            }
        });
        (broker, address)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let (reading, mut writing) = stream.into_split();
        let mut lines = BufReader::new(reading).lines();
        let mut worker = None;
        while let Ok(Some(line)) = lines.next_line().await {
            let mut words = line.split(' ');
            let answer = match words.next() {
                Some("hello") => {
                    let number = words.next().and_then(|word| word.parse().ok()).expect("a worker's number");
                    *self.lock().connections.entry(number).or_default() += 1;
                    worker = Some(number);
                    "ok".to_owned()
                }
                Some(what) => self.answer(worker.expect("it has said hello"), what, &mut words),
                None => "what?".to_owned(),
            };
            if writing.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                break;
            }
        }
        if let Some(worker) = worker {
            *self.lock().connections.entry(worker).or_default() -= 1;
        }
    }

    fn answer<'w>(&self, worker: usize, what: &str, words: &mut impl Iterator<Item = &'w str>) -> String {
        let mut state = self.lock();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
        match what {
            "take" => return state.take(number() as usize, self.plan.visibility()),
            "grab" => return state.grab(worker),
            "ack" => words.filter_map(|word| word.parse().ok()).for_each(|place| state.delete(place)),
            "put-off" => {
                let (place, delivery, by) = (number(), number(), Duration::from_millis(number()));
                // (Only the latest delivery's holder may.)
                if let Some(sent) = state.sent.get_mut(&place).filter(|sent| u64::from(sent.deliveries) == delivery) {
                    sent.visible = Instant::now() + by;
                }
            }
            "aside" => {
                let (id, why) = (number(), words.collect::<Vec<_>>().join(" "));
                state.story(id).story.put_aside = Some(why);
                state.last_effect = Instant::now();
            }
            "begin" => return state.begin(worker, number()),
            "done" => {
                let run = number();
                let id = state.runs.remove(&run).expect("a run that has begun");
                state.effect(id, worker);
            }
            "failed" => {
                let run = number();
                let id = state.runs.remove(&run).expect("a run that has begun");
                state.note(id, format!("failed at {worker}"));
            }
            "fresh" => {
                let place = number();
                let id = state.sent[&place].id;
                state.effect(id, worker);
                state.delete(place);
            }
            "duplicate" => state.delete(number()),
            "in-doubt" => {
                if let Some(sent) = state.sent.get_mut(&number()) {
                    (sent.asker, sent.visible) = (None, Instant::now() + Duration::from_millis(200));
                }
            }
            other => panic!("a worker asks for {other}"),
        }
        "ok".to_owned()
    }

    /// Records that a worker has died: its messages may have come to an end that nobody learns of.
    /// First its last words are read.
    pub async fn died(&self, worker: usize) {
        let began = Instant::now();
        while self.lock().connections.get(&worker).is_some_and(|&n| n > 0) && began.elapsed().as_secs() < 5 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let mut state = self.lock();
        let at = |open: &&mut Open| open.closed.is_none() && open.workers.contains(&worker);
        let since = state.began.elapsed();
        for open in state.stories.values_mut().filter(at) {
            open.workers.retain(|other| *other != worker);
            open.story.deaths += 1;
            open.story.events.push((since, format!("{worker} dies")));
        }
        let mut held = Vec::new();
        for sent in state.sent.values_mut().filter(|sent| sent.asker == Some(worker)) {
            sent.asker = None;
            held.push(sent.id);
        }
        held.into_iter().for_each(|id| state.story(id).story.deaths += 1);
    }

    /// Sends more, and judges what is over. To be called every now and then.
    pub fn tick(&self) {
        let (mut state, plan) = (self.lock(), &self.plan);
        while state.sends && state.sent.len() < OPEN {
            state.send(plan);
        }
        let since = if state.sent.is_empty() { Duration::ZERO } else { state.last_effect.elapsed() };
        state.tally.stands_still(since, plan.standstill_max());
        state.judge(plan.max_attempts(), |closed| closed.elapsed() > JUDGED_AFTER);
    }

    pub fn stop_sending(&self) {
        self.lock().sends = false;
    }

    /// Returns the number of messages that are done, and the number of faults.
    pub fn progress(&self) -> (u64, u64) {
        let state = self.lock();
        let unjudged = state.stories.values().filter(|open| open.closed.is_some()).count() as u64;
        (state.tally.messages + unjudged, state.tally.faults)
    }

    /// Returns how many messages are left to be done.
    pub fn open(&self) -> usize {
        self.lock().sent.len()
    }

    pub fn violated(&self, what: String) {
        self.lock().tally.violated(what);
    }

    pub fn since(&self) -> Duration {
        self.lock().began.elapsed()
    }

    /// Records a fault from that time on.
    pub fn injected(&self, from: Duration, what: String) {
        let mut state = self.lock();
        state.tally.faults += 1;
        state.faults.push_back((from, what));
        if state.faults.len() > FAULTS_SAID {
            state.faults.pop_front();
        }
    }

    pub fn end(&self) -> Tally {
        let mut state = self.lock();
        let open: Vec<u64> = state.sent.values().map(|sent| sent.id).collect();
        if !open.is_empty() {
            state.tally.violated(format!(
                "{} messages are not done at the end: {:?}",
                open.len(),
                &open[..open.len().min(10)]
            ));
        }
        state.judge(self.plan.max_attempts(), |_| true);
        state.tally.clone()
    }
}

impl State {
    fn story(&mut self, id: u64) -> &mut Open {
        let open = || Open { story: Story::new(Kind::Claim), copies: 0, workers: Vec::new(), closed: None };
        self.stories.entry(id).or_insert_with(open)
    }

    /// Sends a new message, perhaps several times.
    fn send(&mut self, plan: &Plan) {
        let random = &mut self.random;
        let kind = if random.percent(50) { Kind::Claim } else { Kind::Check };
        let takes = if random.percent(2) { plan.slow(random) } else { random.millis(0, 30) };
        let hangs = u32::from(random.below(1_000) < plan.hangs_per_thousand());
        let fails = if random.below(1_000) < 2 { u32::MAX / 2 } else { u32::from(random.percent(3)) };
        let copies = random.within(1, 3);
        let id = self.ids;
        self.ids += 1;
        let story = Open { story: Story::new(kind), copies: copies as u32, workers: Vec::new(), closed: None };
        self.stories.insert(id, story);
        for _ in 0..copies {
            let visible = Instant::now() + self.random.millis(0, 200);
            let sent = Sent { id, kind, takes, hangs, fails, visible, deliveries: 0, asker: None };
            self.sent.insert(self.places, sent);
            self.places += 1;
        }
    }

    fn take(&mut self, most: usize, visibility: Duration) -> String {
        let (mut taken, now) = (String::new(), Instant::now());
        let ready = self.sent.iter_mut().filter(|(_, sent)| sent.kind == Kind::Claim && sent.visible <= now);
        for (place, sent) in ready.take(most) {
            sent.visible = now + visibility;
            sent.deliveries += 1;
            let Sent { id, takes, hangs, fails, deliveries, .. } = sent;
            taken += &format!("{place},{deliveries},{id},{},{hangs},{fails} ", takes.as_millis());
        }
        taken
    }

    fn grab(&mut self, worker: usize) -> String {
        let now = Instant::now();
        let is_free = |sent: &Sent| sent.kind == Kind::Check && sent.asker.is_none() && sent.visible <= now;
        match self.sent.iter_mut().find(|(_, sent)| is_free(sent)) {
            Some((place, sent)) => {
                sent.asker = Some(worker);
                format!("{place} {}", sent.id)
            }
            None => "none".to_owned(),
        }
    }

    fn begin(&mut self, worker: usize, id: u64) -> String {
        let open = self.story(id);
        let before = open.story.begun;
        open.story.begun += 1;
        if !open.workers.contains(&worker) {
            open.workers.push(worker);
        }
        self.note(id, format!("begins at {worker}"));
        self.run += 1;
        self.runs.insert(self.run, id);
        format!("{} {before}", self.run)
    }

    fn note(&mut self, id: u64, what: String) {
        let since = self.began.elapsed();
        self.story(id).story.events.push((since, what));
    }

    fn effect(&mut self, id: u64, worker: usize) {
        self.note(id, format!("effect at {worker}"));
        self.story(id).story.effects += 1;
        self.last_effect = Instant::now();
    }

    fn delete(&mut self, place: u64) {
        if let Some(sent) = self.sent.remove(&place) {
            let open = self.story(sent.id);
            open.copies -= 1;
            if open.copies == 0 {
                open.closed = Some(Instant::now());
            }
            self.note(sent.id, "deleted".to_owned());
        }
    }

    fn judge(&mut self, max_attempts: u32, is_over: impl Fn(Instant) -> bool) {
        let over: Vec<u64> =
            self.stories.iter().filter(|(_, open)| open.closed.is_some_and(&is_over)).map(|(id, _)| *id).collect();
        for id in over {
            if let Some(open) = self.stories.remove(&id) {
                if self.tally.judge(id, &open.story, max_attempts) {
                    println!("{}: of the violation {id}: faults {:?}", self.backend, self.faults);
                }
                self.runs.retain(|_, of| *of != id);
            }
        }
    }
}
