//! Keys that vendors mark: the public form of each (prefix, alphabet, length), in one table.
//! One automaton looks for all marks at once; only where a mark stands is the form compared, at
//! that place, in linear time. A form is compiled when its mark is first met. Called by `shapes`.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex::bytes::Regex;

/// The form of one vendor's keys.
struct Vendor {
    /// Whose keys these are; for the table's reader and its tests.
    #[cfg_attr(not(test), expect(dead_code, reason = "names the row"))]
    name: &'static str,
    /// What every such key contains, separated by blanks.
    marks: &'static str,
    /// How many bytes of the key may stand before the mark.
    before: usize,
    /// The whole key.
    form: &'static str,
    /// Words look like it too: only what looks random is a key.
    doubtful: bool,
}

/// A key begins with its mark.
const fn key(name: &'static str, marks: &'static str, form: &'static str) -> Vendor {
    Vendor { name, marks, before: 0, form, doubtful: false }
}

/// As `key`, where words begin so too.
const fn doubtful(name: &'static str, marks: &'static str, form: &'static str) -> Vendor {
    Vendor { name, marks, before: 0, form, doubtful: true }
}

/// The mark stands up to `before` bytes within the key.
const fn inner(name: &'static str, marks: &'static str, before: usize, form: &'static str) -> Vendor {
    Vendor { name, marks, before, form, doubtful: false }
}

/// A run that something must follow has a bound, so that no text makes the comparison slow.
const VENDORS: &[Vendor] = &[
    key(
        "1Password",
        "ops_eyJ A3-",
        r"(?:ops_eyJ[A-Za-z0-9+/]{100,}={0,3}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5})",
    ),
    key("Adobe", "p8e-", r"p8e-[A-Za-z0-9]{32}\b"),
    key("age", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}\b"),
    key("Airtable", "pat", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b"),
    key("Alibaba Cloud", "LTAI", r"LTAI[A-Za-z0-9]{12,26}\b"),
    key("Anthropic", "sk-ant-", r"sk-ant-[a-z]{3,8}[0-9]{2}-[A-Za-z0-9_-]{20,}"),
    key("Asana", "0/ 1/ 2/", r"[0-9]/[0-9]{10,20}(?:/[0-9]{10,20})?:[a-f0-9]{32}\b"),
    key("Atlassian", "ATATT3 ATCTT3 ATBB", r"(?:AT[AC]TT3[A-Za-z0-9_=-]{60,}|ATBB[A-Za-z0-9]{28,36}\b)"),
    key("AWS", "AKIA ASIA ABIA ACCA", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}\b"),
    inner("Azure", "Q~", 4, r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    key("Brevo", "xkeysib- xsmtpsib-", r"x(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b"),
    key("Buildkite", "bkua_", r"bkua_[a-f0-9]{40}\b"),
    key("CircleCI", "CCIPAT_ CCIPRJ_", r"CCIP(?:AT|RJ)_[A-Za-z0-9]{22}_[a-f0-9]{40}\b"),
    key("Clojars", "CLOJARS_", r"CLOJARS_[a-z0-9]{60}\b"),
    key("Cloudflare", "v1.0-", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b"),
    key("Contentful", "CFPAT-", r"CFPAT-[A-Za-z0-9_-]{43}"),
    key("crates.io", "cio", r"cio[A-Za-z0-9]{32}\b"),
    key("Databricks", "dapi", r"dapi[a-f0-9]{32}(?:-[0-9])?\b"),
    key("Deno", "ddp_ ddo_", r"dd[op]_[A-Za-z0-9]{36}\b"),
    key("DigitalOcean", "dop_v1_ doo_v1_ dor_v1_", r"do[por]_v1_[a-f0-9]{40,}"),
    key(
        "Discord",
        "MT Mj Mz MD ND NT Nj Nz OD OT",
        r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",
    ),
    key(
        "Discord webhook",
        "discord.com/api/webhooks/ discordapp.com/api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/[0-9]{15,21}/[A-Za-z0-9_-]{50,}",
    ),
    key("Docker Hub", "dckr_pat_ dckr_oat_", r"dckr_[po]at_[A-Za-z0-9_-]{27,}"),
    key("Doppler", "dp.", r"dp\.(?:pt|ct|scim|audit|sa|st(?:\.[a-z0-9_-]{2,35})?)\.[A-Za-z0-9]{40,44}\b"),
    key("Dropbox", "sl.", r"sl\.(?:u\.)?[A-Za-z0-9_-]{100,}"),
    key("Duffel", "duffel_", r"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    key("Dynatrace", "dt0", r"dt0[a-z][0-9]{2}\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}\b"),
    key("E2B", "e2b_", r"e2b_[a-f0-9]{40}\b"),
    key("EasyPost", "EZAK EZTK", r"EZ[AT]K[A-Za-z0-9]{54}\b"),
    key("Facebook", "EAA", r"EAA[A-Z][A-Za-z0-9]{90,}"),
    key("Figma", "figd_ figo_", r"fig[do]_[A-Za-z0-9_-]{36,}"),
    key("Firecrawl", "fc-", r"fc-[a-f0-9]{32}\b"),
    key("Flutterwave", "FLWSECK", r"FLWSECK(?:_TEST)?-[a-z0-9]{12,40}-X\b"),
    key(
        "Fly.io",
        "fo1_ fm1r_ fm1a_ fm2_",
        r"(?:fo1_[A-Za-z0-9_-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{60,}={0,3})",
    ),
    key("Frame.io", "fio-u-", r"fio-u-[A-Za-z0-9_=-]{64}"),
    key(
        "GitHub",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    ),
    key(
        "GitLab",
        "glpat- glptt- gldt- glrt- glrtr- glcbt- glft- glsoat- glimt- glagent- gloas- glffct- GR1348941",
        r"(?:gl(?:pat|ptt|dt|rtr?|cbt|ft|soat|imt|agent|oas|ffct)-[A-Za-z0-9_.-]{20,}|GR1348941[A-Za-z0-9_-]{20})",
    ),
    key(
        "Google",
        "AIza ya29. GOCSPX- 1//0",
        r"(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{28}|1//0[A-Za-z0-9_-]{40,})",
    ),
    key("Grafana", "glc_ glsa_", r"(?:glc_[A-Za-z0-9+/]{32,}={0,2}|glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}\b)"),
    key("Groq", "gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    key("Harness", "pat. sat.", r"[ps]at\.[A-Za-z0-9_-]{22}\.[a-f0-9]{24}\.[A-Za-z0-9]{20}\b"),
    key("HashiCorp Vault", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    inner("Terraform Cloud", ".atlasv1.", 14, r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    key("Heroku", "HRKU-", r"HRKU-[A-Za-z0-9_-]{36,}"),
    key("HubSpot", "pat-", r"pat-(?:na|eu|ap)[0-9]-[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12}\b"),
    key("Hugging Face", "hf_ api_org_", r"(?:hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z0-9]{34})"),
    key("Infracost", "ico-", r"ico-[A-Za-z0-9]{32}\b"),
    key("JFrog", "AKCp cmVmdGtu", r"(?:AKCp[A-Za-z0-9]{60,}|cmVmdGtu[A-Za-z0-9+/]{50,}={0,2})"),
    key("LangSmith", "lsv2_", r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}\b"),
    key("Langfuse", "sk-lf-", r"sk-lf-[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12}\b"),
    key("LaunchDarkly", "api- sdk-", r"(?:api|sdk)-[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12}\b"),
    key("Linear", "lin_api_ lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}"),
    key("Lob", "live_ test_", r"(?:live|test)_(?:pub_)?[a-f0-9]{31,35}\b"),
    inner("Mailchimp", "-us", 32, r"[a-f0-9]{32}-us[0-9]{1,2}\b"),
    key("Mailgun", "key- pubkey-", r"(?:pub)?key-[a-f0-9]{32}\b"),
    key("Mapbox", "sk.eyJ pk.eyJ tk.eyJ", r"[spt]k\.eyJ[A-Za-z0-9_-]{30,}\.[A-Za-z0-9_-]{20,}"),
    key("Netlify", "nfp_ nfc_ nfu_", r"nf[pcu]_[A-Za-z0-9]{36}\b"),
    key(
        "New Relic",
        "NRAK- NRJS- NRII- NRRA-",
        r"NR(?:AK-[A-Z0-9]{27}|JS-[a-f0-9]{19}|II-[A-Za-z0-9-]{32}|RA-[a-f0-9]{42})",
    ),
    key("Notion", "ntn_ secret_", r"(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}\b)"),
    key("npm", "npm_", r"npm_[A-Za-z0-9]{30,}"),
    key("NVIDIA", "nvapi-", r"nvapi-[A-Za-z0-9_-]{40,}"),
    key(
        "OpenAI",
        "sk-proj- sk-svcacct- sk-admin- sk-None-",
        r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}",
    ),
    key("OpenRouter", "sk-or-v1-", r"sk-or-v1-[a-f0-9]{64}\b"),
    key("OpenShift", "sha256~", r"sha256~[A-Za-z0-9_-]{43}"),
    key("Paddle", "pdl_", r"pdl_(?:live|sdbx)_[a-z]{3,10}_[A-Za-z0-9_]{40,}"),
    key("Perplexity", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    key("Pinecone", "pcsk_", r"pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{40,}"),
    key(
        "Plaid",
        "access-",
        r"access-(?:sandbox|development|production)-[a-f0-9]{8}-(?:[a-f0-9]{4}-){3}[a-f0-9]{12}\b",
    ),
    key("PlanetScale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32,}"),
    key("Postman", "PMAK-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}\b"),
    key("PostHog", "phx_ phc_ phs_", r"ph[xcs]_[A-Za-z0-9_-]{40,}"),
    key("Prefect", "pnu_ pnb_", r"pn[ub]_[A-Za-z0-9]{36}\b"),
    key("Pulumi", "pul-", r"pul-[a-f0-9]{40}\b"),
    key("PyPI", "pypi-", r"pypi-[A-Za-z0-9_-]{40,}"),
    key("ReadMe", "rdme_", r"rdme_[a-z0-9]{70}\b"),
    key("Render", "rnd_", r"rnd_[A-Za-z0-9]{26,}"),
    key("Replicate", "r8_", r"r8_[A-Za-z0-9]{37}\b"),
    key("Resend", "re_", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    key("RubyGems", "rubygems_", r"rubygems_[a-f0-9]{48}\b"),
    key("Scalingo", "tk-us-", r"tk-us-[A-Za-z0-9_-]{48}"),
    key("SendGrid", "SG.", r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}"),
    key("Sentry", "sntrys_ sntryu_", r"(?:sntrys_[A-Za-z0-9+/=_]{60,}|sntryu_[a-f0-9]{64}\b)"),
    key("Shippo", "shippo_", r"shippo_(?:live|test)_[a-f0-9]{40}\b"),
    key("Shopify", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b"),
    key(
        "Slack",
        "xoxa- xoxb- xoxe xoxo- xoxp- xoxr- xoxs- xapp-",
        r"(?:xox(?:[abopers]-|e\.xox[bp]-)[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})",
    ),
    key(
        "Slack webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{40,}",
    ),
    key("Sourcegraph", "sgp_", r"sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}\b"),
    key("Square", "EAAA sq0", r"(?:EAAA[A-Za-z0-9_-]{60}|sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,43})"),
    key(
        "Stripe",
        "sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_ whsec_",
        r"(?:[srp]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{20,}={0,2})",
    ),
    key("Stytch", "secret-live- secret-test-", r"secret-(?:live|test)-[A-Za-z0-9_=-]{36}"),
    key("Supabase", "sbp_ sb_secret_", r"(?:sbp_[a-f0-9]{40}\b|sb_secret_[A-Za-z0-9_-]{20,})"),
    key("Tailscale", "tskey-", r"tskey-[a-z]{3,9}-[A-Za-z0-9]{6,24}-[A-Za-z0-9]{20,}"),
    key("Tavily", "tvly-", r"tvly-[A-Za-z0-9-]{16,}"),
    inner("Telegram", ":AA", 10, r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    key("Twilio", "SK", r"SK[a-f0-9]{32}\b"),
    key("Typeform", "tfp_", r"tfp_[A-Za-z0-9_.=-]{40,}"),
    key("Vercel", "vercel_blob_rw_", r"vercel_blob_rw_[A-Za-z0-9]{10,}_[A-Za-z0-9]{20,}"),
    key("xAI", "xai-", r"xai-[A-Za-z0-9]{60,}"),
    key(
        "Yandex Cloud",
        "AQVN t1.",
        r"(?:AQVN[A-Za-z0-9_-]{35,38}|t1\.[A-Z0-9a-z_-]{1,200}[A-Za-z0-9]={0,2}\.[A-Za-z0-9_-]{86}={0,2})",
    ),
    doubtful("many", "sk-", r"sk-[A-Za-z0-9_-]{16,}"),
    doubtful("many", "sk_ rk_ pk_", r"[srp]k_[A-Za-z0-9]{20,}"),
    key("web token", "eyJ", r"eyJ[A-Za-z0-9_-]{8,512}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
];

/// One mark of the table.
struct Mark {
    vendor: usize,
    before: usize,
}

struct Table {
    marks: Vec<Mark>,
    automaton: Option<AhoCorasick>,
    forms: Vec<OnceLock<Option<Regex>>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let words = || {
        let rows = VENDORS.iter().enumerate();
        rows.flat_map(|(at, vendor)| vendor.marks.split(' ').map(move |mark| (at, vendor, mark)))
    };
    Table {
        marks: words().map(|(vendor, row, _)| Mark { vendor, before: row.before }).collect(),
        automaton: AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            // Marks begin with every kind of byte: a search for rare ones only costs.
            .kind(Some(AhoCorasickKind::DFA))
            .prefilter(false)
            .build(words().map(|(_, _, mark)| mark))
            .ok(),
        forms: VENDORS.iter().map(|_| OnceLock::new()).collect(),
    }
});

impl Table {
    fn form(&self, vendor: usize) -> Option<&Regex> {
        let compile = || Regex::new(&format!("(?-u)^{}", VENDORS.get(vendor)?.form)).ok();
        self.forms.get(vendor)?.get_or_init(compile).as_ref()
    }
}

/// Spans of all keys with a vendor's mark, in no order.
pub(super) fn find(text: &[u8], into: &mut Vec<Range<usize>>) {
    let Some(marks) = &TABLE.automaton else { return };
    let (mut covered, mut judged) = (0, 0);
    for hit in marks.find_overlapping_iter(text) {
        let Some(mark) = TABLE.marks.get(hit.pattern().as_usize()) else { continue };
        if hit.start() < covered {
            continue;
        }
        let doubtful = VENDORS.get(mark.vendor).is_some_and(|vendor| vendor.doubtful);
        if doubtful && hit.start() < judged {
            continue;
        }
        let Some(span) = key_around(text, hit.start(), mark, covered) else { continue };
        if doubtful {
            judged = span.end;
            if !text.get(span.clone()).is_some_and(super::looks_secret) {
                continue;
            }
        }
        covered = covered.max(span.end);
        into.push(span);
    }
}

/// The key that has its mark at `hit`, if there is one; nothing before `from` belongs to it.
fn key_around(text: &[u8], hit: usize, mark: &Mark, from: usize) -> Option<Range<usize>> {
    let first = hit.saturating_sub(mark.before).max(from);
    (first..=hit).filter(|at| is_start(text, *at)).find_map(|at| {
        let form = TABLE.form(mark.vendor)?.find(text.get(at..)?)?;
        (form.end() > hit - at && !is_in_blob(text, at)).then(|| at..at + form.end())
    })
}

/// Whether a word may begin there: after what is no letter or digit, or after an escape that
/// stands for such a character (`\n` in JSON, `%3D` in an address).
fn is_start(text: &[u8], at: usize) -> bool {
    let back = |steps: usize| at.checked_sub(steps).and_then(|before| text.get(before)).copied();
    let Some(last) = back(1) else { return true };
    if !last.is_ascii_alphanumeric() && last != b'_' {
        return true;
    }
    let letter = matches!(last, b'n' | b'r' | b't' | b'b' | b'f') && back(2) == Some(b'\\');
    let percent = last.is_ascii_hexdigit()
        && back(3) == Some(b'%')
        && back(2).is_some_and(|high| matches!(high, b'2' | b'3' | b'5' | b'7'));
    letter || percent || back(6) == Some(b'\\') && back(5) == Some(b'u')
}

/// Whether this is a piece of a long base64 text, where every word comes up by chance.
fn is_in_blob(text: &[u8], at: usize) -> bool {
    const RUN_MIN: usize = 64;
    let before = text.get(at.saturating_sub(RUN_MIN)..at).unwrap_or_default();
    before.len() == RUN_MIN
        && before.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

#[cfg(test)]
mod tests;
