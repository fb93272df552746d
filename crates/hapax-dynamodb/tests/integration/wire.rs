//! An HTTP client that fails when it is told to, over one that works.

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A fault of one request.
#[derive(Clone, Debug)]
pub enum Fault {
    Passes,
    /// The service refuses it, by this code and status, and does nothing.
    Refused(&'static str, u16),
    /// The service carries it out; the answer is lost with the connection.
    AnswerLost,
    /// The service carries it out, and reports an error of its own.
    AnswerBroken,
    /// The connection breaks; the service carries it out all the same, when it is told to.
    Late,
    /// Nothing ever comes back. The service has not got it.
    Silence,
    /// A batch of look-ups: all but this many keys are left out. The first ones are not found.
    LeftOut(usize),
}

#[derive(Default)]
struct State {
    /// The faults of the next requests for items.
    faults: VecDeque<Fault>,
    /// The fault of all further ones.
    then: Option<Fault>,
    /// The operations so far.
    asked: Vec<String>,
    under_way: usize,
    under_way_max: usize,
    /// Requests that the service has yet to carry out.
    late: Vec<HttpConnectorFuture>,
}

/// The wire. Clones are the same one.
#[derive(Clone)]
pub struct Wire {
    state: Arc<Mutex<State>>,
    inner: SharedHttpClient,
}

impl Wire {
    pub fn new() -> Self {
        Wire { state: Arc::default(), inner: aws_smithy_http_client::Builder::new().build_http() }
    }

    /// Sets the faults of the next requests.
    pub fn fails(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state.lock().unwrap().faults.extend(faults);
    }

    /// Sets the fault of all requests from now on.
    pub fn always(&self, fault: Fault) {
        self.state.lock().unwrap().then = Some(fault);
    }

    /// Forgets faults and counts, and returns the operations so far.
    pub fn forget_all(&self) -> Vec<String> {
        std::mem::take(&mut *self.state.lock().unwrap()).asked
    }

    /// Has the service carry out what has come late. Returns the status of each answer.
    pub async fn late_ones_arrive(&self) -> Vec<u16> {
        let late = std::mem::take(&mut self.state.lock().unwrap().late);
        let mut answers = Vec::new();
        for request in late {
            answers.push(request.await.expect("an answer").status().as_u16());
        }
        answers
    }

    pub fn under_way_max(&self) -> usize {
        self.state.lock().unwrap().under_way_max
    }

    /// Counts a request, and returns its fault.
    fn begins(&self, request: &HttpRequest) -> Fault {
        let mut state = self.state.lock().unwrap();
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        state.asked.push(target.rsplit('.').next().unwrap_or_default().to_owned());
        state.under_way += 1;
        state.under_way_max = state.under_way_max.max(state.under_way);
        state.faults.pop_front().or_else(|| state.then.clone()).unwrap_or(Fault::Passes)
    }
}

/// A request under way.
struct UnderWay(Arc<Mutex<State>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.lock().unwrap();
        state.under_way = state.under_way.saturating_sub(1);
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl HttpClient for Wire {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(Connector {
            wire: self.clone(),
            inner: self.inner.http_connector(settings, components),
        })
    }
}

#[derive(Debug)]
struct Connector {
    wire: Wire,
    inner: SharedHttpConnector,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let fault = self.wire.begins(&request);
        let under_way = UnderWay(Arc::clone(&self.wire.state));
        let inner = self.inner.clone();
        if let Fault::Late = fault {
            self.wire.state.lock().unwrap().late.push(inner.call(request));
            return HttpConnectorFuture::ready(Err(ConnectorError::io("the connection was reset".into())));
        }
        HttpConnectorFuture::new(async move {
            let _under_way = under_way;
            match fault {
                Fault::Passes => inner.call(request).await,
                Fault::Refused(code, status) => Ok(answer(status, &format!("{{\"__type\":\"com.amazonaws#{code}\"}}"))),
                Fault::Late => unreachable!("it is put aside above"),
                Fault::AnswerLost => {
                    inner.call(request).await?;
                    Err(ConnectorError::io("the connection was reset".into()))
                }
                Fault::AnswerBroken => {
                    inner.call(request).await?;
                    Ok(answer(500, r#"{"__type":"com.amazonaws#InternalServerError"}"#))
                }
                Fault::Silence => {
                    tokio::time::sleep(Duration::from_secs(3_600)).await;
                    Err(ConnectorError::timeout("nothing".into()))
                }
                Fault::LeftOut(but) => Ok(answer(200, &left_out(&request, but))),
            }
        })
    }
}

fn answer(status: u16, body: &str) -> HttpResponse {
    HttpResponse::new(status.try_into().unwrap(), body.to_owned().into())
}

/// Answers a batch of look-ups: the first keys are not there, the others are left out.
fn left_out(request: &HttpRequest, but: usize) -> String {
    let body: serde_json::Value = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
    let mut asked = body["RequestItems"].clone();
    for table in asked.as_object_mut().unwrap().values_mut() {
        let keys = table["Keys"].as_array_mut().unwrap();
        *keys = keys.split_off(but.min(keys.len()));
    }
    serde_json::json!({ "Responses": {}, "UnprocessedKeys": asked }).to_string()
}
