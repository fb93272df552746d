//! Figures in words.

/// Prints two or three significant digits: as many as repeat.
pub fn figure(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "–".to_string(),
        _ if value >= 999.5 => grouped(value),
        _ if value >= 19.95 => format!("{value:.0}"),
        _ if value >= 0.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Prints a whole number with commas, three digits of it being meant.
fn grouped(value: f64) -> String {
    let unit = 10_f64.powf(value.log10().floor() - 2.0).max(1.0);
    let digits = format!("{:.0}", (value / unit).round() * unit);
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Prints milliseconds.
pub fn millis(nanos: f64) -> String {
    format!("{} ms", figure(nanos / 1e6))
}

/// Prints a share of answers.
pub fn share(share: f64) -> String {
    match share {
        0.0 => "0".to_string(),
        _ => format!("{} %", figure(share * 100.0)),
    }
}

/// Prints a day, in UTC.
pub fn day(unix_seconds: u64) -> String {
    let time = jiff::Timestamp::from_second(i64::try_from(unix_seconds).unwrap()).unwrap();
    time.strftime("%F").to_string()
}

/// Breaks a paragraph into lines of at most 100 columns.
pub fn paragraph(text: &str) -> String {
    let options = textwrap::Options::new(100)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options)
}

/// Makes a table: the first column is text, the others are figures.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rules: Vec<&str> = (0..head.len()).map(|i| if i == 0 { "---" } else { "---:" }).collect();
    let head: Vec<String> = head.iter().map(|cell| cell.to_string()).collect();
    let rows: String = rows.into_iter().map(|row| line(&row)).collect();
    format!("{}|{}|\n{rows}", line(&head), rules.join("|")).replace("|  |", "| |")
}

#[test]
fn figures_have_the_digits_that_repeat() {
    let printed = [0.2641, 2.34, 18.42, 40.4, 999.4, 999.6, 2_917.3, 25_049.0, 1_234_567.0].map(figure);
    assert_eq!(printed, ["0.26", "2.3", "18.4", "40", "999", "1,000", "2,920", "25,000", "1,230,000"]);
    assert_eq!((millis(261_000.0), share(0.0), share(0.124)), ("0.26 ms".into(), "0".into(), "12.4 %".into()));
    assert_eq!(table(&["", "ns"], [vec!["a".into(), "1".into()]]), "| | ns |\n|---|---:|\n| a | 1 |\n");
}
