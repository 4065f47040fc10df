//! Evaluates arithmetic: numbers, operators, a fixed set of functions and constants. No names of a
//! caller, no code, no loops; the length and the nesting of an expression are bounded, so its work is.
//! Whole numbers are exact as long as they fit; results say whether they are. Pure.

use std::fmt;

/// Longest expression, bytes.
pub const EXPRESSION_LEN_MAX: usize = 1024;
/// Deepest nesting of brackets and operators.
const DEPTH_MAX: usize = 64;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Exact.
    Whole(i128),
    /// Rounded to about 16 digits.
    Real(f64),
}

impl Number {
    fn real(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "a number that is not exact is rounded")]
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }

    /// Whether no digit was lost.
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Whole(_))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(whole) => whole.fmt(f),
            Self::Real(real) if real.abs() >= 1e17 || (*real != 0.0 && real.abs() < 1e-6) => {
                write!(f, "{real:e}")
            }
            Self::Real(real) => real.fmt(f),
        }
    }
}

/// Why there is no value, for whoever wrote the expression; `at` is a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub at: usize,
    /// What.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.at + 1, self.text)
    }
}

type Outcome = Result<Number, Fault>;

/// A function of one number, and its name.
type Function = (&'static str, fn(f64) -> f64);

/// The functions that take one number.
const FUNCTIONS: [Function; 17] = [
    ("sqrt", f64::sqrt),
    ("cbrt", f64::cbrt),
    ("exp", f64::exp),
    ("ln", f64::ln),
    ("log2", f64::log2),
    ("log10", f64::log10),
    ("sin", f64::sin),
    ("cos", f64::cos),
    ("tan", f64::tan),
    ("asin", f64::asin),
    ("acos", f64::acos),
    ("atan", f64::atan),
    ("sinh", f64::sinh),
    ("cosh", f64::cosh),
    ("tanh", f64::tanh),
    ("rad", f64::to_radians),
    ("deg", f64::to_degrees),
];

/// What a caller may write, in one line: for descriptions and errors.
pub const HELP: &str = "numbers (12, 0.5, 1e-3, 1_000, 0xff), + - * / % ^, brackets, pi, e, tau, and sqrt cbrt \
     exp ln log2 log10 sin cos tan asin acos atan sinh cosh tanh rad deg abs floor ceil round trunc min max";

/// The value of an expression.
///
/// # Errors
/// What is wrong with it, and where.
pub fn calculate(text: &str) -> Outcome {
    if text.len() > EXPRESSION_LEN_MAX {
        let text = format!("the expression is longer than {EXPRESSION_LEN_MAX} bytes; take it apart");
        return Err(Fault { at: EXPRESSION_LEN_MAX, text });
    }
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.sum()?;
    match reader.peek() {
        None => Ok(value),
        Some(')') => Err(reader.fault("a bracket closes that was not opened")),
        Some(other) => Err(reader.fault(format!("{other:?} is not expected here; write {HELP}"))),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn fault(&self, text: impl Into<String>) -> Fault {
        Fault { at: self.at, text: text.into() }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&mut self) -> Option<char> {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    fn eat(&mut self, wanted: &str) -> bool {
        self.peek();
        let found = self.rest().starts_with(wanted);
        self.at += if found { wanted.len() } else { 0 };
        found
    }

    /// `a + b - c`
    fn sum(&mut self) -> Outcome {
        let mut left = self.product()?;
        loop {
            let at = self.at;
            left = if self.eat("+") {
                let right = self.product()?;
                either(left, right, i128::checked_add, |a, b| a + b)
            } else if self.eat("-") {
                let right = self.product()?;
                either(left, right, i128::checked_sub, |a, b| a - b)
            } else {
                return Ok(left);
            };
            left = finite(left, at)?;
        }
    }

    /// `a * b / c % d`
    fn product(&mut self) -> Outcome {
        let mut left = self.signed()?;
        loop {
            self.peek();
            let at = self.at;
            left = if self.rest().starts_with("**") {
                return Ok(left);
            } else if self.eat("*") {
                let right = self.signed()?;
                either(left, right, i128::checked_mul, |a, b| a * b)
            } else if self.eat("/") {
                let right = self.signed()?;
                quotient(left, right, at)?
            } else if self.eat("%") {
                let right = self.signed()?;
                if right.real() == 0.0 {
                    return Err(Fault { at, text: "the remainder of a division by zero".into() });
                }
                either(left, right, i128::checked_rem, |a, b| a % b)
            } else {
                return Ok(left);
            };
            left = finite(left, at)?;
        }
    }

    /// `-a`; a power binds closer.
    fn signed(&mut self) -> Outcome {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.fault(format!("nested deeper than {DEPTH_MAX}")));
        }
        let value = if self.eat("-") {
            match self.signed()? {
                Number::Whole(whole) => whole
                    .checked_neg()
                    .map_or_else(|| Number::Real(-Number::Whole(whole).real()), Number::Whole),
                Number::Real(real) => Number::Real(-real),
            }
        } else if self.eat("+") {
            self.signed()?
        } else {
            self.power()?
        };
        self.depth -= 1;
        Ok(value)
    }

    /// `a ^ b ^ c`, from the right.
    fn power(&mut self) -> Outcome {
        let base = self.atom()?;
        self.peek();
        let at = self.at;
        if !(self.eat("^") || self.eat("**")) {
            return Ok(base);
        }
        let exponent = self.signed()?;
        let exact = match (base, exponent) {
            (Number::Whole(base), Number::Whole(exponent)) => {
                u32::try_from(exponent).ok().and_then(|exponent| base.checked_pow(exponent))
            }
            _ => None,
        };
        let real = || Number::Real(base.real().powf(exponent.real()));
        finite(exact.map_or_else(real, Number::Whole), at)
    }

    fn atom(&mut self) -> Outcome {
        match self.peek() {
            None => Err(self.fault("the expression ends where a number is expected")),
            Some('(') => {
                self.at += 1;
                let value = self.sum()?;
                if self.eat(")") { Ok(value) } else { Err(self.fault("a bracket is not closed")) }
            }
            Some(first) if first.is_ascii_digit() || first == '.' => self.number(),
            Some(first) if first.is_ascii_alphabetic() => self.word(),
            Some(other) => Err(self.fault(format!("{other:?} is no number; write {HELP}"))),
        }
    }

    fn number(&mut self) -> Outcome {
        let at = self.at;
        if let Some(digits) = self.rest().strip_prefix("0x").or_else(|| self.rest().strip_prefix("0X")) {
            let len = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            let value = i128::from_str_radix(&digits[..len], 16);
            self.at += 2 + len;
            let text = "no hexadecimal number, or too large".into();
            return value.map(Number::Whole).map_err(|_| Fault { at, text });
        }
        let bytes = self.rest().as_bytes();
        let mut len = 0;
        while let Some(byte) = bytes.get(len) {
            let sign = matches!(byte, b'+' | b'-') && len > 0 && matches!(bytes[len - 1], b'e' | b'E');
            let exponent = matches!(byte, b'e' | b'E')
                && bytes
                    .get(len + 1)
                    .is_some_and(|next| next.is_ascii_digit() || matches!(next, b'+' | b'-'));
            if !(byte.is_ascii_digit() || matches!(byte, b'.' | b'_') || sign || exponent) {
                break;
            }
            len += 1;
        }
        let digits = self.rest()[..len].replace('_', "");
        self.at += len;
        if let Ok(whole) = digits.parse() {
            return Ok(Number::Whole(whole));
        }
        match digits.parse::<f64>() {
            Ok(real) => finite(Number::Real(real), at),
            Err(_) => Err(Fault { at, text: format!("{digits:?} is no number") }),
        }
    }

    fn word(&mut self) -> Outcome {
        let at = self.at;
        let len = self.rest().find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest().len());
        let word = self.rest()[..len].to_owned();
        self.at += len;
        match word.as_str() {
            "pi" => return Ok(Number::Real(std::f64::consts::PI)),
            "e" => return Ok(Number::Real(std::f64::consts::E)),
            "tau" => return Ok(Number::Real(std::f64::consts::TAU)),
            _ => {}
        }
        if !self.eat("(") {
            return Err(Fault { at, text: format!("{word} is not known; write {HELP}") });
        }
        let mut given = vec![self.sum()?];
        while self.eat(",") {
            given.push(self.sum()?);
        }
        if !self.eat(")") {
            return Err(self.fault("a bracket is not closed"));
        }
        finite(apply(&word, &given).map_err(|text| Fault { at, text })?, at)
    }
}

fn apply(word: &str, given: &[Number]) -> Result<Number, String> {
    let by = |less: bool| {
        let pick = |a: Number, b: Number| if (b.real() < a.real()) == less { b } else { a };
        given.iter().copied().reduce(pick).ok_or_else(|| format!("{word} needs a number"))
    };
    match word {
        "min" => return by(true),
        "max" => return by(false),
        _ => {}
    }
    let [value] = given else { return Err(format!("{word} takes one number, not {}", given.len())) };
    let rounded: Option<fn(f64) -> f64> = match word {
        "floor" => Some(f64::floor),
        "ceil" => Some(f64::ceil),
        "round" => Some(f64::round),
        "trunc" => Some(f64::trunc),
        _ => None,
    };
    match (word, value, rounded) {
        ("abs", Number::Whole(whole), _) => {
            Ok(whole.checked_abs().map_or(Number::Real(value.real().abs()), Number::Whole))
        }
        ("abs", Number::Real(real), _) => Ok(Number::Real(real.abs())),
        (_, Number::Whole(_), Some(_)) => Ok(*value),
        (_, Number::Real(real), Some(round)) => Ok(whole_of(round(*real))),
        _ => match FUNCTIONS.iter().find(|(name, _)| *name == word) {
            Some((_, function)) => Ok(Number::Real(function(value.real()))),
            None => Err(format!("{word} is not known; write {HELP}")),
        },
    }
}

/// A rounded number is whole where that is exact.
fn whole_of(real: f64) -> Number {
    #[expect(clippy::cast_possible_truncation, reason = "smaller than 2^53, and whole")]
    if real.abs() < 9_007_199_254_740_992.0 { Number::Whole(real as i128) } else { Number::Real(real) }
}

fn quotient(left: Number, right: Number, at: usize) -> Outcome {
    if right.real() == 0.0 {
        return Err(Fault { at, text: "a division by zero".into() });
    }
    if let (Number::Whole(left), Number::Whole(right)) = (left, right)
        && left.checked_rem(right) == Some(0)
    {
        return Ok(Number::Whole(left / right));
    }
    Ok(Number::Real(left.real() / right.real()))
}

fn either(
    left: Number,
    right: Number,
    whole: fn(i128, i128) -> Option<i128>,
    real: fn(f64, f64) -> f64,
) -> Number {
    let exact = match (left, right) {
        (Number::Whole(left), Number::Whole(right)) => whole(left, right),
        _ => None,
    };
    exact.map_or_else(|| Number::Real(real(left.real(), right.real())), Number::Whole)
}

fn finite(number: Number, at: usize) -> Outcome {
    match number {
        Number::Real(real) if real.is_nan() => {
            Err(Fault { at, text: "no real number is the result of this".into() })
        }
        Number::Real(real) if real.is_infinite() => {
            Err(Fault { at, text: "the result is too large: beyond 1.8e308".into() })
        }
        number => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> String {
        calculate(text).unwrap_or_else(|fault| panic!("{text}: {fault}")).to_string()
    }

    #[test]
    fn operators_bind_as_on_paper() {
        for (text, wanted) in [
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * 3", "9"),
            ("2 ^ 3 ^ 2", "512"),
            ("2 ** 10", "1024"),
            ("-2 ^ 2", "-4"),
            ("2 ^ -1", "0.5"),
            ("10 / 4", "2.5"),
            ("10 / 5", "2"),
            ("7 % 4 - -1", "4"),
            ("1_000 * 0xff", "255000"),
            ("1e3 + .5", "1000.5"),
            ("2e", "no"),
            ("sqrt(16) + abs(-3)", "7"),
            ("min(3, 1, 2) + max(4, 9)", "10"),
            ("round(2.5) + floor(-1.5) + ceil(1.2)", "3"),
            ("cos(pi)", "-1"),
            ("2 ^ 100", "1267650600228229401496703205376"),
            ("0.1 + 0.2", "0.30000000000000004"),
        ] {
            if wanted == "no" {
                assert!(calculate(text).is_err(), "{text}");
            } else {
                assert_eq!(value(text), wanted, "{text}");
            }
        }
    }

    #[test]
    fn what_has_no_value_says_where_and_why() {
        for (text, wanted) in [
            ("", "ends"),
            ("1 +", "ends"),
            ("1 / 0", "division by zero"),
            ("1 % 0", "division by zero"),
            ("sqrt(-1)", "no real number"),
            ("ln(0)", "too large"),
            ("10 ^ 400", "too large"),
            ("(1", "not closed"),
            ("1)", "not opened"),
            ("system(1)", "not known"),
            ("__import__", "no number"),
            ("1; 2", "not expected"),
            ("sqrt(1, 2)", "one number"),
            ("1..2", "no number"),
        ] {
            let fault = calculate(text).unwrap_err();
            assert!(fault.to_string().contains(wanted), "{text}: {fault}");
        }
        assert!(calculate(&"(".repeat(900)).unwrap_err().text.contains("deeper"));
        assert!(calculate(&"-".repeat(1000)).unwrap_err().text.contains("deeper"));
        assert!(calculate(&"2^".repeat(500)).unwrap_err().text.contains("deeper"));
        assert!(calculate(&"1".repeat(2000)).unwrap_err().text.contains("longer"));
        assert!(!calculate(&"9".repeat(60)).unwrap().is_exact());
    }

    proptest! {
        #[test]
        fn no_expression_makes_it_panic(text in "[-0-9+*/%^(). exsqrtpi,_é]{0,80}") {
            let _ = calculate(&text);
        }

        #[test]
        fn whole_numbers_are_exact(a in -1_000_000_i64..1_000_000, b in -1_000_000_i64..1_000_000) {
            prop_assert_eq!(value(&format!("({a}) * ({b}) - ({b})")), (a * b - b).to_string());
        }
    }
}
