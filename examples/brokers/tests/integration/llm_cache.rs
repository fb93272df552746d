//! A model that answers differently each time it is asked, and counts; clients that ask everything
//! twice, and again until they have an answer.

use crate::directory::Directory;
use crate::http::{client, post, post_until_done};
use crate::killed::{Consumer, check_effects, seed};
use crate::processes::{await_port, free_port};
use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post as routed_post;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::runtime::Runtime;

const PROMPTS: usize = 60;
const CLIENTS: usize = 6;
const KILLS: usize = 5;

/// The number of times that each prompt was paid for.
#[derive(Clone, Default)]
struct Model(Arc<Mutex<BTreeMap<String, usize>>>);

impl Model {
    fn calls(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn number(&self) -> usize {
        self.calls().values().sum()
    }

    async fn answer(self, request: Bytes) -> (StatusCode, String) {
        let request: serde_json::Value = serde_json::from_slice(&request).expect("JSON");
        let prompt = request["messages"][0]["content"].as_str().expect("a prompt").to_owned();
        let nth = {
            let mut calls = self.calls();
            let calls = calls.entry(prompt.clone()).or_default();
            *calls += 1;
            *calls
        };
        match prompt.as_str() {
            "overload" if nth == 1 => (StatusCode::TOO_MANY_REQUESTS, "busy".into()),
            "essay" => {
                tokio::time::sleep(Duration::from_millis(4_500)).await;
                (StatusCode::OK, "an essay".into())
            }
            _ => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                (StatusCode::OK, format!("{{\"answer\":\"{prompt}\",\"nonce\":{}}}", fastrand::u64(..)))
            }
        }
    }

    /// Listens on loopback. Returns its address.
    fn serve(&self, runtime: &Runtime) -> String {
        let (model, listener) = (self.clone(), runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")));
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("the address that was bound");
        let answer = move |request: Bytes| model.clone().answer(request);
        let routes = Router::new().route("/v1/chat/completions", routed_post(answer));
        runtime.spawn(async move { axum::serve(listener, routes).await });
        format!("http://{address}/v1/chat/completions")
    }
}

fn start(directory: &Directory, model: String, seed: u64) -> (Consumer, String) {
    let (port, log) = (free_port(), directory.path().join("cache.log"));
    let arguments = vec![format!("127.0.0.1:{port}"), model, directory.file("answers.db")];
    let cache = Consumer::start(env!("CARGO_BIN_EXE_llm_cache"), arguments, &log, seed);
    await_port(port, &log);
    (cache, format!("http://127.0.0.1:{port}/v1/chat/completions"))
}

/// Returns the same call, written in two ways.
fn call(prompt: &str, way: usize) -> String {
    match way % 2 {
        0 => format!(r#"{{"model":"m","temperature":0,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#),
        _ => format!(
            r#"{{ "messages": [{{"content": "{prompt}", "role": "user"}}], "temperature": 0.0, "model": "m" }}"#
        ),
    }
}

#[test]
fn each_prompt_is_paid_for_once_however_often_it_is_asked() {
    let (directory, seed, runtime) = (Directory::new("llm"), seed("llm_cache"), Runtime::new().expect("a runtime"));
    let model = Model::default();
    let (mut cache, url) = start(&directory, model.serve(&runtime), seed);
    let prompts: Vec<String> = (0..PROMPTS).map(|number| format!("prompt {number}")).collect();

    let client = client();
    let clients = (0..CLIENTS).map(|number| {
        let own: Vec<String> = prompts.iter().skip(number / 2).step_by(CLIENTS / 2).cloned().collect();
        let (client, url) = (client.clone(), url.clone());
        runtime.spawn(async move {
            let mut answers = Vec::new();
            for prompt in own {
                let answer = post_until_done(&client, &url, &[], &call(&prompt, number)).await;
                answers.push((prompt, String::from_utf8(answer).expect("text")));
            }
            answers
        })
    });
    let clients: Vec<_> = clients.collect();
    cache.kill_at_random(KILLS, PROMPTS, || model.number());

    let mut answers = BTreeMap::new();
    for client in clients {
        for (prompt, answer) in runtime.block_on(client).expect("a client that got all its answers") {
            assert!(answer.contains(&format!("\"{prompt}\"")), "{prompt}: {answer}");
            // The model's answer differs each time, so callers with the same answer got the kept
            // one.
            assert_eq!(*answers.entry(prompt).or_insert_with(|| answer.clone()), answer);
        }
    }
    check_effects("llm_cache", &prompts, &model.calls(), cache.kills, CLIENTS);
}

#[test]
fn a_long_call_is_made_once_and_a_failed_one_again() {
    let (directory, runtime, model) =
        (Directory::new("llm-long"), Runtime::new().expect("a runtime"), Model::default());
    let (_cache, url) = start(&directory, model.serve(&runtime), 0);
    let client = client();
    let asked = |body: String| {
        let (client, url) = (client.clone(), url.clone());
        runtime.spawn(async move { post(&client, &url, &[], &body).await.expect("an answer") })
    };
    // It takes longer than a lease, which is renewed; the other one waits.
    let essays = [asked(call("essay", 0)), asked(call("essay", 1))];
    for essay in essays {
        assert_eq!(runtime.block_on(essay).expect("an answer"), (200, b"an essay".to_vec()));
    }
    assert_eq!(model.calls()["essay"], 1);

    assert_eq!(runtime.block_on(asked(call("overload", 0))).expect("an answer").0, 502);
    assert_eq!(runtime.block_on(asked(call("overload", 0))).expect("an answer").0, 200);
    assert_eq!(model.calls()["overload"], 2);
    assert_eq!(runtime.block_on(asked("{}".into())).expect("an answer").0, 400);
}
