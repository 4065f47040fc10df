//! Which program an entry means: the path that is shown before an approval is the path that runs,
//! however odd PATH, command and names are.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::cli_home::Home;
use crate::support::bad::program;

/// A program that writes down how it was called, and becomes a server.
fn put(path: &Path, ran: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!("#!/bin/sh\nprintf %s \"$0\" > '{}'\nexec '{}'\n", ran.display(), program().display());
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_program_that_is_shown_before_an_approval_is_the_one_that_runs() {
    // PATH of the entry, its command, and the program below the project, where `decoy` folders hold
    // what has the name and can't be run.
    let rows = [
        ("{p}/decoy:{p}/folder:{p}/one:{p}/two", "tool", "one/tool"),
        ("{p}/none:{p}/two:{p}/one", "tool", "two/tool"),
        (".", "tool", "tool"),
        ("", "tool", "tool"),
        (":{p}/one", "tool", "tool"),
        ("{p}/none::{p}/one", "tool", "tool"),
        ("{p}/none:", "tool", "tool"),
        ("one/../two", "tool", "two/tool"),
        ("two", "tool", "two/tool"),
        ("{p}/one", "./tool", "tool"),
        ("{p}/one", "two/tool", "two/tool"),
        ("{p}/one", "{p}/two/../two/tool", "two/tool"),
        ("{p}/with blank:{p}/one", "my tool", "with blank/my tool"),
        ("{p}/Zürich – 東京", "wérk⚙zeug", "Zürich – 東京/wérk⚙zeug"),
        ("with blank", "my tool", "with blank/my tool"),
        ("{p}/one", "$(tool)", "one/$(tool)"),
        ("{p}/one", "-tool;x", "one/-tool;x"),
    ];
    let home = Home::new();
    let file = home.project_file("{}");
    let project = file.parent().unwrap();
    let ran = project.join("ran");
    for (_, _, expected) in rows {
        put(&project.join(expected), &ran);
    }
    std::fs::create_dir_all(project.join("folder/tool")).unwrap();
    std::fs::create_dir_all(project.join("decoy")).unwrap();
    std::fs::write(project.join("decoy/tool"), "#!/bin/sh\n").unwrap();
    let at = project.display().to_string();
    for (path, command, expected) in rows {
        let (path, command) = (path.replace("{p}", &at), command.replace("{p}", &at));
        let row = format!("{command} in {path:?}");
        let entry = json!({"command": command, "env": {"PATH": path}});
        home.project_file(&json!({"mcpServers": {"s": entry}}).to_string());
        let shown = home.run(&["mcp", "approve", "s", "-y", "--json"]).json(0)["data"]["program"].clone();
        let shown = shown.as_str().unwrap_or_else(|| panic!("{row}: nothing is shown")).to_owned();
        assert!(Path::new(&shown).is_absolute(), "{row}: {shown}");
        let status = home.run(&["mcp", "status", "s", "--json"]).json(0);
        assert_eq!(status["data"]["servers"][0]["state"], "ready", "{row}: {status}");
        assert_eq!(std::fs::read_to_string(&ran).unwrap(), shown, "{row}");
        let real = |path: &Path| std::fs::canonicalize(path).unwrap();
        assert_eq!(real(Path::new(&shown)), real(&project.join(expected)), "{row}");
        std::fs::remove_file(&ran).unwrap();
    }
}
