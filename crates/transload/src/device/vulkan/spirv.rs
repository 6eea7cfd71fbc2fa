//! What must be known of a module of SPIR-V before a driver is given it.
//!
//! A module is words: five of a header, then instructions, each with its length and number in its first word ("Physical Layout
//! of a SPIR-V Module and Instruction" of the specification).

use super::kernel::Use;

/// Kernels run in groups of this many.
pub(super) const GROUP: u32 = 64;

const MAGIC: u32 = 0x0723_0203;
/// The latest version that Vulkan 1.2 takes.
const VERSION: u32 = 0x0001_0500;
const HEADER_WORDS: usize = 5;

const OP_ENTRY_POINT: u32 = 15;
const OP_EXECUTION_MODE: u32 = 16;
const OP_TYPE_STRUCT: u32 = 30;
const OP_TYPE_POINTER: u32 = 32;
const OP_FUNCTION: u32 = 54;
const OP_FUNCTION_END: u32 = 56;
const OP_FUNCTION_CALL: u32 = 57;
const GL_COMPUTE: u32 = 5;
const LOCAL_SIZE: u32 = 17;
const PUSH_CONSTANT: u32 = 9;

/// The words of a module, in this machine's order.
pub(super) fn words(bytes: &[u8]) -> Result<Vec<u32>, String> {
    let (chunks, rest) = bytes.as_chunks::<4>();
    let words: Vec<u32> = chunks.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let words = match words.first() {
        Some(&MAGIC) => words,
        Some(first) if first.swap_bytes() == MAGIC => words.into_iter().map(u32::swap_bytes).collect(),
        _ => return Err("this is no SPIR-V: it does not begin with 0x07230203".to_owned()),
    };
    if !rest.is_empty() || words.len() < HEADER_WORDS {
        return Err(format!("{} bytes are no whole module of SPIR-V: it is cut off", bytes.len()));
    }
    if words[1] > VERSION {
        let (major, minor) = (words[1] >> 16 & 0xff, words[1] >> 8 & 0xff);
        return Err(format!("it is SPIR-V {major}.{minor}, and drivers of Vulkan 1.2 take 1.5 at most"));
    }
    Ok(words)
}

/// Why a module cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not whole.
    Broken(String),
    /// It has no such kernel, or that is none of ours.
    NoSuchKernel(String),
}

/// What of a module matters here. Functions have numbers.
#[derive(Debug, Default)]
struct Module<'a> {
    kernels: Vec<(u32, String)>,
    groups: Vec<(u32, &'a [u32])>,
    /// With how many members each has.
    structs: Vec<(u32, usize)>,
    /// How many there are.
    parameters: Option<usize>,
    functions: Vec<u32>,
    called: Vec<u32>,
    /// Whether the last function has not ended.
    is_open: bool,
}

impl<'a> Module<'a> {
    fn read(words: &'a [u32]) -> Result<Self, Fault> {
        let mut module = Self::default();
        let mut rest = &words[HEADER_WORDS..];
        while let Some(&first) = rest.first() {
            let (len_words, number) = (first as usize >> 16, first & 0xffff);
            let Some(instruction) = rest.get(..len_words).filter(|words| !words.is_empty()) else {
                return Err(Fault::Broken("it is cut off in the middle of an instruction".to_owned()));
            };
            rest = &rest[len_words..];
            module.note(number, &instruction[1..]);
        }
        Ok(module)
    }

    fn note(&mut self, number: u32, operands: &'a [u32]) {
        match (number, operands) {
            (OP_ENTRY_POINT, [GL_COMPUTE, id, name @ ..]) => self.kernels.push((*id, text(name))),
            (OP_EXECUTION_MODE, [id, LOCAL_SIZE, size @ ..]) => self.groups.push((*id, size)),
            (OP_TYPE_STRUCT, [id, members @ ..]) => self.structs.push((*id, members.len())),
            (OP_TYPE_POINTER, [_, PUSH_CONSTANT, to]) => {
                let found = self.structs.iter().find(|(id, _)| id == to);
                self.parameters = found.map(|(_, members)| *members).or(self.parameters);
            }
            (OP_FUNCTION, [_, id, ..]) => {
                self.functions.push(*id);
                self.is_open = true;
            }
            (OP_FUNCTION_END, _) => self.is_open = false,
            (OP_FUNCTION_CALL, [_, _, id, ..]) => self.called.push(*id),
            _ => {}
        }
    }

    /// Whether all of its functions are there, to their ends. Functions are the last part of a module, so whatever was cut
    /// off at its end, some of them, or of their instructions, went with it.
    fn is_whole(&self) -> bool {
        let mut needed = self.kernels.iter().map(|(id, _)| id).chain(&self.called);
        !self.is_open && !self.functions.is_empty() && needed.all(|id| self.functions.contains(id))
    }
}

/// What the kernel of a name is for.
pub(super) fn kernel(words: &[u32], entry: &str) -> Result<Use, Fault> {
    let module = Module::read(words)?;
    // Drivers do not compare: some run into nothing, others run what is left.
    if !module.is_whole() {
        return Err(Fault::Broken("it is cut off: a function is missing, or its end".to_owned()));
    }
    let Some((id, _)) = module.kernels.iter().find(|(_, name)| name == entry) else {
        let names: Vec<&str> = module.kernels.iter().map(|(_, name)| name.as_str()).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(Fault::NoSuchKernel(format!("it has {there}")));
    };
    let group = module.groups.iter().find(|(of, _)| of == id).map_or(&[][..], |(_, size)| size);
    if group != [GROUP, 1, 1] {
        return Err(Fault::NoSuchKernel(format!(
            "it runs in groups of {group:?}, and not of [{GROUP}, 1, 1], as it would if it included transload_device.glsl"
        )));
    }
    match module.parameters {
        Some(6) => Ok(Use::Batches),
        Some(2) => Ok(Use::Queues),
        _ => Err(Fault::NoSuchKernel(
            "it does not have the parameters of TRANSLOAD_BATCH or TRANSLOAD_QUEUES in transload_device.glsl"
                .to_owned(),
        )),
    }
}

/// A name: bytes up to a zero, four in a word, the lowest first.
fn text(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKSUM: &[u8] = include_bytes!("../../../../../examples/checksum.spv");
    const ECHO: &[u8] = include_bytes!("../../../../../examples/echo.spv");

    #[test]
    fn kernels_are_told_apart() {
        assert_eq!(kernel(&words(CHECKSUM).unwrap(), "fnv1a"), Ok(Use::Batches));
        assert_eq!(kernel(&words(ECHO).unwrap(), "echo"), Ok(Use::Queues));
        let missing = kernel(&words(CHECKSUM).unwrap(), "main").unwrap_err();
        assert_eq!(missing, Fault::NoSuchKernel("it has fnv1a".to_owned()));
    }

    #[test]
    fn either_order_of_bytes_is_read() {
        let turned: Vec<u8> =
            CHECKSUM.as_chunks::<4>().0.iter().flat_map(|[a, b, c, d]| [*d, *c, *b, *a]).collect();
        assert_eq!(words(&turned), words(CHECKSUM));
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(words(b"").is_err());
        assert!(words(b"__kernel void fnv1a()").unwrap_err().contains("no SPIR-V"));
        assert!(words(&CHECKSUM[..18]).unwrap_err().contains("cut off"));
        assert!(words(&CHECKSUM[..CHECKSUM.len() - 1]).unwrap_err().contains("cut off"));
        let mut later = CHECKSUM.to_vec();
        later[5..7].copy_from_slice(&[6, 1]);
        assert!(words(&later).unwrap_err().contains("SPIR-V 1.6"));
    }

    #[test]
    fn other_groups_and_parameters_are_refused() {
        let words = words(CHECKSUM).unwrap();
        for (from, to) in [
            (
                [OP_EXECUTION_MODE | 6 << 16, 4, LOCAL_SIZE, 64],
                [OP_EXECUTION_MODE | 6 << 16, 4, LOCAL_SIZE, 32],
            ),
            // All pointers to push constants become pointers to something else.
            ([0; 4], [0; 4]),
        ] {
            let mut words = words.clone();
            if from == to {
                for at in HEADER_WORDS..words.len() - 3 {
                    if words[at] == OP_TYPE_POINTER | 4 << 16 && words[at + 2] == PUSH_CONSTANT {
                        words[at + 2] = 7;
                    }
                }
            } else {
                let at = words.windows(4).position(|window| window == from).unwrap();
                words[at..at + 4].copy_from_slice(&to);
            }
            assert!(matches!(kernel(&words, "fnv1a"), Err(Fault::NoSuchKernel(_))));
        }
    }

    /// Cut off anywhere it is refused; with any word changed there is an answer, and no panic.
    #[test]
    fn broken_modules_are_answered() {
        let words = words(CHECKSUM).unwrap();
        for len in HEADER_WORDS..words.len() {
            assert!(matches!(kernel(&words[..len], "fnv1a"), Err(Fault::Broken(_))), "{len} words");
        }
        let mut broken = 0;
        for at in HEADER_WORDS..words.len() {
            for word in [0, u32::MAX, 1 << 16] {
                let mut words = words.clone();
                words[at] = word;
                broken += usize::from(matches!(kernel(&words, "fnv1a"), Err(Fault::Broken(_))));
            }
        }
        assert!(broken > 100, "{broken}");
    }
}
