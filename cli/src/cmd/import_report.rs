//! What `import` says about each input, and the exit code of all together.

use everlog::{ImportReport, ImportWarning};

use crate::args::{Globals, Import, ImportFormat, Shape};
use crate::exit::{FAILED, Failure, NEWER, PARTLY, say};
use crate::inputs::Input;
use crate::json_out::{Object, array};
use crate::out::Out;
use crate::text;

/// Prints a report an input and counts them.
pub(super) struct Reporter<'a> {
    globals: &'a Globals,
    shape: Shape,
    format: &'static str,
    out: Out,
    printed: usize,
    imported: usize,
    refused: usize,
    unsupported: usize,
    /// Lines that were kept aside, and inputs that held some.
    aside: (u64, usize),
}

impl<'a> Reporter<'a> {
    pub(super) fn new(globals: &'a Globals, args: &Import) -> Self {
        let shape = super::shape_or_default(args.output);
        Self {
            globals,
            shape,
            format: if args.format == ImportFormat::Jsonl { "jsonl" } else { "dsh" },
            out: Out::new(),
            printed: 0,
            imported: 0,
            refused: 0,
            unsupported: 0,
            aside: (0, 0),
        }
    }

    pub(super) fn report(
        &mut self,
        input: &Input,
        result: &Result<ImportReport, Failure>,
    ) -> Result<(), Failure> {
        match result {
            Ok(report) => {
                self.imported += 1;
                self.aside.0 += report.salvaged;
                self.aside.1 += usize::from(report.salvaged > 0);
            }
            Err(stop) if stop.is_stop() => return Err(stop.clone()),
            Err(failure) => {
                self.refused += 1;
                self.unsupported += usize::from(failure.kind() == "unsupported");
            }
        }
        match self.shape {
            Shape::Json => {
                self.out.put(if self.printed == 0 { b"[" } else { b"," })?;
                self.out.put(&object(self.format, input, result))?;
            }
            Shape::Jsonl => self.out.line(object(self.format, input, result))?,
            Shape::Table | Shape::Text => self.tell(input, result)?,
        }
        self.printed += 1;
        self.out.finish()
    }

    /// For people: what came in on standard output, what did not on standard error.
    fn tell(
        &mut self,
        input: &Input,
        result: &Result<ImportReport, Failure>,
    ) -> Result<(), Failure> {
        let path = text::line(input.path().as_os_str().as_encoded_bytes());
        match result {
            Ok(report) => {
                for warning in report.warnings.iter().filter(|_| !self.globals.quiet) {
                    say(&format!("warning: {path}: {}", warned(warning)));
                }
                let id = text::line(report.session.as_bytes());
                if self.shape == Shape::Text {
                    return self
                        .out
                        .line(format!("{id}\t{}\t{}\t{path}", report.stored, report.added));
                }
                let (stored, added) = (text::count(report.stored), text::count(report.added));
                self.out.line(format!("{id}  {stored} events, {added} new  {path}"))
            }
            Err(failure) => {
                say(&format!("refused: {path}: {}", failure.to_line()));
                if let Some(hint) = failure.hint() {
                    say(&format!("hint: {hint}"));
                }
                Ok(())
            }
        }
    }

    pub(super) fn end(&mut self) -> Result<(), Failure> {
        if self.shape == Shape::Json {
            self.out.line(if self.printed == 0 { "[]" } else { "]" })?;
        }
        self.out.finish()?;
        let message = format!("{} of {} inputs were refused", self.refused, self.printed);
        match (self.refused, self.imported) {
            (0, _) if self.aside.0 > 0 => {
                let (lines, inputs) = self.aside;
                let message = format!("{lines} lines of {inputs} inputs were kept aside");
                Err(Failure::new(PARTLY, "partly", message).with_hint(
                    "they are events of type everlog/salvaged; `everlog cat` shows them",
                ))
            }
            (0, _) => Ok(()),
            (n, 0) if n == self.unsupported => Err(Failure::new(NEWER, "unsupported", message)),
            (_, 0) => Err(Failure::new(FAILED, "refused", message)),
            _ => Err(Failure::new(PARTLY, "partly", message)),
        }
    }
}

fn object(format: &str, input: &Input, result: &Result<ImportReport, Failure>) -> Vec<u8> {
    let path = input.path().as_os_str().as_encoded_bytes();
    let object = Object::new().text("kind", "import").text("path", path).flag("ok", result.is_ok());
    match result {
        Ok(report) => object
            .text("session", report.session.as_bytes())
            .text("format", format)
            .number("stored", report.stored)
            .number("added", report.added)
            .number("torn_bytes", report.torn_bytes)
            .number("salvaged", report.salvaged)
            .raw("salvaged_lines", &array(report.aside.iter().map(range)))
            .raw("warnings", &array(report.warnings.iter().map(warning)))
            .end(),
        Err(failure) => object.raw("error", &failure.to_json()).end(),
    }
}

fn range(lines: &everlog::dsh::LineRange) -> Vec<u8> {
    format!("[{},{}]", lines.first, lines.last).into_bytes()
}

fn warning(w: &ImportWarning) -> Vec<u8> {
    let place = Object::nested().maybe_number("line", w.line).maybe_number("offset", w.offset);
    place.text("message", &w.message).end()
}

fn warned(w: &ImportWarning) -> String {
    let mut line = text::line(w.message.as_bytes());
    if let Some(n) = w.line {
        line.push_str(&format!(", line {n}"));
    }
    if let Some(n) = w.offset {
        line.push_str(&format!(", byte {n}"));
    }
    line
}
