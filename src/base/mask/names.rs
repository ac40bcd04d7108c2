//! Which names are names of secrets: `HF_TOKEN`, `apiKey`, `--wandb-key`, but not `pad_token_id`, `max_tokens` and `store key`.

use std::ops::Range;

/// How much a name says of its value. The later, the more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Plain,
    /// Secret if the value looks as if chance had made it.
    Weak,
    /// `Cookie:` and the like: secret if the value has an equals sign or looks random.
    Cookie,
    /// A token, of which texts of language models are full: secret if it is no small number and no short word.
    Token,
    /// A secret, unless it is a count.
    Counted,
    Password,
    /// `Authorization: Bearer …`: the first word may be no secret.
    Header,
}

/// What makes a key a secret one.
const KEYS: &str = "\
    access accesskey account admin aes amqp anthropic api app application auth azure bearer boto bot client cohere comet consumer \
    crypt datadog dd decrypt decryption deploy deployment encrypt encryption fernet gcp gemini github gitlab google groq hf hmac \
    host hub integration jwt license machine master mistral mlflow neptune ngc nvidia openai pem personal pgp private rsa s3 secret \
    security sendgrid sentry server service session shared sharedaccess signing signature ssh stripe storage subscription tls \
    together unlock vault wandb webhook wg wireguard write";

/// What makes a key that of a table, a cache or an attention.
const PLAIN_KEYS: &str = "\
    attention attn batch cache causal color compile config cross cuda data dataset default dict expected feature field file foreign \
    graph group hash hot index invalid item join json kernel key label layer log lookup map memo message metric missing mm model \
    module nccl num object param parameter part partition primary public q query record registry row sample self shard shuffle sort \
    state step store sub sync tensor the torch tuning tune unexpected unique unknown v value variable weight with yaml";

/// Tokens of language models, of parsers and of schedulers.
const PLAIN_TOKENS: &str = "\
    a added additional after all an and another any audio avg bad before begin beginning blank bos boi by class cls count current \
    dec decoder each empty end eod eoi eos eot eom every expected extra fill filler first for forced generated ignore illegal image \
    img in input invalid last length loss mask max mean min missing ms multi new next no num number of one or output pad padding \
    patch per placeholder pred predicted prefix previous prompt query sampled sec sentinel sep separator single sot special speech \
    start stop sub target text the time to total transcribe translate unexpected unk unknown us valid video vision vocab word";

const PLAIN_PASSES: &str = "\
    all backward bwd by compile each first forward fwd graph inductor last low multi next num one opt per second single this test \
    two";

/// Words that are a secret's name by themselves, as they are written without a gap.
const JOINED_KEYS: &str = "\
    apikey accesskey accesskeyid secretkey authkey privatekey sshkey masterkey accountkey passkey appkey encryptionkey signingkey \
    licensekey apikeys secretaccesskey";
const JOINED_TOKENS: &str = "\
    accesstoken apitoken authtoken bearertoken bottoken csrftoken deploytoken githubtoken hftoken idtoken mytoken refreshtoken \
    securitytoken sessiontoken usertoken wandbtoken xsrftoken oauthtoken authenticitytoken";
const JOINED_PASSES: &str = "\
    dbpass userpass mypass rootpass smtppass requirepass keypass storepass ftppass ldappass sshpass passin passout masterauth \
    passkey mysqlpwd";

/// What may follow the word that says it, without changing what it is.
const STILL: &str = "\
    admin b64 backup base base64 current data default dev encoded hex local main master new old orig plain primary prod production \
    raw readonly ro root rw secondary stage staging str string test text user val value values write";

/// What may not, even in the name of a variable of the environment.
const PLAIN_ENDS: &str = "\
    algorithm arn auth budget cache checkpoint class cmd command count dim dir directory enabled endpoint env exists expiration \
    expires expiry file files folder format header helper id idx ids index indices kind len length level limit lifetime loss manager \
    mask max method min mode model name names num padding parallelism path paths per plugin policy prefix provider ref required \
    rotation scope server service set size source store suffix through timeout ttl type uri url usage user username version warning";

/// Whether a list, written as words with blanks between them, has a word in it. Capitals do not count.
pub fn is_among(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known.eq_ignore_ascii_case(word))
}

fn is_part(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')
}

/// No name of a secret is longer, in bytes.
const LONGEST: usize = 100;

/// The name that a word is part of; of one that is too long, only as much as shows that it is.
pub fn around(text: &str, word: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let mut start = word.start - bytes[..word.start].iter().rev().take(LONGEST).take_while(|b| is_part(**b)).count();
    // `\nHF_TOKEN=…` within a text that is quoted: the letter is part of the line feed.
    if start > 0 && bytes[start - 1] == b'\\' && start < word.start && matches!(bytes[start], b'n' | b't' | b'r') {
        start += 1;
    }
    let end = word.end + bytes[word.end..].iter().take(LONGEST).take_while(|b| is_part(**b)).count();
    start..end
}

/// `apiKey`, `API_KEY`, `api-key`: api, key. As lower-case words; the last 8 of them.
fn words_of(name: &str) -> Vec<String> {
    let bytes = name.as_bytes();
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    for (i, b) in bytes.iter().enumerate() {
        if !b.is_ascii_alphanumeric() {
            open = false;
            continue;
        }
        let before = i.checked_sub(1).map(|i| bytes[i]);
        let next_is_lower = bytes.get(i + 1).is_some_and(u8::is_ascii_lowercase);
        let humps = b.is_ascii_uppercase()
            && before.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || (c.is_ascii_uppercase() && next_is_lower));
        if !open || humps {
            words.push(String::new());
        }
        open = true;
        if let Some(word) = words.last_mut() {
            word.push(b.to_ascii_lowercase() as char);
        }
    }
    words.split_off(words.len().saturating_sub(8))
}

/// The word before a short name, where a blank or a dot is between the two: `API key: …`, `secret.key=…`.
fn word_before<'a>(text: &'a str, name: &Range<usize>) -> Option<&'a str> {
    let before = text[..name.start].strip_suffix([' ', '.'])?;
    let word = &before[before.len() - before.bytes().rev().take_while(u8::is_ascii_alphabetic).count()..];
    (!word.is_empty()).then_some(word)
}

/// What the name at a place of a text says of its value.
pub fn class(text: &str, range: &Range<usize>) -> Class {
    let name = &text[range.clone()];
    if name.len() > LONGEST {
        return Class::Plain;
    }
    let is_flag = name.starts_with('-') && name.len() > 2;
    let is_variable = name.bytes().any(|b| b.is_ascii_uppercase()) && !name.bytes().any(|b| b.is_ascii_lowercase());
    let in_url = text[..range.start].ends_with(['?', '&', ';']);
    let mut words = words_of(name);
    if !is_flag && words.len() <= 2 && !name.starts_with(['_', '-']) {
        words.splice(0..0, word_before(text, range).map(str::to_ascii_lowercase));
    }
    let has_gap = words_of(name).len() < words.len();
    let words: Vec<&str> = words.iter().map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit())).collect();
    let of = |at: usize| class_of_word(&words[..at], words[at], Context { is_flag, is_variable, in_url, has_gap: has_gap && at == 1 });
    let Some((at, class)) = (usize::from(has_gap)..words.len()).rev().map(|at| (at, of(at))).find(|(_, class)| *class != Class::Plain)
    else {
        return Class::Plain;
    };
    let rest = &words[at + 1..];
    // An id of an access key belongs to its secret.
    let is_key_id = rest == ["id"] && words[at] == "key" && at > 0 && words[at - 1] == "access";
    let still = |word: &&str| word.is_empty() || is_among(STILL, word) || (is_variable && !is_among(PLAIN_ENDS, word));
    if is_key_id || rest.iter().all(still) { class } else { Class::Plain }
}

#[derive(Clone, Copy)]
struct Context {
    is_flag: bool,
    /// Capitals only, as variables of the environment are written.
    is_variable: bool,
    in_url: bool,
    /// The word before is not part of the name: it may be any word of a sentence.
    has_gap: bool,
}

fn class_of_word(before: &[&str], word: &str, ctx: Context) -> Class {
    let last = before.last().copied().unwrap_or_default();
    let sure = ctx.is_flag || ctx.in_url;
    let either = |yes: bool, one: Class, other: Class| if yes { one } else { other };
    match word {
        "password" | "passwd" | "passphrase" | "passcode" | "passwort" | "secret" => Class::Password,
        "phrase" if last == "pass" => Class::Password,
        "passwords" | "secrets" | "credential" | "credentials" | "cred" | "creds" | "bearer" => Class::Counted,
        // The working directory, and a password in strings for databases.
        "pwd" if before.is_empty() || last == "old" => either(ctx.is_variable && !ctx.in_url, Class::Plain, Class::Token),
        "pwd" => Class::Password,
        "pass" if is_among(PLAIN_PASSES, last) => Class::Plain,
        "pass" => either((before.is_empty() || ctx.has_gap) && !ctx.is_flag && !ctx.is_variable, Class::Token, Class::Counted),
        "token" if sure && before.is_empty() => Class::Counted,
        "token" if is_among(PLAIN_TOKENS, last) => either(ctx.is_flag, Class::Weak, Class::Plain),
        "token" => either(before.is_empty() || ctx.has_gap, Class::Token, Class::Counted),
        "tokens" => either(matches!(last, "access" | "api" | "auth" | "bearer" | "refresh"), Class::Counted, Class::Plain),
        "key" | "keys" if is_among(KEYS, last) => either(word == "key", Class::Password, Class::Counted),
        "key" | "keys" if is_among(PLAIN_KEYS, last) => either(ctx.is_flag, Class::Weak, Class::Plain),
        "key" if before.is_empty() || ctx.has_gap => either(sure, Class::Weak, Class::Plain),
        "key" => either(ctx.is_variable, Class::Counted, Class::Weak),
        "auth" => either(ctx.is_flag || (ctx.is_variable && before.is_empty()), Class::Counted, Class::Weak),
        "authorization" => Class::Header,
        "jwt" | "webhook" => Class::Counted,
        "pat" if !before.is_empty() => Class::Counted,
        "cookie" | "cookies" => either(ctx.is_flag || ctx.is_variable, Class::Counted, Class::Cookie),
        "signature" | "sig" => either(ctx.in_url || matches!(last, "amz" | "goog" | "access"), Class::Password, Class::Plain),
        "sessionid" => Class::Weak,
        // What a login comes back with.
        "code" if ctx.in_url && before.is_empty() => Class::Weak,
        _ => class_of_joined(word, ctx),
    }
}

/// Of words that are written without a gap.
fn class_of_joined(word: &str, ctx: Context) -> Class {
    let ends = |ends: &[&str]| ends.iter().find_map(|end| word.strip_suffix(end));
    if is_among(JOINED_KEYS, word) || is_among(JOINED_PASSES, word) || ends(&["password", "passwd", "passphrase", "secret"]).is_some() {
        return Class::Password;
    }
    match (ends(&["token"]), ends(&["key"])) {
        _ if is_among(JOINED_TOKENS, word) => Class::Counted,
        (Some(of), _) if ctx.is_flag && !is_among(PLAIN_TOKENS, of) => Class::Counted,
        (Some(_), _) | (_, Some(_)) if ctx.is_flag => Class::Weak,
        _ => Class::Plain,
    }
}
