//! Floor 5. What would become of each server of a client's file in our own: the plan that
//! `mcp import` and `install` show and carry out. Writes nothing before `carry_out`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use super::client_args::Secrets;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::{ask, text::quoted};
use crate::clients::client::{Client, Places};
use crate::clients::document::{self, Document, Fault, Found};
use crate::clients::map::{Mapped, env_lines, map};
use crate::clients::ours::is_ours;
use crate::clients::variables::Surroundings;
use crate::config::edit::{Edit, Target, apply, check};
use crate::config::expand::is_secret_name;
use crate::config::literal::credentials;
use crate::config::merge::check_name;
use crate::config::secret_store;
use crate::config::spec::{SecretText, Severity};
use crate::id::shell_word;
use crate::shaping::redact::Redactor;
use crate::store::{self, FILE_BYTES_MAX, StoreError};

/// How names that are taken are dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// The server stays out.
    Tell,
    /// It gets another name.
    Rename,
    /// It takes the place of the other.
    Overwrite,
}

/// What becomes of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is added.
    Added,
    /// It takes the place of another.
    Replaced,
    /// The same is there already.
    Same,
    /// Another one has the name.
    Clash,
    /// It can't run here.
    Impossible,
    /// It is Callboard itself.
    Ourselves,
}

impl State {
    /// Whether Callboard has the server afterwards.
    pub fn is_here(self) -> bool {
        matches!(self, Self::Added | Self::Replaced | Self::Same)
    }
}

/// One server of the plan. `Debug` is not offered: literals may be secret.
#[derive(Clone)]
pub struct Planned {
    /// As the client has it.
    pub found: Found,
    /// Its name here.
    pub name: String,
    /// What becomes of it.
    pub state: State,
    /// Its entry here.
    pub entry: Map<String, Value>,
    /// What was written differently.
    pub notes: Vec<String>,
    /// What has no counterpart, or why it stays out.
    pub lost: Vec<String>,
    /// Credentials that are stored apart.
    pub secrets: Vec<(String, SecretText)>,
    /// Secrets that the entry reads, and that nobody has stored.
    pub missing: Vec<String>,
}

/// The file of a client, read.
pub struct ClientFile {
    /// The client.
    pub client: Client,
    /// Its path.
    pub path: PathBuf,
    /// Its text; `None` when there is no file.
    pub text: Option<String>,
    /// Its servers.
    pub document: Document,
}

/// The folders of this user.
pub fn places(ctx: &Ctx) -> Result<Places, Failure> {
    let env = &ctx.options.env;
    let absolute = |name: &str| env.get_nonempty(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("HOME").or_else(|| absolute("USERPROFILE")).ok_or_else(|| {
        Failure::config("the files of other clients are in your home, and HOME is not set")
            .fix("set HOME, or name the file with --from")
    })?;
    let config = absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    let application = if cfg!(target_os = "macos") {
        home.join("Library").join("Application Support")
    } else if cfg!(windows) {
        absolute("APPDATA").unwrap_or_else(|| home.join("AppData").join("Roaming"))
    } else {
        config.clone()
    };
    Ok(Places {
        home,
        config,
        application,
        claude: absolute("CLAUDE_CONFIG_DIR"),
        codex: absolute("CODEX_HOME"),
    })
}

/// The path of a client's file.
pub fn locate(ctx: &Ctx, client: Client, project: bool) -> Result<PathBuf, Failure> {
    if !project {
        return Ok(client.user_file(&places(ctx)?));
    }
    client.project_file(&ctx.loaded.project_root).ok_or_else(|| {
        Failure::usage(format!("{} has no file in projects", client.title())).fix("leave --project out")
    })
}

/// Reads a client's file.
pub fn read(ctx: &Ctx, client: Client, path: PathBuf) -> Result<ClientFile, Failure> {
    let text = store::read_text(&path, FILE_BYTES_MAX).map_err(|e| unreadable(&e))?;
    let root = ctx.loaded.project_root.to_string_lossy();
    let document = document::read(client, text.as_deref().unwrap_or_default(), &root);
    let document = document.map_err(|fault| broken(&path, &fault))?;
    Ok(ClientFile { client, path, text, document })
}

/// A file that can't be read or written.
pub fn unreadable(error: &StoreError) -> Failure {
    Failure::io(Exit::Config, error.to_string())
        .fix("check the path and its permissions; nothing was changed")
}

/// A file whose text can't be read or changed.
pub fn broken(path: &Path, fault: &Fault) -> Failure {
    let place = fault.position.map_or_else(String::new, |(line, column)| format!(":{line}:{column}"));
    Failure::config(format!("{}{place}: {}", path.display(), fault.message))
        .fix("repair the file at that place; nothing was changed")
}

/// A client that this user does not have.
pub fn no_client(client: Client, looked_at: &Path) -> Failure {
    Failure::new(
        "no_client",
        Exit::NotFound,
        format!("{} is not here: there is no {}", client.title(), looked_at.display()),
    )
    .fix("start the client once, or name its file: `callboard mcp import CLIENT --from FILE`")
}

/// What a plan is made with.
pub struct Planner<'a> {
    ctx: &'a Ctx,
    client: Client,
    target: &'a Target,
    clash: Clash,
    secrets: Secrets,
    taken: Vec<(String, Value)>,
    stored: std::collections::BTreeMap<String, SecretText>,
    now: Vec<(String, SecretText)>,
}

impl<'a> Planner<'a> {
    /// For servers of a client that go into `target`.
    pub fn new(
        ctx: &'a Ctx,
        client: Client,
        target: &'a Target,
        clash: Clash,
        secrets: Secrets,
    ) -> Result<Self, Failure> {
        let path = target.path();
        let here = ctx.loaded.definitions.iter().filter(|d| Path::new(&*d.source.origin) == path);
        let taken = here.map(|d| (d.name.clone(), d.value.clone())).collect();
        let stored = secret_store::read(ctx.home()?)
            .map_err(|e| Failure::io(Exit::Config, format!("the stored secrets can't be read: {e}")))?;
        Ok(Self { ctx, client, target, clash, secrets, taken, stored, now: Vec::new() })
    }

    /// The plan for one server after the other.
    pub fn plan(&mut self, found: &[Found]) -> Vec<Planned> {
        found.iter().map(|one| self.one(one)).collect()
    }

    fn one(&mut self, found: &Found) -> Planned {
        let mut planned = Planned {
            found: found.clone(),
            name: found.name.clone(),
            state: State::Ourselves,
            entry: Map::new(),
            notes: Vec::new(),
            lost: Vec::new(),
            secrets: Vec::new(),
            missing: Vec::new(),
        };
        if is_ours(&found.value) {
            return planned;
        }
        planned.state = State::Impossible;
        let workspace = self.ctx.loaded.project_root.to_string_lossy();
        let at = Surroundings { client: self.client, workspace: &workspace };
        match map(&at, &found.value).and_then(|mapped| self.with_env_file(mapped)) {
            Ok(mapped) => self.fit(&mut planned, mapped),
            Err(why) => planned.lost.push(why),
        }
        planned
    }

    /// Variables of a file become those of the entry; its own win.
    fn with_env_file(&self, mut mapped: Mapped) -> Result<Mapped, String> {
        let Some(file) = mapped.env_file.take() else { return Ok(mapped) };
        let home = self.ctx.options.env.get("HOME").unwrap_or_default();
        let path = self.ctx.loaded.project_root.join(file.replace("${HOME}", home).replace("$$", "$"));
        let text = store::read_text(&path, FILE_BYTES_MAX).map_err(|e| format!("envFile: {e}"))?;
        let text = text.ok_or_else(|| format!("envFile: there is no {}", path.display()))?;
        let own = mapped.entry.remove("env").and_then(|env| env.as_object().cloned()).unwrap_or_default();
        let mut env: Map<String, Value> =
            env_lines(&text).into_iter().map(|(name, value)| (name, Value::from(value))).collect();
        env.extend(own);
        mapped.notes.push(format!("the variables of {} are written out in env", path.display()));
        mapped.entry.insert("env".to_owned(), Value::Object(env));
        Ok(mapped)
    }

    fn fit(&mut self, planned: &mut Planned, mapped: Mapped) {
        planned.notes = mapped.notes;
        planned.lost = mapped.lost;
        planned.entry = mapped.entry;
        if check_name(&planned.name).is_err() {
            planned.name = usable(&planned.name);
            planned.notes.push(format!("its name can't be used here; it is called {} now", planned.name));
        }
        let issues = check(self.target, &planned.name, &planned.entry);
        if let Some(error) = issues.iter().find(|issue| issue.severity == Severity::Error) {
            planned.lost.insert(0, format!("it could not start here: {}", error.message));
            return;
        }
        let whole = planned.entry.clone();
        self.credentials(planned);
        planned.missing = mapped.inputs.into_iter().filter(|name| !self.stored.contains_key(name)).collect();
        let same = |value: &Value| value.as_object().is_some_and(|v| *v == planned.entry || *v == whole);
        if let Some((name, _)) = self.taken.iter().find(|(_, value)| same(value)) {
            planned.name.clone_from(name);
            planned.state = State::Same;
            planned.secrets.clear();
            return;
        }
        let is_taken = |name: &str| self.taken.iter().any(|(taken, _)| taken == name);
        planned.state = match (is_taken(&planned.name), self.clash) {
            (false, _) => State::Added,
            (true, Clash::Overwrite) => State::Replaced,
            (true, Clash::Tell) => {
                planned.lost.insert(0, "another server has that name here".into());
                planned.secrets.clear();
                State::Clash
            }
            (true, Clash::Rename) => {
                let free = (2..).map(|n| format!("{}-{n}", planned.name)).find(|name| !is_taken(name));
                planned.name = free.unwrap_or_default();
                State::Added
            }
        };
        if planned.state.is_here() {
            self.taken.push((planned.name.clone(), Value::Object(planned.entry.clone())));
        }
    }

    /// Credentials in clear: stored apart, or told.
    fn credentials(&mut self, planned: &mut Planned) {
        let forms = Redactor::default();
        for path in credentials(&planned.entry, &|text| forms.text(text) != text) {
            let parts = path.split_once('.').filter(|(key, _)| matches!(*key, "env" | "headers"));
            let value =
                parts.and_then(|(key, name)| planned.entry.get(key)?.get(name)?.as_str().map(str::to_owned));
            let (Some((key, name)), Some(value), Secrets::Store) = (parts, value, self.secrets) else {
                planned.notes.push(match parts {
                    Some(_) => format!("{path} looks like a credential and is kept in clear; `--secrets store` keeps it apart"),
                    None => format!("{path} looks like a credential and is kept in clear; write ${{VAR}} or ${{secret:NAME}} in its place"),
                });
                continue;
            };
            let scheme = ["Bearer ", "Basic ", "token "].iter().find(|scheme| value.starts_with(**scheme));
            let scheme = scheme.copied().unwrap_or_default();
            let secret = SecretText::new(value[scheme.len()..].replace("$$", "$"));
            let stored = self.secret_name(&planned.name, key, name, &secret);
            if let Some(Value::Object(map)) = planned.entry.get_mut(key) {
                map.insert(name.to_owned(), format!("{scheme}${{secret:{stored}}}").into());
            }
            planned.notes.push(format!("{path} is stored apart as ${{secret:{stored}}}"));
            planned.secrets.push((stored, secret));
        }
    }

    /// A name that is free, or has this very value.
    fn secret_name(&mut self, server: &str, key: &str, name: &str, secret: &SecretText) -> String {
        let long = format!("{server}.{name}");
        let first = if key == "env" { vec![name.to_owned(), long.clone()] } else { vec![long.clone()] };
        let numbered = (2..).map(|n| format!("secret.{n}"));
        let fits = |candidate: &String| {
            let known = self.now.iter().rev().find(|(n, _)| n == candidate).map(|(_, value)| value);
            is_secret_name(candidate)
                && known.or_else(|| self.stored.get(candidate)).is_none_or(|v| v == secret)
        };
        let chosen = first.into_iter().chain(numbered).find(fits).unwrap_or(long);
        self.now.push((chosen.clone(), secret.clone()));
        chosen
    }
}

/// A name with everything left out that no name can have.
fn usable(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = name.trim().chars().map(plain).take(64).collect();
    let name = name.trim_matches('-').to_owned();
    if name.is_empty() { "server".to_owned() } else { name }
}

/// Writes what the plan says: secrets first, so that no entry waits for one. Names of what was
/// stored are returned. Asks for missing secrets where somebody can answer.
pub fn carry_out(ctx: &Ctx, target: &Target, plan: &[Planned]) -> Result<(), Failure> {
    let home = ctx.home()?;
    let keep = |name: &str, value: &SecretText| {
        secret_store::set(home, name, value)
            .map_err(|e| Failure::io(Exit::Config, format!("the secret {name} was not stored: {e}")))
    };
    let written = |one: &&Planned| matches!(one.state, State::Added | State::Replaced);
    let mut asked = BTreeSet::new();
    for one in plan.iter().filter(written) {
        for (name, value) in &one.secrets {
            keep(name, value)?;
        }
        if ctx.term.stdin && ctx.term.stderr && !ctx.global.json {
            for name in one.missing.iter().filter(|name| asked.insert((*name).clone())) {
                let value = ask::hidden(&format!("Value of {name} (not shown; empty: later)"))?;
                if !value.is_empty() {
                    keep(name, &SecretText::new(value))?;
                }
            }
        }
        let replace = one.state == State::Replaced;
        let edit = Edit::Put { name: one.name.clone(), entry: one.entry.clone(), replace };
        apply(target, &edit).map_err(|e| {
            Failure::config(e.to_string())
                .on(&one.name)
                .fix("the servers before it were added; correct the cause and run it again")
        })?;
    }
    Ok(())
}

/// One server of the answer.
#[derive(Serialize)]
pub struct PlannedView<'a> {
    name: &'a str,
    imported_as: Option<&'a str>,
    state: State,
    notes: Vec<String>,
    not_mapped: Vec<String>,
    secrets_stored: Vec<&'a str>,
    secrets_missing: &'a [String],
}

/// The plan for scripts.
pub fn views<'a>(ctx: &Ctx, plan: &'a [Planned]) -> Vec<PlannedView<'a>> {
    let clean = |lines: &[String]| lines.iter().map(|line| ctx.clean(line)).collect();
    plan.iter()
        .map(|one| PlannedView {
            name: &one.found.name,
            imported_as: one.state.is_here().then_some(&*one.name),
            state: one.state,
            notes: clean(&one.notes),
            not_mapped: clean(&one.lost),
            secrets_stored: one.secrets.iter().map(|(name, _)| name.as_str()).collect(),
            secrets_missing: &one.missing,
        })
        .collect()
}

/// The plan for a person, a server on each line and what belongs to it below.
pub fn lines(ctx: &Ctx, plan: &[Planned], dry: bool) -> String {
    let mut out = Vec::new();
    for one in plan {
        let verb = match (one.state, dry) {
            (State::Added, false) => "added",
            (State::Added, true) => "would be added",
            (State::Replaced, false) => "replaced the one of that name",
            (State::Replaced, true) => "would replace the one of that name",
            (State::Same, _) => "is there already",
            (State::Clash, _) => "left out: its name is taken",
            (State::Impossible, _) => "left out",
            (State::Ourselves, _) => "is Callboard itself, left out",
        };
        let name = ctx.clean(&one.found.name);
        let renamed = if one.state.is_here() && one.name != one.found.name {
            format!(" as {}", ctx.clean(&one.name))
        } else {
            String::new()
        };
        out.push(format!("{name}: {verb}{renamed}"));
        out.extend(one.notes.iter().map(|note| format!("    {}", ctx.clean(note))));
        let word = if one.state.is_here() { "not taken over: " } else { "" };
        out.extend(one.lost.iter().map(|lost| format!("    {word}{}", ctx.clean(lost))));
    }
    out.join("\n")
}

/// What is left to do after a plan.
pub fn warnings(ctx: &Ctx, client: Client, plan: &[Planned]) -> Vec<String> {
    let stored = ctx.home().ok().and_then(|home| secret_store::read(home).ok()).unwrap_or_default();
    let missing: BTreeSet<&String> =
        plan.iter().filter(|one| one.state.is_here()).flat_map(|one| &one.missing).collect();
    let missing = missing.into_iter().filter(|name| !stored.contains_key(*name));
    let mut told: Vec<String> = missing
        .map(|name| format!("the secret {name} is not stored yet: callboard secret set {}", shell_word(name)))
        .collect();
    for one in plan.iter().filter(|one| one.state == State::Clash) {
        told.push(format!(
            "{} was left out, because another server has that name; `callboard mcp import {} {} --rename` gives it another, `--overwrite` replaces that one",
            quoted(&one.found.name),
            client.name(),
            shell_word(&one.found.name)
        ));
    }
    told
}
