//! Finds the modules a Rust file declares, line by line, as rustfmt writes them.

pub(super) struct Module<'t> {
    pub(super) line: usize,
    pub(super) name: &'t str,
    /// Whether it is written in this file, not in one of its own.
    pub(super) is_inline: bool,
    /// The path of a `#[path = "…"]` above it.
    pub(super) path: Option<&'t str>,
}

pub(super) fn declared(text: &str) -> Vec<Module<'_>> {
    let mut found = Vec::new();
    let mut path = None;
    for (line, code) in (1..).zip(text.lines()) {
        let mut code = code.trim();
        while let Some((attribute, rest)) = code.strip_prefix("#[").and_then(|code| code.split_once(']')) {
            path = attribute.strip_prefix("path = ").or(path);
            code = rest.trim_start();
        }
        if code.is_empty() {
            continue; // Only attributes here: they belong to what comes next.
        }
        let path = path.take().map(|quoted| quoted.trim_matches('"'));
        if let Some((name, is_inline)) = declaration(code) {
            found.push(Module { line, name, is_inline, path });
        }
    }
    found
}

fn declaration(code: &str) -> Option<(&str, bool)> {
    let code = match code.strip_prefix("pub") {
        Some(scoped) if scoped.starts_with('(') => scoped.split_once(')')?.1,
        Some(public) => public,
        None => code,
    };
    let code = code.trim_start().strip_prefix("mod ")?;
    let (name, rest) = code.split_at(code.find([';', ' '])?);
    match rest.trim_start().chars().next()? {
        ';' => Some((name, false)),
        '{' => Some((name, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, &str, bool, Option<&str>)]) {
        let modules = declared(text).into_iter();
        let found: Vec<_> = modules.map(|it| (it.line, it.name, it.is_inline, it.path)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_declaration_is_known_in_every_dress() {
        check("mod a;\npub(crate) mod b;\n", &[(1, "a", false, None), (2, "b", false, None)]);
        check("#[cfg(test)]\npub mod c {\n", &[(2, "c", true, None)]);
        check("#[path = \"x/y.rs\"]\n#[cfg(unix)] mod d;\n", &[(2, "d", false, Some("x/y.rs"))]);
    }

    #[test]
    fn prose_and_other_code_declare_nothing() {
        check("// mod a;\nlet model = 1;\nmod_a();\npublic();\nmod is a word\n", &[]);
    }
}
