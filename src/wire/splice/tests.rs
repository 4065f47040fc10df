use super::*;

fn splice<'a>(params: &'a Bytes, meta: &'a MetaRewrite) -> RequestSplice<'a> {
    RequestSplice {
        id: 7,
        method: "tools/call",
        params,
        name: Some(("name", "echo")),
        arguments_default: true,
        progress: true,
        meta,
    }
}

fn legacy(params: &str) -> String {
    let params = Bytes::copy_from_slice(params.as_bytes());
    let parts = request(&splice(&params, &MetaRewrite::Legacy)).unwrap();
    String::from_utf8(parts.to_bytes().to_vec()).unwrap()
}

const HEAD: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"#;

#[test]
fn a_call_gets_our_id_name_token_and_arguments() {
    for (params, expected) in [
        ("", r#"{"name":"echo","arguments":{},"_meta":{"progressToken":7}}"#),
        ("{ }", r#"{"name":"echo","arguments":{},"_meta":{"progressToken":7} }"#),
        (
            r#"{"name":"x__echo","arguments":{"a": 1.10}}"#,
            r#"{"name":"echo","arguments":{"a": 1.10},"_meta":{"progressToken":7}}"#,
        ),
        (
            r#"{"_meta":{"progressToken":"abc","k":1},"arguments":null,"x":[ ],"name":5}"#,
            r#"{"_meta":{"progressToken":7,"k":1},"arguments":null,"x":[ ],"name":"echo"}"#,
        ),
        (
            r#"{"n\u0061me":"evil","name":"y","arguments":{}, "name":"z" , "_meta":{}}"#,
            r#"{"arguments":{}, "name":"echo" , "_meta":{"progressToken":7}}"#,
        ),
        (
            r#"{"_meta":{"a":1},"arguments":1,"_meta":{"b":2},"arguments":2,"name":"q"}"#,
            r#"{"_meta":{"b":2,"progressToken":7},"arguments":2,"name":"echo"}"#,
        ),
        (
            "{\"name\":\"a\",\n\r\t\"arguments\":\n{}}",
            "{\"name\":\"echo\",  \t\"arguments\": {},\"_meta\":{\"progressToken\":7}}",
        ),
    ] {
        assert_eq!(legacy(params), format!("{HEAD}{expected}}}"), "{params}");
    }
}
