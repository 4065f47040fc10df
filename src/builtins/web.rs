//! `get_page_title` and `web_search`. Everything goes through `transport::http::fetch`: pages to public
//! hosts only, searches to the one place that is configured. What comes back is a stranger's text: it
//! is cut, stripped of what is not shown, and put into fields.

use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use url::Url;

use super::Output;
use super::files::argument;
use super::html;
use crate::config::builtins::SearchProvider;
use crate::config::spec::SecretText;
use crate::transport::http::fetch::{Fetch, Fetched, Fetcher};

/// Results of a search that are returned at most.
const RESULTS_MAX: u64 = 20;
/// Longest address of a result, bytes.
const URL_LEN_MAX: usize = 2048;
const PAGES: &[&str] = &["text/html", "application/xhtml+xml"];
const ANSWERS: &[&str] = &["application/json"];

/// Where and how to search.
#[derive(Clone, Debug)]
pub(super) struct Search {
    pub provider: SearchProvider,
    /// Where it is, when the user says so.
    pub url: Option<Url>,
    pub key: Option<SecretText>,
    /// What the key refers to could not be had, or there must be one.
    pub lacks: Option<&'static str>,
}

/// `get_page_title`
pub(super) async fn title(fetcher: &Fetcher, arguments: &Value) -> Result<Output, String> {
    let url = argument(arguments, "url")?;
    let url = Url::parse(url).map_err(|error| format!("url is no absolute URL: {error}"))?;
    let fetch =
        Fetch { url, method: Method::GET, headers: HeaderMap::new(), body: String::new(), accept: PAGES };
    let page = fetcher.fetch(fetch).await.map_err(|error| format!("the page was not fetched: {error}"))?;
    let Some(title) = html::title(&html::decode(&page.body)) else {
        return Err(format!("the page (HTTP {}) has no title", page.status));
    };
    let mut url = page.url;
    url.set_fragment(None);
    Ok(Output { text: None, structured: json!({"title": title, "url": url.as_str(), "status": page.status}) })
}

/// `web_search`
pub(super) async fn search(fetcher: &Fetcher, search: &Search, arguments: &Value) -> Result<Output, String> {
    let query = argument(arguments, "query")?;
    let count = arguments["count"].as_u64().unwrap_or(8).clamp(1, RESULTS_MAX);
    if let Some(lacks) = search.lacks {
        return Err(format!("the search is not set up: {lacks}"));
    }
    let fetch = request(search, query, count)?;
    let fetcher = match &search.url {
        Some(own) => fetcher.clone().trusting(own),
        None => fetcher.clone(),
    };
    let answer = fetcher.fetch(fetch).await.map_err(|error| format!("the search failed: {error}"))?;
    match answer.status {
        200..=299 => {}
        401 | 403 => {
            return Err(format!(
                "the search refused us (HTTP {}): look at the key, or at its formats",
                answer.status
            ));
        }
        429 => return Err("the search wants fewer requests (HTTP 429): wait".into()),
        status => return Err(format!("the search failed: HTTP {status}")),
    }
    let found = results(search.provider, &answer)?;
    let limit = usize::try_from(count).unwrap_or(1);
    let results: Vec<Value> = found.into_iter().filter_map(normal).take(limit).collect();
    Ok(Output { text: None, structured: json!({"provider": word(search.provider), "results": results}) })
}

fn word(provider: SearchProvider) -> &'static str {
    match provider {
        SearchProvider::Off => "off",
        SearchProvider::SearXng => "searxng",
        SearchProvider::Tavily => "tavily",
        SearchProvider::Exa => "exa",
        SearchProvider::DuckDuckGo => "duckduckgo",
    }
}

/// The request for a search.
fn request(search: &Search, query: &str, count: u64) -> Result<Fetch, String> {
    let place = |known: &str| match &search.url {
        Some(own) => Ok(own.clone()),
        None => Url::parse(known).map_err(|error| error.to_string()),
    };
    let mut headers = HeaderMap::new();
    let get = |url, accept, headers| Fetch { url, method: Method::GET, headers, body: String::new(), accept };
    let post = |url, headers, body: &Value| {
        let body = body.to_string();
        Fetch { url, method: Method::POST, headers, body, accept: ANSWERS }
    };
    match search.provider {
        SearchProvider::Off => Err("the search is turned off (builtins.web_search.provider)".into()),
        SearchProvider::SearXng => {
            let mut url = place("")?;
            if !url.path().ends_with("/search") {
                url.set_path(&format!("{}/search", url.path().trim_end_matches('/')));
            }
            url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
            set_key(&mut headers, AUTHORIZATION, "Bearer ", search.key.as_ref())?;
            Ok(get(url, ANSWERS, headers))
        }
        SearchProvider::DuckDuckGo => {
            let mut url = place("https://html.duckduckgo.com/html/")?;
            url.query_pairs_mut().append_pair("q", query);
            Ok(get(url, PAGES, headers))
        }
        SearchProvider::Tavily => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            set_key(&mut headers, AUTHORIZATION, "Bearer ", search.key.as_ref())?;
            let body = json!({"query": query, "max_results": count});
            Ok(post(place("https://api.tavily.com/search")?, headers, &body))
        }
        SearchProvider::Exa => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            set_key(&mut headers, HeaderName::from_static("x-api-key"), "", search.key.as_ref())?;
            let text = json!({"text": {"maxCharacters": html::TEXT_CHARS_MAX}});
            let body = json!({"query": query, "numResults": count, "contents": text});
            Ok(post(place("https://api.exa.ai/search")?, headers, &body))
        }
    }
}

fn set_key(
    headers: &mut HeaderMap,
    name: HeaderName,
    before: &str,
    key: Option<&SecretText>,
) -> Result<(), String> {
    let Some(key) = key else { return Ok(()) };
    let value = HeaderValue::from_str(&format!("{before}{}", key.reveal()));
    let mut value = value.map_err(|_| "the key has characters that no header can have".to_owned())?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

/// Title, address and extract, as the provider has them.
type Found = (String, String, String);

fn results(provider: SearchProvider, answer: &Fetched) -> Result<Vec<Found>, String> {
    if provider == SearchProvider::DuckDuckGo {
        return Ok(duckduckgo(&html::decode(&answer.body)));
    }
    let parsed: Value =
        serde_json::from_slice(&answer.body).map_err(|_| "the search answered no JSON".to_owned())?;
    let list = parsed["results"].as_array().ok_or("the search answered without results")?;
    let text = |one: &Value, key: &str| one[key].as_str().map(str::to_owned);
    let found = |one: &Value| {
        let snippet = text(one, "content").or_else(|| text(one, "text")).unwrap_or_default();
        Some((text(one, "title").unwrap_or_default(), text(one, "url")?, snippet))
    };
    Ok(list.iter().filter_map(found).collect())
}

/// The page without scripts: each result is a link of one class, and its extract one of another.
fn duckduckgo(page: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for piece in page.split("class=\"result__a\"").skip(1) {
        let attribute = piece.split("href=\"").nth(1).and_then(|rest| rest.split('"').next());
        let link = html::words(attribute.unwrap_or_default());
        let title =
            piece.split_once('>').and_then(|(_, rest)| rest.split_once("</a")).map(|(title, _)| title);
        let snippet = piece.split_once("result__snippet").and_then(|(_, rest)| rest.split_once('>'));
        let snippet = snippet.and_then(|(_, rest)| rest.split_once("</a")).map(|(snippet, _)| snippet);
        found.push((
            html::words(title.unwrap_or_default()),
            unwrapped(&link),
            html::words(snippet.unwrap_or_default()),
        ));
    }
    found
}

/// The address that a link of DuckDuckGo leads to.
fn unwrapped(link: &str) -> String {
    let absolute = if link.starts_with("//") { format!("https:{link}") } else { link.to_owned() };
    let target = Url::parse(&absolute).ok().filter(|url| url.path() == "/l/").and_then(|url| {
        url.query_pairs().find(|(key, _)| key == "uddg").map(|(_, target)| target.into_owned())
    });
    target.unwrap_or(absolute)
}

/// One result as it is shown; `None` for one without an address of the web.
fn normal((title, url, snippet): Found) -> Option<Value> {
    let url = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let fits = url.as_str().len() <= URL_LEN_MAX && url.username().is_empty() && url.password().is_none();
    fits.then(|| json!({"title": html::tidy(&title), "url": url.as_str(), "snippet": html::words(&snippet)}))
}

#[cfg(test)]
mod tests;
