//! Recall on made-up keys of every vendor, and false hits on text that is full of what only looks
//! like a key. The keys come from a notation of their own, so that a slip in the table of forms
//! is not repeated here.

use std::collections::BTreeSet;

use super::super::find;
use super::VENDORS;

/// Vendor and form of its keys: `{A36}` is 36 letters and digits. `A` letters and digits, `w` these
/// with `_-`, `b` with `+/`, `h` small hex, `u` capitals and digits, `l` small letters and digits,
/// `d` digits, `q` what age uses.
const KEYS: &[(&str, &[&str])] = &[
    ("1Password", &["ops_eyJ{b260}", "A3-{u6}-{u6}-{u5}-{u5}-{u5}-{u5}"]),
    ("Adobe", &["p8e-{l32}"]),
    ("age", &["AGE-SECRET-KEY-1{q58}"]),
    ("Airtable", &["pat{A14}.{h64}"]),
    ("Alibaba Cloud", &["LTAI{A20}"]),
    ("Anthropic", &["sk-ant-api03-{w93}AA", "sk-ant-admin01-{w93}AA"]),
    ("Asana", &["1/{d16}:{h32}", "2/{d16}/{d16}:{h32}"]),
    ("Atlassian", &["ATATT3{w180}", "ATCTT3{w180}", "ATBB{A32}"]),
    ("AWS", &["AKIA{u16}", "ASIA{u16}"]),
    ("Azure", &["{A3}8Q~{w34}"]),
    ("Brevo", &["xkeysib-{h64}-{A16}"]),
    ("Buildkite", &["bkua_{h40}"]),
    ("CircleCI", &["CCIPAT_{A22}_{h40}"]),
    ("Clojars", &["CLOJARS_{l60}"]),
    ("Cloudflare", &["v1.0-{h24}-{h146}"]),
    ("Contentful", &["CFPAT-{w43}"]),
    ("crates.io", &["cio{A32}"]),
    ("Databricks", &["dapi{h32}", "dapi{h32}-2"]),
    ("Deno", &["ddp_{A36}"]),
    ("DigitalOcean", &["dop_v1_{h64}", "doo_v1_{h64}", "dor_v1_{h64}"]),
    ("Discord", &["MT{A22}.{A6}.{w38}", "OD{A22}.{A6}.{w27}"]),
    ("Discord webhook", &["discord.com/api/webhooks/{d18}/{w68}"]),
    ("Docker Hub", &["dckr_pat_{w27}"]),
    ("Doppler", &["dp.pt.{A43}", "dp.st.dev.{A43}", "dp.sa.{A43}"]),
    ("Dropbox", &["sl.{w136}", "sl.u.{w140}"]),
    ("Duffel", &["duffel_live_{w43}"]),
    ("Dynatrace", &["dt0c01.{u24}.{u64}"]),
    ("E2B", &["e2b_{h40}"]),
    ("EasyPost", &["EZAK{A54}", "EZTK{A54}"]),
    ("Facebook", &["EAAM{A120}", "EAAC{A100}"]),
    ("Figma", &["figd_{w40}"]),
    ("Firecrawl", &["fc-{h32}"]),
    ("Flutterwave", &["FLWSECK_TEST-{h32}-X", "FLWSECK-{h32}-X"]),
    ("Fly.io", &["fo1_{w43}", "fm2_{b120}"]),
    ("Frame.io", &["fio-u-{w64}"]),
    ("GitHub", &["ghp_{A36}", "gho_{A36}", "ghu_{A36}", "ghs_{A36}", "ghr_{A36}", "github_pat_{A22}_{A59}"]),
    ("GitLab", &["glpat-{w20}", "glptt-{h40}", "gldt-{w20}", "glrt-{w20}", "glft-{w20}", "glsoat-{w20}"]),
    ("Google", &["AIza{w35}", "ya29.{w120}", "GOCSPX-{w28}", "1//0{w60}"]),
    ("Grafana", &["glc_{b60}", "glsa_{A32}_{h8}"]),
    ("Groq", &["gsk_{A52}"]),
    ("Harness", &["pat.{w22}.{h24}.{A20}"]),
    ("HashiCorp Vault", &["hvs.{w90}", "hvb.{w140}"]),
    ("Terraform Cloud", &["{A14}.atlasv1.{w67}"]),
    ("Heroku", &["HRKU-{h8}-{h4}-{h4}-{h4}-{h12}", "HRKU-AA{w58}"]),
    ("HubSpot", &["pat-na1-{h8}-{h4}-{h4}-{h4}-{h12}", "pat-eu1-{h8}-{h4}-{h4}-{h4}-{h12}"]),
    ("Hugging Face", &["hf_{A34}", "api_org_{A34}"]),
    ("Infracost", &["ico-{A32}"]),
    ("JFrog", &["AKCp{A69}", "cmVmdGtu{A56}"]),
    ("LangSmith", &["lsv2_pt_{h32}_{h10}", "lsv2_sk_{h32}_{h10}"]),
    ("Langfuse", &["sk-lf-{h8}-{h4}-{h4}-{h4}-{h12}"]),
    ("LaunchDarkly", &["api-{h8}-{h4}-{h4}-{h4}-{h12}", "sdk-{h8}-{h4}-{h4}-{h4}-{h12}"]),
    ("Linear", &["lin_api_{A40}"]),
    ("Lob", &["live_{h35}", "test_{h35}"]),
    ("Mailchimp", &["{h32}-us12", "{h32}-us6"]),
    ("Mailgun", &["key-{h32}", "pubkey-{h32}"]),
    ("Mapbox", &["sk.eyJ{A80}.{w22}"]),
    ("Netlify", &["nfp_{A36}"]),
    ("New Relic", &["NRAK-{u27}", "NRJS-{h19}"]),
    ("Notion", &["ntn_{A46}", "secret_{A43}"]),
    ("npm", &["npm_{A36}"]),
    ("NVIDIA", &["nvapi-{w64}"]),
    ("OpenAI", &["sk-proj-{w74}", "sk-svcacct-{w74}", "sk-admin-{w74}", "sk-{A48}"]),
    ("OpenRouter", &["sk-or-v1-{h64}"]),
    ("OpenShift", &["sha256~{w43}"]),
    ("Paddle", &["pdl_live_apikey_{l26}_{A22}_{A3}"]),
    ("Perplexity", &["pplx-{A48}"]),
    ("Pinecone", &["pcsk_{A5}_{A64}"]),
    ("Plaid", &["access-production-{h8}-{h4}-{h4}-{h4}-{h12}"]),
    ("PlanetScale", &["pscale_tkn_{w43}", "pscale_pw_{w43}"]),
    ("Postman", &["PMAK-{h24}-{h34}"]),
    ("PostHog", &["phx_{A43}", "phc_{A43}"]),
    ("Prefect", &["pnu_{A36}"]),
    ("Pulumi", &["pul-{h40}"]),
    ("PyPI", &["pypi-AgEIcHlwaS5vcmc{w120}"]),
    ("ReadMe", &["rdme_{l70}"]),
    ("Render", &["rnd_{A32}"]),
    ("Replicate", &["r8_{A37}"]),
    ("Resend", &["re_{A8}_{A24}"]),
    ("RubyGems", &["rubygems_{h48}"]),
    ("Scalingo", &["tk-us-{w48}"]),
    ("SendGrid", &["SG.{w22}.{w43}"]),
    ("Sentry", &["sntrys_eyJ{A100}_{A43}", "sntryu_{h64}"]),
    ("Shippo", &["shippo_live_{h40}"]),
    ("Shopify", &["shpat_{h32}", "shpss_{h32}"]),
    (
        "Slack",
        &[
            "xoxb-{d12}-{d12}-{A24}",
            "xoxp-{d12}-{d12}-{d12}-{h32}",
            "xapp-1-{u11}-{d13}-{h64}",
            "xoxe.xoxp-1-{A160}",
        ],
    ),
    ("Slack webhook", &["hooks.slack.com/services/T{u10}/B{u10}/{A24}"]),
    ("Sourcegraph", &["sgp_{h16}_{h40}", "sgp_local_{h40}", "sgp_{h40}"]),
    ("Square", &["EAAA{w60}", "sq0atp-{w22}", "sq0csp-{w43}"]),
    ("Stripe", &["sk_live_{A24}", "rk_live_{A99}", "sk_test_{A99}", "whsec_{A32}"]),
    ("Stytch", &["secret-live-{w36}"]),
    ("Supabase", &["sbp_{h40}", "sb_secret_{w31}"]),
    ("Tailscale", &["tskey-auth-{A12}CNTRL-{A32}", "tskey-api-{A12}CNTRL-{A32}"]),
    ("Tavily", &["tvly-{A32}", "tvly-dev-{A32}"]),
    ("Telegram", &["{d10}:AA{w33}", "{d9}:AA{w33}"]),
    ("Twilio", &["SK{h32}"]),
    ("Typeform", &["tfp_{w44}_{w14}"]),
    ("Vercel", &["vercel_blob_rw_{A16}_{A30}"]),
    ("xAI", &["xai-{A80}"]),
    ("Yandex Cloud", &["AQVN{w36}", "t1.{A80}.{w86}"]),
    ("web token", &["eyJ{A33}.eyJ{A80}.{w43}"]),
];

/// Where a key may stand: the text before it and after it.
const PLACES: [(&str, &str); 9] = [
    ("", ""),
    ("the key ", " was refused"),
    ("{\"value\":\"", "\",\"n\":1}"),
    ("{\\\"text\\\":\\\"line one\\n", "\\\"}"),
    ("curl -H 'X: ", "'"),
    ("https://h.example/x?v=", "&n=2"),
    ("q%3D", "%26n"),
    ("(", ")."),
    ("export A=", "\n"),
];

/// Repeatable chance, enough for keys.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    fn run(&mut self, alphabet: &str, len: usize) -> String {
        let alphabet = alphabet.as_bytes();
        (0..len).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    fn key(&mut self, form: &str) -> String {
        const DIGITS: &str = "0123456789";
        const SMALL: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
        const LARGE: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        const ALL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut out = String::new();
        for piece in form.split_inclusive('}') {
            let run = piece.rsplit_once('{').and_then(|(literal, run)| {
                let (kind, len) = run.strip_suffix('}')?.split_at_checked(1)?;
                Some((literal, kind, len.parse::<usize>().ok()?))
            });
            let Some((literal, kind, len)) = run else {
                out += piece;
                continue;
            };
            out += literal;
            out += &match kind {
                "A" => self.run(ALL, len),
                // A key that ends in a dash can't be told from the text after it.
                "w" => self.run(&format!("{ALL}_-"), len - 1) + &self.run(ALL, 1),
                "b" => self.run(&format!("{ALL}+/"), len),
                "h" => self.run("0123456789abcdef", len),
                "u" => self.run(LARGE, len),
                "l" => self.run(SMALL, len),
                "d" => self.run("123456789", 1) + &self.run(DIGITS, len - 1),
                "q" => self.run("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", len),
                other => panic!("{other}"),
            };
        }
        out
    }
}

fn spans(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut spans = Vec::new();
    find(text.as_bytes(), &mut spans);
    spans
}

#[test]
fn every_form_compiles_and_every_vendor_has_keys_to_try() {
    for (at, vendor) in VENDORS.iter().enumerate() {
        assert!(super::TABLE.form(at).is_some(), "{}", vendor.name);
        let tried = KEYS.iter().any(|(name, _)| *name == vendor.name);
        assert!(tried || vendor.doubtful, "{} has no keys to try", vendor.name);
    }
    let names: BTreeSet<&str> = KEYS.iter().map(|(name, _)| *name).collect();
    assert!(names.len() >= 60 && names.len() == KEYS.len(), "{}", names.len());
}

#[test]
fn keys_of_a_hundred_vendors_are_hidden_wherever_they_stand() {
    const EACH: usize = 30;
    let mut dice = Dice(7);
    let (mut all, mut missed) = (0, Vec::new());
    for (name, forms) in KEYS {
        let (mut tried, mut lost) = (0, 0);
        for form in *forms {
            for (before, after) in PLACES {
                for _ in 0..EACH {
                    let key = dice.key(form);
                    let text = format!("{before}{key}{after}");
                    let whole = before.len()..before.len() + key.len();
                    let hidden = spans(&text).iter().any(|s| s.start <= whole.start && s.end >= whole.end);
                    tried += 1;
                    if !hidden {
                        lost += 1;
                        missed.push(format!("{name}: {text}"));
                    }
                }
            }
        }
        assert!(lost * 100 <= tried, "{name}: {lost} of {tried} missed, as {}", missed.last().unwrap());
        all += tried;
    }
    assert!(missed.len() * 100 <= all, "{} of {all}", missed.len());
}

/// A megabyte and more of what people have in logs and code, with nothing secret in it.
fn ordinary(dice: &mut Dice, len: usize) -> String {
    const WORDS: [&str; 24] = [
        "token",
        "next",
        "server",
        "result",
        "task",
        "risk",
        "key",
        "value",
        "secret",
        "author",
        "request",
        "page",
        "basic",
        "bearer",
        "auth",
        "cookie",
        "password",
        "build",
        "pattern",
        "signature",
        "desk",
        "password reset",
        "keyboard",
        "the",
    ];
    let mut out = String::new();
    while out.len() < len {
        let hex = |dice: &mut Dice, n| dice.key(&format!("{{h{n}}}"));
        let word = |dice: &mut Dice| WORDS[dice.below(WORDS.len())];
        let line = match dice.below(26) {
            0 => format!("commit {}\nAuthor: Ada <ada@example.com>\n", hex(dice, 40)),
            1 => format!("{}  src/{}/{}.rs\n", hex(dice, 64), word(dice), word(dice)),
            2 => dice.key("id={h8}-{h4}-{h4}-{h4}-{h12} trace_id={h32} span={h16}\n"),
            3 => format!("<img src=\"data:image/png;base64,{}\">\n", dice.key("iVBORw0KGgo{b1200}=")),
            4 => format!("{}\n", dice.key("{b76}")),
            5 => format!("{}\n", dice.key("\"integrity\": \"sha512-{b86}==\",")),
            6 => dice.key("{\"usage\":{\"prompt_tokens\":{d4},\"max_tokens\":{d4},\"total_tokens\":{d5}}}\n"),
            7 => dice.key("{\"nextPageToken\":\"C{A40}\",\"items\":[],\"progressToken\":\"p-{d6}\"}\n"),
            8 => "let token = lexer.next_token(); self.token = token;\n".into(),
            9 => "fn parse(token: &Token, secret: &SecretText, key: Key<'_>) -> Result<Password, Error> {\n".into(),
            10 => "    def login(self, username=None, password=None, token=token, secret=self.secret):\n".into(),
            11 => "{\"properties\":{\"password\":{\"type\":\"string\",\"minLength\":8},\"token\":{\"type\":\"string\"}}}\n".into(),
            12 => format!("{} {} {} {} {}\n", word(dice), word(dice), word(dice), word(dice), word(dice)),
            13 => format!("{}: {} {}\n", word(dice), word(dice), word(dice)),
            14 => dice.key("2026-03-{d2}T12:00:00Z INFO request_id={A22} status=200 took={d3}ms\n"),
            15 => dice.key("https://cdn.example.com/assets/{h20}/main.{h8}.js?v={d10}#L{d3}\n"),
            16 => dice.key("  \"node_modules/a-{l6}\": { \"version\": \"1.{d2}.{d3}\" },\n"),
            17 => dice.key("etag: \"{h32}\" x-request-id: {h8}-{h4}-{h4}-{h4}-{h12}\n"),
            18 => dice.key("at task-{d12}.run (/srv/app/desk-{l30}/index.js:{d3}:{d2})\n"),
            19 => "if (password === confirmPassword && token !== null) { return cookie.parse(header); }\n".into(),
            20 => "| `password` | string | the password of the account; token: see below |\n".into(),
            21 => format!("Cargo.lock checksum = \"{}\"\n", hex(dice, 64)),
            22 => dice.key("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5{b43} ada@example\n"),
            23 => "pub cookie: __u32, token: TokenTree, NET_TOKEN: _ty_64 = 5, or2_token: node.or2_token,\n".into(),
            24 => "Err(Kind::Unexpected { token: \"error\" }) // cookie: *mut i32, token: node.dot2_token\n".into(),
            _ => dice.key("AAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA{b40}AAAAAAAAAEAAAAAAAAAAAAAAAA\n"),
        };
        out += &line;
    }
    out
}

#[test]
fn code_logs_and_hashes_have_at_most_one_false_hit_in_a_mebibyte() {
    const MEBIBYTES: usize = 3;
    let text = ordinary(&mut Dice(11), MEBIBYTES << 20);
    let hits: Vec<&str> = spans(&text).into_iter().map(|span| &text[span]).collect();
    assert!(hits.len() <= MEBIBYTES, "{}: {:?}", hits.len(), &hits[..hits.len().min(20)]);
}

#[test]
fn texts_made_to_be_slow_are_not() {
    // Each would take hours if the cost grew with the square of the length.
    for piece in [
        "eyJ",
        "eyJa-",
        "sk-ant-",
        "token=\"",
        "token=",
        "token='",
        "password: ",
        "passwordkey",
        "SG.aa",
        "\\\"token\\\":\\\"",
        "://",
        "://u:",
        "t1.a.",
        "AKIA",
        "key-",
        "key.",
        "secret-",
        "Cookie: a",
        "cookie: token=",
        "authorization: basic ",
        "Q~",
        "1234567890:AA",
    ] {
        let text = piece.repeat((1 << 19) / piece.len());
        let _ = spans(&text);
    }
}

#[test]
fn what_hides_among_too_much_to_judge_is_hidden_too() {
    let flood = "token=".repeat(200_000);
    let text = format!("{flood}\npassword=\"correct1horse\"\napi_key=Zx81kQ72mLp0\n");
    let hidden: Vec<&str> = spans(&text).into_iter().map(|span| &text[span]).collect();
    assert!(hidden.contains(&"correct1horse") && hidden.contains(&"Zx81kQ72mLp0"), "{}", hidden.len());
    let name = "key".repeat(40);
    let text = format!("{name}_api_key=Zx81kQ72mLp0 {name}: x");
    assert_eq!(spans(&text).into_iter().map(|span| &text[span]).collect::<Vec<_>>(), ["Zx81kQ72mLp0"]);
}
