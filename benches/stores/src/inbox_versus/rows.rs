//! Measurements, and their table for benches/README.md.

use std::pin::Pin;

/// The name of one side of a comparison, and the work that returns its rate.
pub type Measured<'m> = (&'static str, Pin<Box<dyn Future<Output = f64> + 'm>>);

/// Names the work that is to be measured.
pub fn measured<'m>(name: &'static str, rate: impl Future<Output = f64> + 'm) -> Measured<'m> {
    (name, Box::pin(rate))
}

/// Rates by name and round, and the pairs that are compared.
#[derive(Default)]
pub struct Rows {
    rates: Vec<(&'static str, Vec<f64>)>,
    pairs: Vec<(&'static str, &'static str, Option<f64>)>,
}

impl Rows {
    /// Measures one after the other, in every other round the last one first. The first is compared
    /// with the others: the ratio to each of these should reach its bar, if it has one.
    pub async fn measure(&mut self, round: usize, ours: Measured<'_>, rivals: Vec<(Measured<'_>, Option<f64>)>) {
        let name = ours.0;
        let mut all = vec![ours];
        for (rival, bar) in rivals {
            if !self.pairs.iter().any(|pair| (pair.0, pair.1) == (name, rival.0)) {
                self.pairs.push((name, rival.0, bar));
            }
            all.push(rival);
        }
        if round % 2 == 1 {
            all.reverse();
        }
        for (name, rate) in all {
            let rate = rate.await;
            eprintln!("round {round}: {name}: {rate:.0}/s");
            match self.rates.iter_mut().find(|row| row.0 == name) {
                Some(row) => row.1.push(rate),
                None => self.rates.push((name, vec![rate])),
            }
        }
    }

    fn rates(&self, name: &str) -> &[f64] {
        self.rates.iter().find(|row| row.0 == name).map_or(&[], |row| &row.1)
    }

    pub fn show(&self) {
        if self.pairs.is_empty() {
            return;
        }
        println!("\n| hapax | a second | by hand | a second | ratio | bar | |\n|---|---:|---|---:|---:|---:|---|");
        for &(ours, rival, bar) in &self.pairs {
            let (our_rates, their_rates) = (self.rates(ours), self.rates(rival));
            let ratios: Vec<f64> = our_rates.iter().zip(their_rates).map(|(ours, theirs)| ours / theirs).collect();
            let ratio = spread(&ratios);
            let verdict = bar.map_or("", |bar| if ratio.0 >= bar { "met" } else { "**not met**" });
            println!(
                "| {ours} | {} | {rival} | {} | {:.2} x ({:.2} to {:.2}) | {} | {verdict} |",
                shown(our_rates),
                shown(their_rates),
                ratio.0,
                ratio.1,
                ratio.2,
                bar.map_or(String::new(), |bar| format!("{bar} x")),
            );
        }
    }
}

/// Returns a median with the least and the most.
pub fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn shown(rates: &[f64]) -> String {
    let (median, least, most) = spread(rates);
    format!("{median:.0} ({least:.0} to {most:.0})")
}
