//! A report as a measurement might produce it, made of rules of thumb and a seeded generator.

use hapax_bench::measure::{Absent, Answers, Latency, Machine, Measurement, Report, Row, Setting, Sort};
pub use testkit::random::Random;

/// The properties of a strategy: its name, nanoseconds one by one and in batches, and bytes an id.
type Kind = (&'static str, Sort, f64, Option<f64>, f64);

const KINDS: [Kind; 8] = [
    ("hapax window", Sort::Window, 71.0, Some(22.0), 18.4),
    ("DashMap", Sort::Window, 105.0, None, 57.0),
    ("Mutex<HashMap>", Sort::Window, 64.0, Some(46.0), 57.0),
    ("moka", Sort::Window, 3_900.0, None, 210.0),
    ("hapax window+journal", Sort::Durable, 90.0, Some(30.0), 18.4),
    ("fjall", Sort::Durable, 3_600.0, Some(3_000.0), 12.0),
    ("hapax over Redis", Sort::Server, 4_100.0, Some(390.0), 19.0),
    ("PostgreSQL INSERT", Sort::Server, 250_000.0, Some(9_000.0), 0.6),
];

/// Makes a report of strategies in memory and elsewhere: two numbers of threads, two sizes, and
/// a rate.
pub fn report(seed: u64) -> Report {
    let mut random = Random(seed);
    let mut rows = Vec::new();
    for kind in KINDS {
        for setting in settings(&kind) {
            let runs = (0..3).map(|_| run(&kind, &setting, &mut random)).collect();
            rows.push(Row { runs, ..Row::new(kind.0, kind.1, &setting, 0.0, 0.0) });
        }
    }
    Report {
        began_unix_seconds: 1_795_348_800,
        command: "hapax bench --live 100000,1000000 --threads 1,2 --batch 1,1024 --rate 1000000 --seed 7".into(),
        seed: 7,
        machine: Machine { processor: "A processor, 2.1 GHz".into(), processors: 2, system: "Linux 6.1".into() },
        rows,
        absent: vec![Absent { strategy: "rusqlite".into(), reason: "built without the feature `sqlite`".into() }],
        interrupted: false,
    }
}

pub fn setting(live: usize, threads: usize, batch: usize) -> Setting {
    Setting { live, threads, batch, ..Setting::default() }
}

fn settings(kind: &Kind) -> Vec<Setting> {
    let batches = if kind.3.is_some() { &[1, 1024][..] } else { &[1] };
    let mut settings = Vec::new();
    for &batch in batches {
        for live in [100_000, 1_000_000] {
            settings.extend([1, 2].map(|threads| setting(live, threads, batch)));
        }
    }
    settings.push(Setting { rate: Some(1e5), ..setting(1_000_000, 2, 1) });
    settings
}

fn run(&(_, sort, single, batched, bytes): &Kind, setting: &Setting, random: &mut Random) -> Measurement {
    let mut noise = || 0.96 + 0.08 * random.share();
    let nanos = if setting.batch > 1 { batched.unwrap_or(single) } else { single };
    let (checks, held) = (20_000_000, setting.live as u64);
    let longest = (nanos * 1e3 * noise()) as u64;
    let latency = Latency { reached: 1e5, p50: nanos as u64, p99: 2 * nanos as u64, p99_9: 3 * nanos as u64, longest };
    Measurement {
        checks,
        nanos: (checks as f64 * nanos * noise()) as u64,
        cpu_nanos: (checks as f64 * nanos * setting.threads as f64) as u64,
        server_cpu_nanos: (sort == Sort::Server).then_some(checks * 700),
        bytes: (bytes * held as f64 * noise()) as u64,
        beside_bytes: matches!(sort, Sort::Durable | Sort::Server).then_some(90 * held),
        held,
        answers: Answers { fresh: checks - checks / 10, duplicates: checks / 10, ..Answers::default() },
        latency: setting.rate.map(|_| latency),
        work_nanos: checks * setting.work as u64,
    }
}

/// Makes a report of two strategies in one setting, measured three times.
pub fn small() -> Report {
    let mut report = report(1);
    let names = ["hapax window", "DashMap"];
    report.rows.retain(|row| row.setting == setting(1_000_000, 1, 1) && names.contains(&row.strategy.as_str()));
    report
}

/// Returns the row of a strategy.
pub fn row<'r>(report: &'r mut Report, strategy: &str) -> &'r mut Row {
    report.rows.iter_mut().find(|row| row.strategy == strategy).expect("it is there")
}

/// Sets the speed of each run of a strategy, in nanoseconds an id.
pub fn set_nanos(report: &mut Report, strategy: &str, nanos: &[u64]) {
    let row = row(report, strategy);
    let run = row.runs[0].clone();
    row.runs = nanos.iter().map(|nanos| Measurement { nanos: run.checks * nanos, ..run.clone() }).collect();
}
