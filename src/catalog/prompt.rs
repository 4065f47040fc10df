//! The arguments of a prompt: what its definition declares, and what is wrong with those that
//! were given. A definition is the only word on them, so one that it does not declare is as wrong
//! as one that is missing. Called by the command line.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::items::Item;
use super::merge::closest;
use super::violation::{VIOLATIONS_MAX, Violation};

/// One argument that a prompt declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Whether the prompt can't be filled in without it.
    pub required: bool,
}

/// The declared arguments, in their order; a declaration without a name is left out.
pub fn arguments(item: &Item) -> Vec<PromptArgument> {
    let definition: Value = serde_json::from_slice(&item.raw).unwrap_or_default();
    let declared = definition.get("arguments").and_then(Value::as_array);
    let one = |argument: &Value| {
        let name = argument.get("name")?.as_str()?.to_owned();
        Some(PromptArgument { name, required: argument.get("required") == Some(&Value::Bool(true)) })
    };
    declared.into_iter().flatten().filter_map(one).collect()
}

/// What is wrong with the arguments that were given: missing ones first, at most `VIOLATIONS_MAX`.
/// Values are never repeated.
pub fn check(declared: &[PromptArgument], given: &Map<String, Value>) -> Vec<Violation> {
    let names: BTreeSet<&str> = declared.iter().map(|argument| argument.name.as_str()).collect();
    let missing = declared
        .iter()
        .filter(|argument| argument.required && !given.contains_key(&argument.name))
        .map(|argument| Violation { path: argument.name.clone(), message: "is required".to_owned() });
    let unknown = given.keys().filter(|name| !names.contains(name.as_str())).map(|name| {
        let near = closest(name, names.iter().map(|known| (*known, *known)), 1);
        let hint = match near.first() {
            Some(near) => format!("did you mean {near:?}?"),
            None if names.is_empty() => "the prompt takes no arguments".to_owned(),
            None => format!("known: {}", names.iter().copied().collect::<Vec<_>>().join(", ")),
        };
        Violation { path: name.clone(), message: format!("is unknown; {hint}") }
    });
    missing.chain(unknown).take(VIOLATIONS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn declared(names: &[(&str, bool)]) -> Vec<PromptArgument> {
        names
            .iter()
            .map(|(name, required)| PromptArgument { name: (*name).to_owned(), required: *required })
            .collect()
    }

    fn told(names: &[(&str, bool)], given: Value) -> Vec<String> {
        check(&declared(names), given.as_object().unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn missing_and_unknown_arguments_are_named_with_the_right_spelling() {
        let prompt = [("topic", true), ("tone", false)];
        assert!(told(&prompt, json!({"topic": "x"})).is_empty());
        assert_eq!(told(&prompt, json!({})), ["topic: is required"]);
        assert_eq!(
            told(&prompt, json!({"topci": "x"})),
            ["topic: is required", "topci: is unknown; did you mean \"topic\"?"]
        );
        assert_eq!(told(&prompt, json!({"topic": "x", "zzz": "y"})), ["zzz: is unknown; known: tone, topic"]);
        assert_eq!(told(&[], json!({"a": "b"})), ["a: is unknown; the prompt takes no arguments"]);
    }

    proptest! {
        /// Accepted is exactly what has every required argument and no undeclared one.
        #[test]
        fn accepted_is_what_the_definition_declares(
            prompt in proptest::collection::btree_map("[a-e]", any::<bool>(), 0..5),
            given in proptest::collection::btree_set("[a-e]", 0..5),
        ) {
            let list: Vec<PromptArgument> =
                prompt.iter().map(|(name, required)| PromptArgument { name: name.clone(), required: *required }).collect();
            let map: Map<String, Value> = given.iter().map(|name| (name.clone(), json!("v"))).collect();
            let fits = prompt.iter().all(|(name, required)| !required || given.contains(name))
                && given.iter().all(|name| prompt.contains_key(name));
            prop_assert_eq!(check(&list, &map).is_empty(), fits);
        }
    }
}
