//! Any NCCL WARN that no other rule explains, and what NCCL tells of the kind at level INFO.

use super::{Implies, ONCE, Rule, TextContext};
use crate::base::severity::{Confidence, Severity};
use crate::base::words::shape;
use crate::logs::What;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "nccl-warn",
    severity: Severity::Warning,
    title: "NCCL printed a WARN, or at level INFO what is known to be trouble, that no other rule stands for",
    how: "A line of level WARN in any of NCCL's forms, or one of level INFO that the catalogue knows; lines that differ only in numbers and addresses are counted as one",
    advice: "The first WARN in time is usually the cause; \"connection closed by remote peer\" and proxy warnings that follow it are consequences",
    life: ONCE,
    implies: Implies::Nothing,
    on_text: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &TextContext, out: &mut Vec<Finding>) {
    let What::NcclWarn { site, text } = &ctx.seen.event.what else { return };
    if ctx.signature().is_some() {
        return;
    }
    let mut found = ctx.found(&RULE, shape(text), crate::base::clean::clip(text, 200).into_owned());
    found.confidence = Confidence::Certain;
    found.why = site
        .as_ref()
        .map_or("a WARN line of NCCL".into(), |site| format!("a WARN line of NCCL, from {}", crate::base::clean::clip(site, 80)));
    out.push(found);
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn warns_that_differ_only_in_numbers_have_one_shape() {
        assert_eq!(
            shape("socketProgress: Connection closed by remote peer node-3<43211>"),
            shape("socketProgress: Connection closed by remote peer node-17<9>")
        );
        assert_eq!(shape("comm 0x55d0c0de0010 rank 3"), shape("comm 0x7f31c2000000 rank 12"));
        assert_ne!(shape("Cuda failure 2 'out of memory'"), shape("Cuda failure 2 'invalid argument'"));
    }
}
