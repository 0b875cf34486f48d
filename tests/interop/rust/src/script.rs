//! The script: read and checked as a whole before anything is done.
use std::collections::HashMap;
use std::path::Path;

/// Keys of each verb, all of them needed.
const VERBS: &[(&str, &[&str])] = &[
    ("decode", &["message", "facts"]),
    ("create", &["queue", "type"]),
    ("send", &["queue", "count"]),
    ("stream", &["queue", "count", "batch"]),
    ("browse", &["queue", "first", "count"]),
    ("receive", &["queue", "count"]),
    ("settle", &["queue"]),
    ("consume", &["queue", "count"]),
    ("reply", &["queue"]),
    ("answers", &["queue", "count"]),
    ("expect", &["queue", "length"]),
    ("kill", &[]),
    ("handoff", &[]),
    ("await", &[]),
];
const NUMBERS: &[&str] = &["count", "batch", "first", "length"];
const CHOICES: &[(&str, &[&str])] = &[
    ("type", &["queued_ack", "two_way"]),
    ("message", &["EnqueueRequest", "DequeueResponse", "ProduceResponse"]),
];

pub struct Step {
    pub at: String,
    pub verb: String,
    pub text: HashMap<String, String>,
}

impl Step {
    pub fn get(&self, key: &str) -> &str {
        self.text.get(key).map_or("", String::as_str)
    }

    pub fn number(&self, key: &str) -> u64 {
        self.get(key).parse().unwrap_or(0)
    }
}

pub fn parse(path: &Path) -> Result<Vec<Step>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let content = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let mut steps = Vec::new();
    for (i, line) in content.lines().enumerate() {
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        if let Some(verb) = words.next() {
            let at = format!("{name}:{}", i + 1);
            let text = values(verb, words).map_err(|error| format!("{at}: {error}"))?;
            steps.push(Step { at, verb: verb.into(), text });
        }
    }
    Ok(steps)
}

fn values<'a>(verb: &str, words: impl Iterator<Item = &'a str>) -> Result<HashMap<String, String>, String> {
    let Some((_, keys)) = VERBS.iter().find(|(name, _)| *name == verb) else {
        return Err(format!("unknown verb {verb}"));
    };
    let mut text = HashMap::new();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if key.is_empty() || value.is_empty() {
            return Err(format!("{word} is not key=value"));
        } else if !keys.contains(&key) {
            return Err(format!("{verb} has no {key}="));
        } else if NUMBERS.contains(&key) && (value.len() > 7 || !value.bytes().all(|b| b.is_ascii_digit())) {
            return Err(format!("{word} is not a number"));
        } else if let Some((_, known)) = CHOICES.iter().find(|(name, known)| *name == key && !known.contains(&value)) {
            return Err(format!("{word} is none of {}", known.join(", ")));
        } else if text.insert(key.to_string(), value.to_string()).is_some() {
            return Err(format!("{key}= is given twice"));
        }
    }
    match keys.iter().find(|key| !text.contains_key(**key)) {
        Some(missing) => Err(format!("{verb} needs {missing}=")),
        None => Ok(text),
    }
}
