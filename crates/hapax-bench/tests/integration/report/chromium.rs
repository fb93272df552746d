//! The page in a real browser, on a desk and on a phone, in light and in dark.

use crate::report::fixture;
use crate::report::pages::{elements, parsed, text_of};
use hapax_bench::measure::render;
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The page around both widths. It prints their results into its own document, and one line to the
/// console, to show that lines there would be noticed.
const AROUND: &str = r#"<!DOCTYPE html><title>around</title><body style="margin:0">
<iframe name="desk" src="probed.html" style="width:1280px;height:12000px;border:0"></iframe>
<iframe name="phone" src="probed.html" style="width:360px;height:12000px;border:0"></iframe>
<script>
addEventListener('message', event => {
  const found = document.createElement('pre');
  found.className = 'found';
  found.textContent = btoa(String.fromCharCode(...new TextEncoder().encode(event.data)));
  document.body.append(found);
  console.log('told by ' + JSON.parse(event.data).name);
});
</script>"#;

/// The longest time that a browser may take, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with a profile of its own, which end together.
struct Browser {
    child: Child,
    place: PathBuf,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(self.place.join("profile"));
    }
}

impl Browser {
    fn start(place: &Path, scheme: &str) -> std::io::Result<Browser> {
        let at = |name: &str| place.join(name).display().to_string();
        let flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
                     --disable-component-update --disable-sync --enable-logging=stderr --dump-dom";
        let child = Command::new("chromium")
            .args(flags.split_whitespace())
            .arg(format!("--user-data-dir={}", at("profile")))
            .arg(format!("--blink-settings=preferredColorScheme={}", if scheme == "dark" { 0 } else { 1 }))
            .arg(format!("file://{}", at("around.html")))
            .stdin(Stdio::null())
            .stdout(File::create(place.join("dom.html"))?)
            .stderr(File::create(place.join("console.txt"))?)
            .spawn()?;
        Ok(Browser { child, place: place.into() })
    }

    /// Returns the results of both widths, once it has ended.
    fn end(mut self) -> Vec<Value> {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "chromium takes more than {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let console = fs::read_to_string(self.place.join("console.txt")).unwrap();
        let said: Vec<&str> = console.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(said.len() == 2 && said.iter().all(|line| line.contains("told by")), "{console}");
        let dom = fs::read_to_string(self.place.join("dom.html")).unwrap();
        dom.split("<pre class=\"found\">").skip(1).map(|rest| found(rest.split('<').next().unwrap())).collect()
    }
}

/// Decodes a result from base 64.
fn found(text: &str) -> Value {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |digit: u8| DIGITS.iter().position(|other| *other == digit).unwrap() as u32;
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').collect();
    let bytes = digits.chunks(4).flat_map(|chunk| {
        let word = chunk.iter().enumerate().fold(0, |word, (i, digit)| word | value(*digit) << (18 - 6 * i));
        word.to_be_bytes()[1..chunk.len()].to_vec()
    });
    serde_json::from_slice(&bytes.collect::<Vec<u8>>()).unwrap()
}

fn has_chromium() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join("chromium").is_file())
}

/// Writes the report's page as readers get it, and the same page with a script that looks at it.
fn prepare(scheme: &str, html: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{scheme}-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    let policy = "style-src 'unsafe-inline'";
    assert!(html.contains(policy));
    let probe = format!("<script>{}</script></body>", include_str!("probe.js"));
    let probed =
        html.replace(policy, "style-src 'unsafe-inline'; script-src 'unsafe-inline'").replace("</body>", &probe);
    fs::write(place.join("page.html"), html).unwrap();
    fs::write(place.join("probed.html"), probed).unwrap();
    fs::write(place.join("around.html"), AROUND).unwrap();
    place
}

#[test]
fn the_page_is_readable_in_a_browser() {
    if !has_chromium() {
        testkit::skipped_without("chromium", "chromium");
        return;
    }
    let began = Instant::now();
    let html = render::html(&fixture::report(7));
    let browsers = ["light", "dark"].map(|scheme| (scheme, Browser::start(&prepare(scheme, &html), scheme).unwrap()));
    for (scheme, browser) in browsers {
        let place = browser.place.clone();
        let told = browser.end();
        assert_eq!(told.len(), 2, "{scheme}: see {}", place.display());
        told.iter().for_each(|told| judge(told, scheme, &html));
        fs::remove_dir_all(place).unwrap();
    }
    println!("chromium took {:?}", began.elapsed());
}

fn judge(told: &Value, scheme: &str, html: &str) {
    let name = format!("{} in {scheme}", told["name"]);
    let width = if told["name"] == "phone" { 360 } else { 1280 };
    assert_eq!(told["width"], width, "{name}");
    assert!(told["widest"].as_u64().unwrap() <= width, "{name} scrolls sideways");
    assert_eq!(told["dark"], scheme == "dark", "{name}");
    assert_eq!(told["ground"], if scheme == "dark" { "#0d1117" } else { "#ffffff" }, "{name}");
    assert_eq!(told["requests"], 0, "{name}");
    let page = parsed(html);
    let drawn = told["drawn"].as_array().unwrap();
    assert!(drawn.len() > 50, "{} rows with marks", drawn.len());
    for row in drawn {
        let number = |field: &str| row[field].as_f64().unwrap();
        assert!(number("width") > 120.0 && number("height") > 15.0 && number("marks") > 0.0, "{name}: {row}");
    }
    assert_eq!(told["cut"], Value::Array(Vec::new()), "{name}: labels are cut");
    assert_eq!(told["overlaps"], Value::Array(Vec::new()), "{name}");
    let text = told["text"].as_str().unwrap();
    // On a phone each figure has its column's head next to it, which is no text of the document.
    let cells =
        elements(&page, "td").into_iter().chain(elements(&page, "tbody").into_iter().flat_map(|body| {
            body.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/1999/xhtml", "th")))
        }));
    let mut count = 0;
    for cell in cells.map(text_of) {
        assert!(text.contains(&cell), "{name}: {cell} is not on the page");
        count += 1;
    }
    assert!(count > 1_000, "{count} figures");
}
