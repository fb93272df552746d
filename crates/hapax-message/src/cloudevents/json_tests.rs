use super::*;
use crate::cloudevents;
use crate::described::Described;
use proptest::prelude::*;

const REQUIRED: &str = r#""specversion":"1.0","id":"17","source":"/orders","type":"order.placed""#;

fn read(members: &str) -> Result<Event, EventError> {
    Event::from_json(format!("{{{REQUIRED}{members}}}").as_bytes())
}

#[test]
fn the_examples_of_the_specification_are_read() {
    let example = |data: &str| {
        let attributes = r#"{"specversion":"1.0","type":"com.example.someevent","source":"/mycontext","subject":null,
            "id":"C234-1234-1234","time":"2018-04-05T17:31:00Z","comexampleextension1":"value",
            "comexampleothervalue":5,"unsetextension":null"#;
        Event::from_json(format!("{attributes},{data}}}").as_bytes()).unwrap()
    };
    let event = example(r#""datacontenttype":"application/json","data":{ "appinfoA" : "abc" }"#);
    assert_eq!(event.id().as_deref(), Some(cloudevents::id("/mycontext", "C234-1234-1234").as_ref()));
    assert_eq!((event.subject(), event.time()), (None, Some("2018-04-05T17:31:00Z")));
    let extensions: Vec<_> = event.extensions().collect();
    assert_eq!(
        extensions,
        [("comexampleextension1", &Extension::from("value")), ("comexampleothervalue", &Extension::from(5))]
    );
    assert_eq!(event.payload(), br#"{ "appinfoA" : "abc" }"#, "as it was written");
    let event = example(r#""datacontenttype":"application/xml","data":"<much wow=\"xml\"/>""#);
    assert_eq!(event.payload(), br#"<much wow="xml"/>"#);
    let event = example(r#""data":"I'm just a string""#);
    assert_eq!((event.payload(), event.content_type()), (&br#""I'm just a string""#[..], Some("application/json")));
    let event = example(r#""datacontenttype":"application/octet-stream","data_base64":"AP8=""#);
    assert_eq!(event.payload(), [0, 255]);
}

#[test]
fn no_data_are_not_null() {
    assert_eq!(read("").unwrap().data(), None);
    assert_eq!(read(r#","data_base64":null"#).unwrap().data(), None);
    assert_eq!(read(r#","data":null"#).unwrap().data(), Some(&b"null"[..]));
    assert_eq!(read(r#","data_base64":"""#).unwrap().data(), Some(&[][..]));
}

#[test]
fn numbers_are_not_changed() {
    let event = read(r#","data":{"n":12345678901234567890.10}"#).unwrap();
    assert_eq!(event.payload(), br#"{"n":12345678901234567890.10}"#);
    assert_eq!(Event::from_json(&event.to_json()), Ok(event));
}

#[test]
fn errors_name_the_attribute() {
    for missing in ["specversion", "id", "source", "type"] {
        for value in ["", r#""NAME":null,"#, r#""NAME":"","#] {
            let members = REQUIRED.split(',').filter(|member| !member.starts_with(&format!("\"{missing}\"")));
            let rest: Vec<&str> = members.collect();
            let body = format!("{{{}{}}}", value.replace("NAME", missing), rest.join(","));
            assert_eq!(Event::from_json(body.as_bytes()), Err(EventError::Missing { attribute: missing }), "{body}");
        }
    }
    let wrong = [
        (r#","id":"18""#, "id"),
        (r#","subject":"""#, "subject"),
        (r#","subject":5"#, "subject"),
        (r#","time":"now""#, "time"),
        (r#","Extension":"x""#, "Extension"),
        (r#","number":1.5"#, "number"),
        (r#","number":2147483648"#, "number"),
        (r#","object":{}"#, "object"),
        (r#","text":"a\u0000b""#, "text"),
        (r#","text":"\ud800""#, "text"),
        (r#","data":1,"data_base64":"AA==""#, "data"),
        (r#","datacontenttype":"text/plain","data":1"#, "data"),
        (r#","data_base64":"A""#, "data_base64"),
        (r#","data_base64":1"#, "data_base64"),
        (r#","data":1,"data":2"#, "data"),
    ];
    for (members, attribute) in wrong {
        let error = read(members).expect_err(members);
        assert_eq!(error.attribute(), Some(attribute), "{members}: {error}");
    }
    for body in ["", "[]", "null", "{", "\u{feff}{}", r#"{"id":}"#] {
        assert!(matches!(Event::from_json(body.as_bytes()), Err(EventError::Json { .. })), "{body}");
    }
    assert!(matches!(Event::from_json(b"{\"id\":\"\xff\"}"), Err(EventError::Json { .. })));
}

#[test]
fn deep_and_long_bodies_are_read_without_harm() {
    let deep = "[".repeat(100_000);
    assert!(read(&format!(r#","data":{deep}"#)).is_err());
    let nested = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    // (Whatever the answer is: it is no overflow of the stack.)
    let _ = read(&format!(r#","data":{nested}"#));
    let quoted = format!("\"{}\"", "x".repeat(100_000));
    for error in [Event::from_json(quoted.as_bytes()).err(), Event::batch_from_json(quoted.as_bytes()).err()] {
        let error = error.unwrap().to_string();
        assert!(error.contains("invalid type: string") && error.len() < 400, "{} characters", error.len());
    }
    let error = read(&format!(r#","time":"{}""#, "x".repeat(100_000))).unwrap_err();
    assert!(error.to_string().len() < 300);
}

#[test]
fn batches_are_written_and_read() {
    let events = [read("").unwrap(), read(r#","data":[1]"#).unwrap()];
    assert_eq!(Event::batch_from_json(&Event::batch_to_json(&events)).as_deref(), Ok(&events[..]));
    assert_eq!(Event::batch_from_json(b"[]"), Ok(vec![]));
    assert!(matches!(Event::batch_from_json(b"{}"), Err(EventError::Json { .. })));
    let error = Event::batch_from_json(br#"[{"specversion":"1.0"}]"#).unwrap_err();
    assert_eq!(error.attribute(), Some("id"));
}

#[test]
fn the_mode_is_that_of_the_content_type() {
    struct Message(&'static str);

    impl Described for Message {
        fn header(&self, name: &str) -> Option<&str> {
            (name == "content-type").then_some(self.0)
        }

        fn payload(&self) -> &[u8] {
            br#"{"specversion":"1.0","id":"17","source":"/orders","type":"t"}"#
        }
    }

    assert!(Event::of(&Message("application/CloudEvents+json; charset=UTF-8")).is_ok());
    assert!(matches!(Event::of(&Message(Event::BATCH_CONTENT_TYPE)), Err(EventError::Format { .. })));
    assert_eq!(Event::of(&Message("application/json")), Err(EventError::Missing { attribute: "specversion" }));
}

fn data() -> impl Strategy<Value = (String, Vec<u8>)> {
    const TYPES: [&str; 5] =
        ["application/json", "text/plain", "application/xml", "application/octet-stream", "a/b+json"];
    let bytes = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "\\PC{0,20}".prop_map(String::into_bytes),
        "[ \\[\\]{}\":,0-9a]{0,12}".prop_map(String::into_bytes),
        Just(b"{\"a\": [1, 2.50, null]}".to_vec()),
        Just(b" {} ".to_vec()),
    ];
    (proptest::sample::select(&TYPES[..]).prop_map(str::to_owned), bytes)
}

proptest! {
    #[test]
    fn any_event_is_read_as_it_was_written(
        texts in proptest::collection::vec("[^\\p{C}]{1,12}", 4),
        (content_type, data) in data(),
        number: i32,
        boolean: bool,
    ) {
        let [id, source, kind, text] = texts.try_into().unwrap();
        let event = Event::new(id, source, kind).unwrap().with_data(content_type, data).unwrap();
        let event = event.with_extension("number", number).unwrap().with_extension("boolean", boolean).unwrap();
        let event = event.with_extension("text", text).unwrap();
        prop_assert_eq!(Event::from_json(&event.to_json()), Ok(event));
    }

    #[test]
    fn any_body_is_an_event_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Event::from_json(&body);
        let _ = Event::batch_from_json(&body);
    }

    #[test]
    fn any_members_are_an_event_or_an_error(members in "(,\"(id|data|time|data_base64|x)\":(null|1|\"[a-zA=]{0,4}\"|\\{\\})){0,4}") {
        if let Ok(event) = read(&members) {
            prop_assert_eq!(Event::from_json(&event.to_json()), Ok(event));
        }
    }
}
