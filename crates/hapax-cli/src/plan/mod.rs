//! `hapax plan`: plans a configuration: how large it is, what it will cost, and what it will miss.

mod command;
mod json;
mod options;
mod text;

pub use options::{ABOUT, PlanArgs};

use crate::args::Format;
use crate::error::CommandError;
use crate::records;
use hapax_plan::{Demand, Excerpt, Plan, PlanError, Profile, Summary, rounded_up};
use std::io::Write;
use std::time::Duration;

/// The time for which a layer keeps responses unless it is told otherwise.
const RESPONSE_RETENTION: Duration = Duration::from_secs(24 * 3_600);

/// The answer that is printed.
pub struct Answer {
    pub seen: Option<Observed>,
    /// The plan; none if the ids had no times, and no rate was given.
    pub plan: Option<Plan>,
}

/// The ids that have come, and what the planned window would have made of them.
pub struct Observed {
    pub summary: Summary,
    pub window: Option<CaughtBy>,
}

pub struct CaughtBy {
    pub window: Duration,
    /// Repeats that are caught by a window of exactly this length.
    pub caught: u64,
    /// Repeats that are caught by an engine with this window, as by `hapax filter`; not known of
    /// records without times.
    pub caught_by_engine: Option<u64>,
    /// Repeats that are caught with a history, too, if it remembers no longer than it must.
    pub caught_with_history: Option<u64>,
    /// The window is the knee of the curve, rounded up.
    pub is_knee: bool,
    /// The shortest window that catches all repeats; none if there are none, or if this one does.
    pub all: Option<All>,
    /// The time from the first record to the last, or the time that they take at the given rate.
    pub span: Duration,
    /// The things that cannot be known from these records.
    pub cautions: Vec<String>,
}

/// The window that catches all repeats, and the price of it.
pub struct All {
    pub window: Duration,
    /// The most ids that come within it; not known of records without times.
    pub ids: Option<u64>,
}

pub fn run(args: PlanArgs) -> Result<(), CommandError> {
    let answer = if args.from.is_empty() {
        let (rate, window) = args.rate.zip(args.window).ok_or_else(|| needs("--rate and --window, or --from"))?;
        let demand = Demand::new(rate, window).duplicates(args.duplicates.unwrap_or(0.0));
        let demand = demand.peak(args.peak.unwrap_or(1.0));
        Answer { seen: None, plan: Some(plan(&args, demand, args.history)?) }
    } else {
        from_records(&args)?
    };
    let output = match args.format {
        Format::Json => json::answer(&answer),
        Format::Text => text::answer(&answer),
    };
    writeln!(std::io::stdout().lock(), "{output}").map_err(CommandError::output)
}

fn from_records(args: &PlanArgs) -> Result<Answer, CommandError> {
    let mut profile = Profile::new(args.max_records)?;
    records::read(&args.lines, &args.bad, &args.from, |id, time| profile.see(id, time).map_err(failure))?;
    if profile.records() == 0 {
        return Err(CommandError::BadInput("there are no records to plan for".to_string()));
    }
    let summary = profile.summary();
    let Some((demand, horizon)) = demand_of(args, &profile)? else {
        return Ok(Answer { seen: Some(Observed { summary, window: None }), plan: None });
    };
    let plan = plan(args, demand, horizon)?;
    let window = Some(seen_by(&plan, &profile, args.window.is_none() && args.catch.is_none())?);
    Ok(Answer { seen: Some(Observed { summary, window }), plan: Some(plan) })
}

fn seen_by(plan: &Plan, profile: &Profile, is_knee: bool) -> Result<CaughtBy, CommandError> {
    let (window, horizon) = (plan.window.duration, plan.history.as_ref().map(|history| history.horizon));
    let rate = plan.checks_per_second;
    let has_times = profile.span().is_some();
    let span = profile.span().unwrap_or_else(|| time_of(profile.records(), rate));
    let caught = |window: Duration| {
        if has_times { profile.caught(window) } else { profile.caught_within(records_in(window, rate)) }
    };
    let by_engine = || profile.caught_by_engine(window).map_err(failure);
    let excerpt = Excerpt { span, repeats: profile.repeats(), has_times };
    Ok(CaughtBy {
        window,
        caught: caught(window),
        caught_by_engine: has_times.then(by_engine).transpose()?,
        caught_with_history: horizon.map(caught),
        is_knee,
        all: all(profile, rate).filter(|_| caught(window) < profile.repeats()),
        span,
        cautions: excerpt.cautions(horizon.map_or(window, |horizon| horizon.max(window))),
    })
}

/// Returns the window that catches all repeats.
fn all(profile: &Profile, rate: f64) -> Option<All> {
    if profile.span().is_some() {
        let window = profile.round_window_for(1.0)?;
        return Some(All { window, ids: Some(profile.accepted_at_most(window, window)) });
    }
    Some(All { window: rounded_up(time_of(profile.records_for(1.0)?, rate)), ids: None })
}

/// Returns how long it takes that so many records come, at a rate.
fn time_of(records: u64, rate: f64) -> Duration {
    // A time longer than the longest duration is refused as a window, too.
    Duration::try_from_secs_f64(records as f64 / rate).unwrap_or(Duration::MAX)
}

/// Returns how many records without times come within a time, at a rate.
fn records_in(time: Duration, rate: f64) -> u64 {
    (time.as_secs_f64() * rate) as u64
}

/// Returns the demand that the ids show, and the horizon of the history that is still to be added;
/// none without any idea of time.
fn demand_of(args: &PlanArgs, profile: &Profile) -> Result<Option<(Demand, Option<Duration>)>, CommandError> {
    let none = || CommandError::Usage("no id came twice, so --window must say how long to remember them".to_string());
    let of_time = [("--rate", args.rate), ("--peak", args.peak), ("--history-peak", args.history_peak)];
    if let (Some(_), Some((option, _))) = (profile.span(), of_time.iter().find(|(_, value)| value.is_some())) {
        return Err(CommandError::Usage(format!("{option} is for records without times; these have some")));
    }
    match (profile.span(), args.rate) {
        (None, None) if args.peak.is_some() || args.window.is_some() || args.history.is_some() => {
            Err(needs("--rate, or an option that says where the time of a record is"))
        }
        (None, None) => Ok(None),
        (None, Some(rate)) => {
            let records = || match args.catch {
                Some(share) => profile.records_for(share),
                None => profile.knee_in_records(),
            };
            let window = args.window.or_else(|| Some(rounded_up(time_of(records()?, rate)))).ok_or_else(none)?;
            let caught = profile.caught_within(records_in(window, rate)) as f64;
            let demand = Demand::new(rate, window).duplicates(caught / profile.records() as f64);
            Ok(Some((demand.peak(args.peak.unwrap_or(1.0)), args.history)))
        }
        (Some(_), _) => {
            let found = || match args.catch {
                Some(share) => profile.round_window_for(share),
                None => profile.knee().map(rounded_up),
            };
            let window = args.window.or_else(found).ok_or_else(none)?;
            let demand = match args.history {
                Some(horizon) => profile.demand_with_history(window, horizon),
                None => profile.demand(window),
            };
            Ok(Some((demand.map_err(failure)?, None)))
        }
    }
}

/// Plans with the other options besides the rate.
fn plan(args: &PlanArgs, demand: Demand, horizon: Option<Duration>) -> Result<Plan, CommandError> {
    let with = |demand: Demand, value: Option<f64>, add: fn(Demand, f64) -> Demand| match value {
        Some(value) => add(demand, value),
        None => demand,
    };
    let demand = horizon.map_or(demand.clone(), |horizon| demand.history(horizon));
    let demand = with(demand, args.growth, Demand::growth);
    let demand = with(demand, args.history_peak, Demand::history_peak);
    let demand = with(demand, args.false_positives, Demand::false_positive_rate);
    let demand = args.memory.map_or(demand.clone(), |bytes| demand.memory_bytes(bytes));
    let demand = args.work.map_or(demand.clone(), |work| demand.work(work));
    let demand = args.journal.map_or(demand.clone(), |interval| demand.journal(interval));
    let demand = args.long_memory.map_or(demand.clone(), |retention| demand.long_memory(retention));
    let responses = args.responses.zip(args.response_bytes);
    let retention = args.response_retention.unwrap_or(RESPONSE_RETENTION);
    let demand = responses.map_or(demand.clone(), |(rate, bytes)| demand.responses(rate, bytes, retention));
    demand.plan().map_err(failure)
}

fn needs(what: &str) -> CommandError {
    CommandError::Usage(format!("a plan needs {what}"))
}

/// Translates an error: the library names its own methods; here they are options.
fn failure(error: PlanError) -> CommandError {
    let option = match &error {
        PlanError::Invalid { option, .. } => *option,
        PlanError::TooLittleMemory { .. } => "memory_bytes",
        PlanError::TooManyInFlight { .. } => "work",
        PlanError::TooManyRecords { .. } => "records_max",
        _ => return CommandError::Usage(error.to_string()),
    };
    let name = match option {
        "checks_per_second" => "--rate",
        "false_positive_rate" => "--false-positives",
        "memory_bytes" => "--memory",
        "records_max" => "--max-records",
        // A record has it, and no option.
        "time" => return CommandError::Usage(error.to_string()),
        same => &format!("--{}", same.replace('_', "-")),
    };
    // The expected value may name an option, too.
    let names = [
        ("false_positive_rate", "--false-positives"),
        ("memory_bytes", "--memory"),
        ("`long_memory`", "--long-memory"),
    ];
    let text = error.to_string().replace(&format!("`{option}`"), name);
    CommandError::Usage(names.iter().fold(text, |text, (method, option)| text.replace(method, option)))
}
