// Cuts members and items out of JSON text without rewriting a byte of them. The text is known to
// be valid JSON: it went through JSON.parse before.

// Index just after the value that starts at `at`.
function endOf(text, at) {
  const first = text[at];
  if (first === '"') return endOfString(text, at);
  if (first !== "{" && first !== "[") {
    while (at < text.length && !",]} \t\r\n".includes(text[at])) at += 1;
    return at;
  }
  let depth = 0;
  for (;;) {
    const c = text[at];
    if (c === '"') {
      at = endOfString(text, at);
      continue;
    }
    if (c === "{" || c === "[") depth += 1;
    if (c === "}" || c === "]") depth -= 1;
    at += 1;
    if (depth === 0) return at;
  }
}

function endOfString(text, at) {
  for (at += 1; text[at] !== '"'; at += 1) if (text[at] === "\\") at += 1;
  return at + 1;
}

function skip(text, at, chars) {
  while (at < text.length && chars.includes(text[at])) at += 1;
  return at;
}

const BLANK = " \t\r\n";

// The raw text of the member `key` of the object `text`; undefined when it has none.
export function member(text, key) {
  let at = skip(text, 0, BLANK + "{");
  while (text[at] === '"') {
    const name = JSON.parse(text.slice(at, (at = endOfString(text, at))));
    at = skip(text, at, BLANK + ":");
    const end = endOf(text, at);
    if (name === key) return text.slice(at, end);
    at = skip(text, end, BLANK + ",");
  }
  return undefined;
}

// The raw text of each item of the array `text`.
export function items(text) {
  const all = [];
  let at = skip(text, 0, BLANK);
  at = skip(text, at + 1, BLANK);
  while (at < text.length && text[at] !== "]") {
    const end = endOf(text, at);
    all.push(text.slice(at, end));
    at = skip(text, end, BLANK + ",");
  }
  return all;
}
