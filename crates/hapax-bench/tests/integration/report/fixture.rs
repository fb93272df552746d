//! A report as a measurement might produce it, made of rules of thumb and a seeded generator.

use hapax_bench::measure::{
    Absent, Answers, IdKind, Latency, Library, Machine, Measurement, Quantile, Report, Row, Setting, Shape, Sort,
    Workload,
};
pub use testkit::random::Random;

/// Returns a factor near 1: the difference between runs.
fn noise(random: &mut Random) -> f64 {
    0.96 + 0.08 * random.share()
}

/// The properties of a strategy: at a million ids on one thread.
struct Kind {
    name: &'static str,
    sort: Sort,
    nanos: f64,
    /// The time in batches of 1,024, if it has any.
    batched: Option<f64>,
    /// Share of a thread that another thread adds.
    scales: f64,
    bytes: f64,
    beside: f64,
    may_miss: f64,
    may_invent: f64,
}

const fn kind(name: &'static str, sort: Sort, nanos: f64, batched: Option<f64>, scales: f64, bytes: f64) -> Kind {
    Kind { name, sort, nanos, batched, scales, bytes, beside: 0.0, may_miss: 0.0, may_invent: 0.0 }
}

fn kinds() -> Vec<Kind> {
    let mut kinds = vec![
        kind("roofline, 64 lines in flight", Sort::Roofline, 14.0, None, 1.0, 16.0),
        kind("hapax window", Sort::Window, 71.0, Some(22.0), 0.97, 18.4),
        kind("hapax window+history", Sort::Window, 131.0, Some(44.0), 0.97, 28.4),
        kind("DashMap", Sort::Window, 105.0, None, 0.4, 57.0),
        kind("Mutex<HashMap>", Sort::Window, 64.0, Some(46.0), -0.3, 57.0),
        kind("papaya", Sort::Window, 420.0, Some(400.0), 0.8, 159.0),
        kind("scc", Sort::Window, 113.0, None, 0.9, 47.0),
        kind("quick_cache", Sort::Window, 500.0, None, 0.6, 81.0),
        kind("moka", Sort::Window, 3_900.0, None, 0.3, 210.0),
        kind("hapax history", Sort::Filter, 31.0, Some(21.6), 0.9, 1.8),
        kind("fastbloom", Sort::Filter, 54.0, None, 0.1, 1.8),
        kind("hapax window, journal", Sort::Durable, 90.0, Some(30.0), 0.8, 18.4),
        kind("fjall", Sort::Durable, 3_600.0, Some(3_000.0), 0.5, 12.0),
        kind("Redis SET NX EX", Sort::Server, 31_000.0, Some(1_450.0), 0.8, 0.4),
        kind("Redis through hapax", Sort::Server, 4_100.0, Some(390.0), 0.8, 19.0),
        kind("Postgres, batched", Sort::Server, 250_000.0, Some(9_000.0), 0.7, 0.6),
    ];
    for kind in &mut kinds {
        match kind.name {
            "hapax window" | "hapax window+history" => kind.may_miss = 1e-4,
            "hapax history" | "fastbloom" => kind.may_invent = 1e-3,
            "fjall" => kind.beside = 31.0,
            "hapax window, journal" => kind.beside = 16.0,
            "Redis SET NX EX" | "Redis through hapax" => kind.beside = 92.0,
            "Postgres, batched" => kind.beside = 118.0,
            _ => {}
        }
    }
    kinds[2].may_invent = 1e-3;
    kinds
}

/// Makes a report of about 12 strategies in memory and elsewhere, two numbers of threads, three
/// sizes, rates and budgets.
pub fn report(seed: u64) -> Report {
    let mut random = Random(seed);
    let mut rows = Vec::new();
    for kind in kinds() {
        for setting in settings(&kind) {
            let runs = (0..3).map(|_| run(&kind, &setting, &mut random)).collect();
            let row = Row {
                strategy: kind.name.into(),
                sort: kind.sort,
                setting,
                runs,
                failures: Vec::new(),
                may_miss: kind.may_miss,
                may_invent: kind.may_invent,
            };
            rows.push(row);
        }
    }
    Report {
        format: Report::FORMAT,
        began_unix_seconds: 1_795_348_800,
        command: "hapax bench --live 100000,1000000,10000000 --threads 1,2 --batch 1,1024 --rate 1000000 --seed 7"
            .into(),
        seed: 7,
        machine: machine(),
        rows,
        absent: vec![Absent { strategy: "rusqlite".into(), reason: "built without the feature `sqlite`".into() }],
        interrupted: false,
    }
}

pub fn machine() -> Machine {
    let library = |(name, version): (&str, &str)| Library { name: name.into(), version: version.into() };
    Machine {
        processor: "A processor, 2.1 GHz".into(),
        processors: 2,
        memory_bytes: 24 << 30,
        system: "Linux 6.1".into(),
        compiler: "rustc 1.95.0".into(),
        libraries: [("hapax", "0.1.0"), ("dashmap", "6.1.0"), ("Redis", "7.0.15")].map(library).into(),
    }
}

pub fn setting(live: usize, threads: usize, batch: usize) -> Setting {
    Setting {
        workload: Workload { shape: Shape::Uniform, duplicates: 0.1, distance_windows: 0.1 },
        ids: IdKind::U64,
        live,
        threads,
        batch,
        think_nanos: 0,
        rate: None,
        budget_bytes: None,
    }
}

fn settings(kind: &Kind) -> Vec<Setting> {
    let batches = if kind.batched.is_some() { &[1, 1024][..] } else { &[1] };
    let mut settings = Vec::new();
    for &batch in batches {
        for live in [100_000, 1_000_000, 10_000_000] {
            settings.extend([1, 2].map(|threads| setting(live, threads, batch)));
        }
    }
    if kind.sort != Sort::Roofline {
        let rate = if kind.sort == Sort::Server { 20_000.0 } else { 1e6 };
        settings.push(Setting { rate: Some(rate), ..setting(1_000_000, 2, 1) });
    }
    if kind.name.starts_with("hapax ") && kind.sort != Sort::Durable || kind.name == "fastbloom" {
        let budget = |share: &f64| (kind.bytes * share * 1e6) as u64;
        let budgets = [0.4, 0.7, 1.5].iter().map(budget);
        settings.extend(budgets.map(|bytes| Setting { budget_bytes: Some(bytes), ..setting(1_000_000, 1, 1) }));
    }
    settings
}

fn run(kind: &Kind, setting: &Setting, random: &mut Random) -> Measurement {
    let single = if setting.batch > 1 { kind.batched.unwrap_or(kind.nanos) } else { kind.nanos };
    let size = (setting.live as f64 / 1e6).powf(0.15);
    let speedup = 1.0 + (setting.threads - 1) as f64 * kind.scales;
    let nanos_per_id = single * size / speedup * noise(random);
    let checks = (4e8 / single.max(20.0)) as u64;
    let held = setting.live as u64;
    let full = setting.budget_bytes.map_or(1.0, |budget| budget as f64 / (kind.bytes * setting.live as f64));
    let bytes_per_id = kind.bytes * full.min(1.6) * noise(random);
    Measurement {
        checks,
        nanos: (checks as f64 * nanos_per_id) as u64,
        cpu_nanos: (checks as f64 * nanos_per_id * setting.threads as f64 * 0.97) as u64,
        server_cpu_nanos: (kind.sort == Sort::Server).then_some((checks as f64 * 700.0 * noise(random)) as u64),
        start_nanos: (2e5 + held as f64 * 0.4 * noise(random)) as u64,
        pause_nanos: (nanos_per_id * 2e4 * noise(random)) as u64,
        clock_nanos: 25,
        bytes: (bytes_per_id * held as f64) as u64,
        beside_bytes: (kind.beside > 0.0).then_some((kind.beside * held as f64 * noise(random)) as u64),
        held,
        answers: answers(kind, checks, full, random),
        latency: setting.rate.map(|rate| latency(kind, rate, random)),
        ..Measurement::default()
    }
}

fn answers(kind: &Kind, checks: u64, full: f64, random: &mut Random) -> Answers {
    let duplicates = checks / 10;
    let count = |of: u64, share: f64, random: &mut Random| (of as f64 * share * noise(random)).round() as u64;
    // A third more memory, a tenth of the errors.
    let worse = 0.1_f64.powf((full - 1.0) * 3.0);
    let missed = if kind.may_miss > 0.0 { count(duplicates, 2e-6 * worse * worse, random) } else { 0 };
    let invented = count(checks - duplicates, kind.may_invent * 0.8 * worse, random);
    Answers {
        fresh: checks - duplicates,
        invented: invented.min(checks - duplicates),
        duplicates,
        missed: missed.min(duplicates),
        twice: 0,
    }
}

fn latency(kind: &Kind, rate: f64, random: &mut Random) -> Latency {
    let possible = 1e9 / kind.nanos * (1.0 + kind.scales);
    let reached = rate.min(possible);
    let behind = if possible < rate { 2e8 } else { 0.0 };
    let tail = 1.2 + 0.6 * random.share();
    let quantile = |of: f64| {
        let nines = -(1.0 - of).max(1e-6).log10();
        Quantile { of, nanos: (kind.nanos * 2.0 * (1.0 + nines.powf(2.0 * tail)) + behind * of) as u64 }
    };
    Latency { reached, quantiles: [0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0].map(quantile).into() }
}

/// Makes a report of one strategy in one setting, measured three times.
pub fn small() -> Report {
    let mut report = report(1);
    let kept = |row: &Row| {
        row.setting == setting(1_000_000, 1, 1)
            && ["hapax window", "DashMap", "roofline, 64 lines in flight"].contains(&row.strategy.as_str())
    };
    report.rows.retain(kept);
    report
}
